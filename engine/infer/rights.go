package infer

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// right is a rule of a role that a workload has by its account.
type right struct {
	binding, role *node
	// namespace is the only one it holds in, empty for all.
	namespace                string
	path                     string
	groups, resources, verbs []string
}

const rbac = "rbac.authorization.k8s.io"

// readRights finds what workloads may do.
func (r *reader) readRights() {
	for _, n := range r.nodes {
		if !n.works {
			continue
		}
		account, _ := accountOf(n)
		for _, b := range r.bindings[account] {
			for _, ref := range b.refs {
				if role := r.by[ref.To]; ref.Use == refs.Role && role != nil {
					for _, rule := range role.root.At("rules").Each() {
						r.rights[n] = append(r.rights[n], right{
							b, role, b.name().Namespace, rule.Path, texts(rule.At("apiGroups")), texts(rule.At("resources")), texts(rule.At("verbs")),
						})
					}
				}
			}
		}
	}
}

func texts(f refs.Field) []string {
	var out []string
	for _, x := range f.Each() {
		out = append(out, x.Text())
	}
	return out
}

// writes reports whether a rule lets its holder change what there is.
func (t right) writes() bool {
	return slices.ContainsFunc(t.verbs, func(v string) bool { return v == "*" || v == "update" || v == "patch" })
}

// status reports whether a rule is about the status of the resources of a group. A
// rule about all groups is that of an administrator, and about none.
func (t right) status(group string) bool {
	return slices.Contains(t.groups, group) && slices.ContainsFunc(t.resources, func(s string) bool {
		return s == "*" || s == "*/*" || strings.HasSuffix(s, "/status")
	})
}

// about reports whether a rule names a resource.
func (t right) about(group, resource string) bool {
	return slices.Contains(t.groups, group) && (slices.Contains(t.resources, resource) || slices.Contains(t.resources, "*"))
}

// operators finds the workloads that work on custom resources: their account may
// write the status of their API group. They need the definitions first, whose
// resources they may read at all.
func (r *reader) operators() {
	custom, named := map[string][]*node{}, map[string][]*node{}
	for _, n := range r.nodes {
		if !ownGroup(n.name().Group) {
			custom[n.name().Group] = append(custom[n.name().Group], n)
			named[n.name().Name] = append(named[n.name().Name], n)
		}
	}
	defined := map[string][]*node{}
	for _, n := range r.nodes {
		if n.Defines.Group != "" {
			defined[n.Defines.Group] = append(defined[n.Defines.Group], n)
		}
	}
	for _, n := range r.nodes {
		for _, v := range r.told[n] {
			for _, c := range named[v.value] {
				if v.configures(c) {
					r.add(n, c, Hard, Reason{Path: n.pods.Path, Value: c.name().Name, Text: fmt.Sprintf("it is configured by %s", c.name())})
				}
			}
		}
		for _, t := range r.rights[n] {
			why := Reason{In: t.role.name(), Path: t.path, By: []plan.Object{t.binding.name(), t.role.name()}}
			for _, group := range t.groups {
				if t.writes() && t.status(group) && !n.idle() {
					for _, c := range custom[group] {
						if (t.namespace == "" || t.namespace == c.name().Namespace) && !r.configures(c, n) {
							w := why
							w.Value, w.Text = group, fmt.Sprintf("%s %s lets it write the status of %s", t.role.name(), t.path, group)
							r.add(c, n, Serving, w)
						}
					}
				}
				for _, d := range defined[group] {
					if resource := d.root.At("spec", "names", "plural").Text(); t.about(group, resource) {
						w := why
						w.Value, w.Text = resource, fmt.Sprintf("%s %s gives it rights on %s", t.role.name(), t.path, resource)
						r.add(n, d, Soft, w)
					}
				}
			}
		}
	}
}

// configures reports whether a workload is told the name of a custom resource as
// its configuration: it does not start without.
func (r *reader) configures(c, n *node) bool {
	return slices.ContainsFunc(r.told[n], func(v setting) bool { return v.configures(c) })
}

// configures reports whether a setting is the name of a custom resource, with a
// word of its kind in the key.
func (v setting) configures(c *node) bool {
	kind := wordsOf(c.name().Kind)
	return len(kind) > 0 && v.value == c.name().Name && slices.ContainsFunc(wordsOf(v.key), func(w string) bool { return strings.HasPrefix(w, kind[len(kind)-1]) })
}

// ownGroup reports whether an API group is one of Kubernetes' own.
func ownGroup(group string) bool {
	switch group {
	case "", "apps", "batch", "autoscaling", "policy", "extensions":
		return true
	case admission, "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io",
		"discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", rbac, "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io":
		return true
	}
	return false
}
