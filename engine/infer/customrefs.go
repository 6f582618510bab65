package infer

import (
	"cmp"
	"fmt"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// customReferenceEdges makes custom resources wait for the custom resources and workloads that they name: by a reference,
// as a Certificate names its Issuer with issuerRef, or by a label of their API, as a KafkaConnector names its KafkaConnect
// with strimzi.io/cluster.
func (r *reader) customReferenceEdges() {
	byName := map[string][]*node{}
	for _, n := range r.nodes {
		if !builtinGroup(n.name().Group) && n.kind != crd || n.isWorkload {
			byName[n.name().Name] = append(byName[n.name().Name], n)
		}
	}
	for _, n := range r.nodes {
		if builtinGroup(n.name().Group) || strings.HasSuffix(n.name().Group, "cluster.x-k8s.io") {
			continue // an object of the Cluster API names those that wait for it
		}
		for _, key := range sortedKeys(n.labels) {
			if name, _ := n.labels[key].(string); name != "" {
				r.labelReference(n, key, byName[name])
			}
		}
		r.fieldReferences(n, n.root.At("spec"), byName)
	}
}

// labelReference adds the edge for a label DOMAIN/cluster or DOMAIN/KIND with the name of another object of the domain. A
// pool is a part of its cluster, which is not ready without it.
func (r *reader) labelReference(n *node, key string, candidates []*node) {
	domain, what, _ := strings.Cut(key, "/")
	group := n.name().Group
	if group != domain && !strings.HasSuffix(group, "."+domain) || strings.HasSuffix(n.kind.Kind, "Pool") {
		return
	}
	var best *node
	for _, to := range candidates {
		kind := to.kind.Kind
		switch {
		case to == n || to.name().Namespace != n.name().Namespace || to.name().Group != group:
		case kind == n.kind.Kind || what != "cluster" && !strings.EqualFold(what, kind):
		case best == nil || strings.HasPrefix(n.kind.Kind, kind) && (!strings.HasPrefix(n.kind.Kind, best.kind.Kind) || len(kind) > len(best.kind.Kind)):
			best = to
		}
	}
	if best != nil {
		path := "metadata.labels." + key
		r.add(n, best, Soft, Reason{Path: path, Value: best.name().Name, Text: fmt.Sprintf("%s names %s", path, best.name())})
	}
}

// backReferences are the references to an object that waits for the one with the reference, or that a controller sets.
var backReferences = map[string]bool{"owner": true, "controller": true, "claim": true, "resource": true, "composition": true, "secret": true, "configmap": true}

// fieldReferences adds the edges for fields such as issuerRef: {kind: …, name: …}. Without a kind, the name of the field
// must be the kind of the object.
func (r *reader) fieldReferences(n *node, f refs.Field, byName map[string][]*node) {
	switch v := f.Value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			at := f.At(key)
			stem, isRef := referenceStem(key)
			if isRef && !backReferences[stem] {
				for _, named := range append(at.Each(), at) {
					r.fieldReference(n, stem, named, byName)
				}
			}
			r.fieldReferences(n, at, byName)
		}
	case []any:
		for _, item := range f.Each() {
			r.fieldReferences(n, item, byName)
		}
	}
}

// referenceStem returns the part of a key that says what a reference names: "issuer" for issuerRef. The key cluster is a
// reference too.
func referenceStem(key string) (stem string, ok bool) {
	for _, suffix := range []string{"Refs", "Ref", "References", "Reference"} {
		if stem, ok = strings.CutSuffix(key, suffix); ok {
			return strings.ToLower(stem), true
		}
	}
	return key, key == "cluster"
}

func (r *reader) fieldReference(n *node, stem string, at refs.Field, byName map[string][]*node) {
	name, kind := at.At("name").Text(), at.At("kind").Text()
	group := at.At("group").Text()
	if version := at.At("apiVersion").Text(); strings.Contains(version, "/") {
		group = before(version, "/")
	}
	for _, to := range byName[name] {
		o := to.name()
		namespace := cmp.Or(at.At("namespace").Text(), n.name().Namespace)
		switch {
		case to == n || o.Namespace != namespace && o.Namespace != "":
		case kind != "" && (kind != o.Kind || group != "" && group != o.Group):
		case kind == "" && (!strings.EqualFold(stem, o.Kind) || stem == "cluster" && o.Group != n.name().Group):
		default:
			r.add(n, to, Soft, Reason{Path: at.Path, Value: name, Text: fmt.Sprintf("%s names %s", at.Path, plan.Object{Group: o.Group, Kind: o.Kind, Name: o.Name, Namespace: o.Namespace})})
		}
	}
}
