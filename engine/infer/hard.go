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
	definer := r.definers()
	for _, n := range r.nodes {
		for _, ref := range refs.Of(n.name(), n.Fields) {
			if to := r.by[ref.To]; to != nil && !ref.Optional && !unneeded(n, ref) {
				r.add(n, to, Hard, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s", ref.Path, ref.To)})
			}
		}
		if d := definer[n.kind()]; d != nil {
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
	bindings := map[plan.Object][]*node{}
	for _, n := range r.nodes {
		for _, ref := range refs.Of(n.name(), n.Fields) {
			if ref.Use == refs.Subject {
				bindings[ref.To] = append(bindings[ref.To], n)
			}
		}
	}
	for _, n := range r.nodes {
		if !n.works {
			continue
		}
		account := plan.Object{Kind: "ServiceAccount", Namespace: n.name().Namespace, Name: "default"}
		path := n.pods.Path + ".serviceAccountName"
		for _, ref := range refs.Of(n.name(), n.Fields) {
			if ref.Use == refs.Account {
				account, path = ref.To, ref.Path
			}
		}
		for _, b := range bindings[account] {
			r.add(n, b, Hard, Reason{Path: path, Value: account.Name, Text: fmt.Sprintf("%s gives rights to %s, which it runs as", b.name(), account)})
		}
	}
}
