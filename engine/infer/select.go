package infer

import (
	"slices"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// label is a label of pods in a namespace.
type label struct{ namespace, key, value string }

// pods are the workloads of a namespace whose pods have all labels of a selector,
// which has at least one.
func (r *reader) pods(namespace string, selector map[string]any) []*node {
	var fewest []*node
	for i, key := range sorted(selector) {
		value, _ := selector[key].(string)
		if with := r.labelled[label{namespace, key, value}]; i == 0 || len(with) < len(fewest) {
			fewest = with
		}
	}
	var found []*node
	for _, n := range fewest {
		if has(n.podLabels, selector) {
			found = append(found, n)
		}
	}
	return found
}

// matched are the workloads that a LabelSelector finds. One that takes all pods
// of a namespace says nothing about any.
func (r *reader) matched(namespace string, selector refs.Field) []*node {
	labels, _ := selector.At("matchLabels").Value.(map[string]any)
	if len(labels) == 0 {
		return nil
	}
	return slices.DeleteFunc(r.pods(namespace, labels), func(n *node) bool { return !matches(selector, n.podLabels) })
}

// has reports whether labels are those that a selector asks for.
func has(labels, selector map[string]any) bool {
	for key, value := range selector {
		if v, ok := labels[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// matches reports whether labels fit a LabelSelector; an empty one fits all.
func matches(selector refs.Field, labels map[string]any) bool {
	plain, _ := selector.At("matchLabels").Value.(map[string]any)
	if !has(labels, plain) {
		return false
	}
	for _, e := range selector.At("matchExpressions").Each() {
		value, there := labels[e.At("key").Text()]
		values, _ := e.At("values").Value.([]any)
		fits := map[string]bool{
			"In": there && slices.Contains(values, value), "NotIn": !there || !slices.Contains(values, value),
			"Exists": there, "DoesNotExist": !there,
		}
		if !fits[e.At("operator").Text()] {
			return false
		}
	}
	return true
}

// behind are the workloads whose pods answer a Service: those that run all the
// time, and run at all. A Service that is another name follows that one.
func (r *reader) behind(s *node) []*node {
	if known, ok := r.servers[s]; ok {
		return known
	}
	r.servers[s] = nil // a circle of names leads nowhere
	var found []*node
	if selector, _ := s.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
		for _, n := range r.pods(s.name().Namespace, selector) {
			if n.kind().Group != "batch" && !n.idle() {
				found = append(found, n)
			}
		}
	}
	if other := s.root.At("spec", "externalName").Text(); other != "" {
		if to := r.resolve(other, s.name().Namespace); to.service != nil {
			found = r.behind(to.service)
		}
	}
	r.servers[s] = found
	return found
}

// serves has an object wait for what answers a Service, unless it does so itself.
func (r *reader) serves(n, s *node, strength Strength, why Reason) {
	r.answers(n, s, r.behind(s), strength, why)
}

// answers has an object wait for those workloads behind a Service that answer it.
func (r *reader) answers(n, s *node, servers []*node, strength Strength, why Reason) {
	if slices.Contains(servers, n) {
		return
	}
	if s.root.At("spec", "publishNotReadyAddresses").Yes() {
		if n.kind().Group == "batch" {
			return // it may be what makes the others ready
		}
		strength = Soft
	}
	why.By = append(slices.Clone(why.By), s.name())
	for _, to := range servers {
		r.add(n, to, strength, why)
	}
}

var service = plan.GroupKind{Kind: "Service"}
