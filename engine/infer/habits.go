package infer

import (
	"fmt"
	"slices"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// use is a host that a workload is told, by who, which is the Service's where the
// release has it.
type use struct {
	service plan.Object
	who     string
	host    string
}

// habits finds what is better done first.
//
// Rule R63: what one waits for in a command, migrations, and Helm's order of kinds.
func (r *reader) habits() {
	for _, n := range r.nodes {
		if n.works && !n.idle() {
			r.waiting(n)
		}
	}
	r.kindOrder()
	r.credentials()
	r.migrations()
	r.brought()
	r.settle()
}

// kindOrder has workloads come after what Helm applies before them and is about
// them: Services and policies that select their pods.
func (r *reader) kindOrder() {
	for _, n := range r.nodes {
		var about []*node
		path := "spec.selector"
		switch {
		case n.kind() == service:
			if selector, _ := n.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
				about = r.pods(n.name().Namespace, selector)
			}
		case n.kind() == plan.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:
			path = "spec.podSelector"
			about = r.matched(n.name().Namespace, n.root.At("spec", "podSelector"))
		}
		for _, w := range about {
			if w.kind().Group != "batch" {
				r.add(w, n, Soft, Reason{In: n.name(), Path: path, By: []plan.Object{}, Text: fmt.Sprintf("%s %s selects its pods and comes first", n.name(), path)})
			}
		}
	}
}

// credentials has a Job wait for the StatefulSet of its chart that reads the same
// Secret, and whose client it therefore is.
func (r *reader) credentials() {
	readers := map[*node][]*node{}
	for _, n := range r.nodes {
		for _, s := range r.environment(n) {
			readers[s] = append(readers[s], n)
		}
	}
	for s, list := range readers {
		for _, j := range list {
			for _, n := range list {
				if j.kind() != (plan.GroupKind{Group: "batch", Kind: "Job"}) || n.kind().Kind != "StatefulSet" || j.Chart != n.Chart || n.idle() {
					continue
				}
				for _, service := range r.steady(n) {
					r.uses[j] = append(r.uses[j], use{service: service.name(), who: s.name().String()})
					r.add(j, n, Soft, Reason{In: s.name(), Path: "metadata.name", Value: s.name().Name, By: []plan.Object{s.name()}, Text: fmt.Sprintf("both read %s, so it is a client of it", s.name())})
				}
			}
		}
	}
}

// environment are the Secrets that a workload reads its environment from.
func (r *reader) environment(n *node) []*node {
	var found []*node
	if !n.works {
		return nil
	}
	for _, ref := range n.refs {
		if to := r.by[ref.To]; ref.Use == refs.Environment && ref.To.Kind == "Secret" && to != nil && !slices.Contains(found, to) {
			found = append(found, to)
		}
	}
	return found
}

// steady are the Services that reach a workload once it is ready, and not before:
// a Job may be what makes it so otherwise.
func (r *reader) steady(n *node) []*node {
	var found []*node
	for _, s := range r.inNamespace[n.name().Namespace] {
		if slices.Contains(r.behind(s), n) && !s.root.At("spec", "publishNotReadyAddresses").Yes() {
			found = append(found, s)
		}
	}
	return found
}

// brought has pods wait for the custom resource that their Secret is made from.
func (r *reader) brought() {
	makers := map[plan.Object]*node{}
	for _, n := range r.nodes {
		if ownGroup(n.name().Group) {
			continue
		}
		for _, at := range []refs.Field{n.root.At("spec", "secretName"), n.root.At("spec", "target", "name")} {
			if at.Text() != "" && (n.kind().Kind == "Certificate" || n.kind().Kind == "ExternalSecret") {
				makers[plan.Object{Kind: "Secret", Namespace: n.name().Namespace, Name: at.Text()}] = n
			}
		}
	}
	for _, n := range r.nodes {
		if !n.works || len(makers) == 0 {
			continue
		}
		for _, ref := range n.refs {
			if m := makers[ref.To]; m != nil && !ref.Optional && r.by[ref.To] == nil {
				r.add(n, m, Soft, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s, which %s creates", ref.Path, ref.To, m.name())})
			}
		}
	}
}
