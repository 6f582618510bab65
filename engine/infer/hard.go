package infer

import (
	"fmt"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// unneeded are the references of which neither side needs the other to be there
// first: a token is made for an account, and a CustomResourceDefinition is
// converted only once there are objects of it.
func unneeded(n *node, ref refs.Ref) bool {
	return ref.Use == refs.Token || ref.Use == refs.Server && n.kind() == crd
}

var crd = plan.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// hard finds what objects name.
//
// Rule R61: an object waits for what it names and does not call optional.
func (r *reader) hard() {
	r.definer = r.definers()
	for _, n := range r.nodes {
		for _, ref := range n.refs {
			if ref.Use == refs.Subject {
				r.bindings[ref.To] = append(r.bindings[ref.To], n)
			}
			if to := r.by[ref.To]; to != nil && !ref.Optional && !unneeded(n, ref) {
				r.add(n, to, Hard, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s", ref.Path, ref.To)})
			}
		}
		if d := r.definer[n.kind()]; d != nil {
			r.add(n, d, Hard, Reason{Path: "kind", Value: n.name().Kind, Text: fmt.Sprintf("%s defines kind %s", d.name(), n.name().Kind)})
		}
	}
	r.accounts()
}

// definers are the CustomResourceDefinitions of kinds.
func (r *reader) definers() map[plan.GroupKind]*node {
	definer := map[plan.GroupKind]*node{}
	for _, n := range r.nodes {
		if n.Defines != (plan.GroupKind{}) {
			definer[n.Defines] = n
		}
	}
	return definer
}

// accounts finds what gives pods their rights: the bindings of the account that
// they run as.
func (r *reader) accounts() {
	for _, n := range r.nodes {
		if n.works {
			account, path := accountOf(n)
			for _, b := range r.bindings[account] {
				r.add(n, b, Hard, Reason{Path: path, Value: account.Name, Text: fmt.Sprintf("%s gives rights to %s, which it runs as", b.name(), account)})
			}
		}
	}
}

// accountOf is the account that pods run as, and the field that says so.
func accountOf(n *node) (account plan.Object, path string) {
	for _, ref := range n.refs {
		if ref.Use == refs.Account {
			return ref.To, ref.Path
		}
	}
	return plan.Object{Kind: "ServiceAccount", Namespace: n.name().Namespace, Name: "default"}, n.pods.Path + ".serviceAccountName"
}

// targets finds what selectors name: the pods of a budget, the Services and pods
// of a monitor.
func (r *reader) targets() {
	for _, n := range r.nodes {
		selector := n.root.At("spec", "selector")
		var found []*node
		switch (plan.GroupKind{Group: n.name().Group, Kind: n.name().Kind}) {
		case plan.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, plan.GroupKind{Group: monitoring, Kind: "PodMonitor"}:
			for _, in := range namespacesOf(n) {
				found = append(found, r.matched(in, selector)...)
			}
		case plan.GroupKind{Group: monitoring, Kind: "ServiceMonitor"}:
			for _, in := range namespacesOf(n) {
				for _, s := range r.inNamespace[in] {
					if matches(selector, s.labels) {
						found = append(found, s)
					}
				}
			}
		}
		for _, to := range found {
			r.add(n, to, Hard, Reason{Path: selector.Path, Text: fmt.Sprintf("%s selects %s", selector.Path, to.name())})
		}
	}
}

const monitoring = "monitoring.coreos.com"

// namespacesOf are those that a monitor looks at; without any word its own.
func namespacesOf(n *node) []string {
	var names []string
	for _, name := range n.root.At("spec", "namespaceSelector", "matchNames").Each() {
		names = append(names, name.Text())
	}
	if len(names) == 0 {
		return []string{n.name().Namespace}
	}
	return names
}
