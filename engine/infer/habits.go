package infer

import (
	"fmt"
	"slices"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// use is a host in the configuration of a workload: a Service of the release, or another host.
type use struct {
	service plan.Object
	who     string
	host    string
}

// Rule R63: commands that wait, migrations, and Helm's order of kinds.
func (r *reader) habits() {
	for _, n := range r.nodes {
		if n.works && !n.idle() {
			r.waiting(n)
		}
	}
	r.kindOrder()
	r.credentials()
	r.migrations()
	r.secretProducers()
	r.dropDoubtful()
}

// kindOrder makes workloads wait for objects that Helm applies before them and that select
// their pods: Services and policies.
func (r *reader) kindOrder() {
	for _, n := range r.nodes {
		var about []*node
		path := "spec.selector"
		switch {
		case n.kind == service:
			if selector, _ := n.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
				about = r.pods(n.name().Namespace, selector)
			}
		case n.kind == plan.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:
			path = "spec.podSelector"
			about = r.matched(n.name().Namespace, n.root.At("spec", "podSelector"))
		}
		for _, w := range about {
			if w.kind.Group != "batch" {
				r.add(w, n, Soft, Reason{In: n.name(), Path: path, By: []plan.Object{}, Text: fmt.Sprintf("%s %s selects its pods and comes first", n.name(), path)})
			}
		}
	}
}

// credentials makes a Job wait for the StatefulSet of its chart that reads the same Secret:
// it is probably its client.
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
				if j.kind != job || n.kind.Kind != "StatefulSet" || j.Chart != n.Chart || n.idle() {
					continue
				}
				for _, service := range r.readyServices(n) {
					j.uses = append(j.uses, use{service: service.name(), who: s.name().String()})
					r.add(j, n, Soft, Reason{In: s.name(), Path: "metadata.name", Value: s.name().Name, By: []plan.Object{s.name()}, Text: fmt.Sprintf("both read %s, so %s is probably a client of %s", s.name(), j.name(), n.name())})
				}
			}
		}
	}
}

// environment returns the Secrets in a workload's environment.
func (r *reader) environment(n *node) []*node {
	if !n.works {
		return nil
	}
	var found []*node
	for _, ref := range n.refs {
		if to := r.by[ref.To]; ref.Use == refs.Environment && ref.To.Kind == "Secret" && to != nil && !slices.Contains(found, to) {
			found = append(found, to)
		}
	}
	return found
}

// readyServices returns a workload's Services that publish ready addresses only. Behind other Services
// a Job may be needed to make the workload ready.
func (r *reader) readyServices(n *node) []*node {
	return slices.DeleteFunc(slices.Clone(r.inNamespace[n.name().Namespace]), func(s *node) bool {
		return !slices.Contains(r.behind(s), n) || s.root.At("spec", "publishNotReadyAddresses").True()
	})
}

// secretProducers makes pods wait for the custom resource that produces their Secret.
func (r *reader) secretProducers() {
	makers := map[plan.Object]*node{}
	for _, n := range r.nodes {
		if ownGroup(n.name().Group) {
			continue
		}
		for _, at := range []refs.Field{n.root.At("spec", "secretName"), n.root.At("spec", "target", "name")} {
			if at.Text() != "" && (n.kind.Kind == "Certificate" || n.kind.Kind == "ExternalSecret") {
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
