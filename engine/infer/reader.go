package infer

import (
	"cmp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// node is an object while its edges are looked for.
type node struct {
	*Object
	at   int // in reader.nodes
	root refs.Field
	// pods are those that it makes, where works is set.
	pods  refs.Pods
	works bool
	// labels are its own, podLabels those of its pods.
	labels, podLabels map[string]any
}

// name is the object's.
func (n *node) name() plan.Object { return n.Object.Object }

func (n *node) kind() plan.GroupKind {
	return plan.GroupKind{Group: n.name().Group, Kind: n.name().Kind}
}

// idle reports whether nothing of the object runs: it waits for nothing.
func (n *node) idle() bool { return n.works && n.pods.None && n.name().Kind != "CronJob" }

// reader collects the edges between the objects of a release.
type reader struct {
	nodes []*node // by object, each once
	by    map[plan.Object]*node
	found map[[2]int]Edge // the best reason for each pair
}

func newReader(objects []Object) *reader {
	r := &reader{by: make(map[plan.Object]*node, len(objects)), found: map[[2]int]Edge{}}
	sorted := make([]*Object, len(objects))
	for i := range objects {
		sorted[i] = &objects[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Object) int {
		return cmp.Or(a.Object.Compare(b.Object), strings.Compare(a.Chart, b.Chart))
	})
	for _, o := range sorted {
		if r.by[o.Object] != nil {
			continue // it is applied once
		}
		n := &node{Object: o, at: len(r.nodes), root: refs.Field{Value: o.Fields}}
		n.labels, _ = n.root.At("metadata", "labels").Value.(map[string]any)
		if n.pods, n.works = refs.PodsOf(o.Object, o.Fields); n.works {
			n.podLabels, _ = n.pods.Meta["labels"].(map[string]any)
			n.works = o.Object.Kind != "PodTemplate"
		}
		r.nodes = append(r.nodes, n)
		r.by[o.Object] = n
	}
	return r
}

// add takes an edge, unless a better reason for it is known.
func (r *reader) add(from, to *node, s Strength, why Reason) {
	if from == nil || to == nil || from == to || from.idle() {
		return
	}
	if why.In == (plan.Object{}) {
		why.In = from.name()
	}
	e := Edge{From: from.name(), To: to.name(), Strength: s, Reason: why}
	key := [2]int{from.at, to.at}
	old, known := r.found[key]
	if !known || cmp.Or(compareStrength(e, old), e.Reason.In.Compare(old.Reason.In), strings.Compare(e.Reason.Path, old.Reason.Path)) < 0 {
		r.found[key] = e
	}
}

// edges are those that were found, by their objects.
func (r *reader) edges() []Edge {
	edges := make([]Edge, 0, len(r.found))
	keys := make([][2]int, 0, len(r.found))
	for key := range r.found {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, key := range keys {
		edges = append(edges, r.found[key])
	}
	return edges
}
