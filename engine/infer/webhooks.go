package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

const admission = "admissionregistration.k8s.io"

// routeEdges makes objects wait for the targets of requests: an Ingress for the workloads behind its
// Services, an APIService for its server, and the objects of its API for the APIService.
func (r *reader) routeEdges() {
	apis := map[string][]*node{}
	for _, n := range r.nodes {
		for _, ref := range n.refs {
			to := r.byObject[ref.To]
			if to == nil || ref.Use != refs.Backend && (ref.Use != refs.Server || n.kind.Kind != "APIService") {
				continue
			}
			r.waitForService(n, to, Serving, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s", ref.Path, ref.To)})
			if ref.Use == refs.Server {
				group := n.root.At("spec", "group").Text()
				apis[group] = append(apis[group], n)
			}
		}
	}
	for _, n := range r.nodes {
		for _, api := range apis[n.name().Group] {
			if n.name().Group != "" {
				r.add(n, api, Serving, Reason{Path: "apiVersion", Value: n.name().Group, Text: fmt.Sprintf("%s serves %s", api.name(), n.name().Group)})
			}
		}
	}
}

// webhookEdges makes objects wait for the webhooks that check, change or convert them.
func (r *reader) webhookEdges() {
	for _, n := range r.nodes {
		switch {
		case n.name().Group == admission:
			for _, w := range n.root.At("webhooks").Each() {
				r.webhook(n, w)
			}
		case n.kind == crd:
			at := n.root.At("spec", "conversion", "webhook", "clientConfig", "service")
			s := r.server(at)
			for _, o := range r.nodes {
				if s != nil && o.kind == n.Defines {
					r.waitForService(o, s, Serving, Reason{In: n.name(), Path: at.Path, Value: s.name().Name, By: []plan.Object{n.name()},
						Text: fmt.Sprintf("%s converts it with %s", n.name(), s.name())})
				}
			}
		}
	}
}

// server returns the Service of a webhook, or nil.
func (r *reader) server(at refs.Field) *node {
	return r.byObject[plan.Object{Kind: "Service", Namespace: at.At("namespace").Text(), Name: at.At("name").Text()}]
}

// webhook reads one webhook. The objects that it checks wait for the workload that answers it, and so
// does its configuration, unless that workload writes the configuration. If the webhook may fail, only
// a mutating one makes objects wait: custom resources, with soft edges, so that it can change them.
func (r *reader) webhook(n *node, w refs.Field) {
	s := r.server(w.At("clientConfig", "service"))
	if s == nil {
		return
	}
	at := w.At("clientConfig", "service", "name")
	strength := Serving
	if w.At("failurePolicy").Text() == "Ignore" {
		strength = Soft
	}
	servers := r.serversOf(s)
	if !slices.ContainsFunc(servers, r.writesWebhooks) {
		r.waitForService(n, s, strength, Reason{Path: at.Path, Value: s.name().Name, Text: fmt.Sprintf("%s names %s", at.Path, s.name())})
	}
	if strength == Soft && n.kind.Kind == "ValidatingWebhookConfiguration" {
		return
	}
	verb := "checks"
	if n.kind.Kind == "MutatingWebhookConfiguration" {
		verb = "changes"
	}
	needed := r.needed(append(slices.Clone(servers), n))
	for _, o := range r.nodes {
		if needed[o] || strength == Soft && builtinGroup(o.name().Group) || !r.appliesTo(w, o) {
			continue
		}
		why := Reason{In: n.name(), Path: w.Path, Value: w.At("name").Text(), By: []plan.Object{n.name()}}
		why.Text = fmt.Sprintf("%s %s it with %s", n.name(), verb, s.name())
		r.waitForService(o, s, strength, why)
		if !builtinGroup(o.name().Group) {
			why.Text = fmt.Sprintf("%s %s it", n.name(), verb)
			r.add(o, n, Soft, why)
		}
	}
}

// writesWebhooks reports whether a workload may change webhook configurations, for example to inject
// its certificate. It may not become ready before the configuration exists.
func (r *reader) writesWebhooks(n *node) bool {
	return slices.ContainsFunc(n.permissions, func(p permission) bool {
		return p.writes() && slices.Contains(p.groups, admission)
	})
}

// needed returns the objects and all that they wait for, by the edges found so far.
func (r *reader) needed(objects []*node) map[*node]bool {
	next := map[*node][]*node{}
	for key := range r.found {
		from := r.nodes[key.from]
		next[from] = append(next[from], r.nodes[key.to])
	}
	return reach(objects, func(n *node) []*node { return next[n] })
}

// appliesTo reports whether a webhook checks the creation of an object or of its pods. Rules for all
// API groups do not count.
func (r *reader) appliesTo(w refs.Field, o *node) bool {
	if !matches(w.At("namespaceSelector"), r.namespaceLabels(o.name().Namespace)) {
		return false
	}
	for _, rule := range w.At("rules").Each() {
		operations, groups, resources := texts(rule.At("operations")), texts(rule.At("apiGroups")), texts(rule.At("resources"))
		if !slices.Contains(operations, "*") && !slices.Contains(operations, "CREATE") {
			continue
		}
		group := o.name().Group
		switch {
		case slices.Contains(groups, group) && (slices.Contains(resources, r.resource(o)) || !builtinGroup(group) && slices.ContainsFunc(resources, isWildcard)):
			if matches(w.At("objectSelector"), o.labels) {
				return true
			}
		case o.isWorkload && slices.Contains(groups, "") && slices.Contains(resources, "pods"):
			if matches(w.At("objectSelector"), o.podLabels) {
				return true
			}
		}
	}
	return false
}

func isWildcard(resource string) bool { return resource == "*" || resource == "*/*" }

// resource returns the plural name of an object's kind in the API: "ingresses".
func (r *reader) resource(o *node) string {
	if d := r.definer[o.kind]; d != nil {
		return d.root.At("spec", "names", "plural").Text()
	}
	name := strings.ToLower(o.name().Kind)
	if strings.HasSuffix(name, "s") || strings.HasSuffix(name, "x") {
		return name + "es"
	}
	return plural(o.name().Kind)
}

// namespaceLabels returns the known labels of a namespace.
func (r *reader) namespaceLabels(name string) map[string]any {
	labels := map[string]any{"kubernetes.io/metadata.name": name}
	if n := r.byObject[plan.Object{Kind: "Namespace", Name: name}]; n != nil {
		maps.Copy(labels, n.labels)
	}
	return labels
}

// permission is a rule of a role that is bound to a workload's ServiceAccount.
type permission struct {
	binding, role            *node
	bound                    plan.Object // the role of the binding: role itself, or the one that aggregates it
	namespace                string      // where the rule applies, empty for all namespaces
	path                     string      // of the rule
	groups, resources, verbs []string
}

const rbac = "rbac.authorization.k8s.io"

func (r *reader) readPermissions() {
	for _, n := range r.nodes {
		if !n.isWorkload {
			continue
		}
		account, _ := podAccount(n)
		for _, b := range r.bindings[account] {
			for _, ref := range b.refs {
				if ref.Use != refs.Role {
					continue
				}
				for _, role := range r.rolesOf(ref.To) {
					for _, rule := range role.root.At("rules").Each() {
						n.permissions = append(n.permissions, permission{
							b, role, ref.To, b.name().Namespace, rule.Path, texts(rule.At("apiGroups")), texts(rule.At("resources")), texts(rule.At("verbs")),
						})
					}
				}
			}
		}
	}
}

// rolesOf returns a role, or instead of one that aggregates others, these: the controller manager replaces its rules by theirs.
func (r *reader) rolesOf(name plan.Object) []*node {
	role := r.byObject[name]
	if role == nil {
		return nil
	}
	selectors := role.root.At("aggregationRule", "clusterRoleSelectors").Each()
	if len(selectors) == 0 {
		return []*node{role}
	}
	return slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool {
		return n.kind != name.GroupKind() || n == role || !slices.ContainsFunc(selectors, func(s refs.Field) bool { return matches(s, n.labels) })
	})
}

// texts returns the strings of a list.
func texts(f refs.Field) []string {
	var out []string
	for _, x := range f.Each() {
		out = append(out, x.Text())
	}
	return out
}

// writes reports whether a rule allows changing existing objects.
func (p permission) writes() bool {
	return slices.ContainsFunc(p.verbs, func(v string) bool { return v == "*" || v == "update" || v == "patch" })
}

// coversStatus reports whether a rule covers the status of objects of an API group. A rule for all
// groups is an administrator's and does not count.
func (p permission) coversStatus(group string) bool {
	return slices.Contains(p.groups, group) && slices.ContainsFunc(p.resources, func(s string) bool {
		return s == "*" || s == "*/*" || strings.HasSuffix(s, "/status")
	})
}

// covers reports whether a rule covers a resource of an API group. A rule for all groups does not count.
func (p permission) covers(group, resource string) bool {
	return slices.Contains(p.groups, group) && (slices.Contains(p.resources, resource) || slices.Contains(p.resources, "*"))
}

// operatorEdges finds the controllers of custom resources: workloads whose ServiceAccount may write
// the status of the API group. Custom resources wait for their controller, unless they configure it. Any
// workload waits for the CRDs that it has permissions for, and for the custom resources that configure it.
func (r *reader) operatorEdges() {
	custom, named, defined := map[string][]*node{}, map[string][]*node{}, map[string][]*node{} // by group, name and defined group
	for _, n := range r.nodes {
		if n.Defines.Group != "" {
			defined[n.Defines.Group] = append(defined[n.Defines.Group], n)
		}
		if !builtinGroup(n.name().Group) {
			custom[n.name().Group] = append(custom[n.name().Group], n)
			named[n.name().Name] = append(named[n.name().Name], n)
		}
	}
	for _, n := range r.nodes {
		for _, v := range n.settings {
			for _, c := range named[v.value] {
				if v.configures(c) {
					r.add(n, c, Hard, Reason{Path: n.pods.Path, Value: c.name().Name, Text: fmt.Sprintf("it is configured by %s", c.name())})
				}
			}
		}
		for _, p := range n.permissions {
			for _, group := range p.groups {
				if p.writes() && p.coversStatus(group) && n.serves() {
					r.addController(n, p, group, custom[group])
				}
				r.addDefinitions(n, p, group, defined[group])
			}
		}
	}
}

// addController makes the custom resources of an API group wait for their controller.
func (r *reader) addController(controller *node, p permission, group string, custom []*node) {
	why := p.reason(group, fmt.Sprintf("lets %s write the status of objects in %s", controller.name(), group))
	for _, c := range custom {
		if (p.namespace == "" || p.namespace == c.name().Namespace) && !r.configures(c, controller) {
			r.add(c, controller, Serving, why)
		}
	}
}

// addDefinitions makes a workload wait for the CRDs of an API group that it has permissions for.
func (r *reader) addDefinitions(n *node, p permission, group string, crds []*node) {
	for _, d := range crds {
		if resource := d.root.At("spec", "names", "plural").Text(); p.covers(group, resource) {
			r.add(n, d, Soft, p.reason(resource, "gives it permissions for "+resource))
		}
	}
}

// reason returns the reason for an edge that follows from a rule.
func (p permission) reason(value, effect string) Reason {
	return Reason{
		In: p.role.name(), Path: p.path, Value: value, By: slices.Compact([]plan.Object{p.binding.name(), p.bound, p.role.name()}),
		Text: fmt.Sprintf("%s %s %s", p.role.name(), p.path, effect),
	}
}

// configures reports whether a custom resource configures a workload, which does not start without it.
func (r *reader) configures(c, n *node) bool {
	return slices.ContainsFunc(n.settings, func(v setting) bool { return v.configures(c) })
}

// configures reports whether a setting has the name of a custom resource as its value and a
// word of its kind in its key.
func (v setting) configures(c *node) bool {
	kind := splitWords(c.name().Kind)
	return len(kind) > 0 && v.value == c.name().Name && slices.ContainsFunc(splitWords(v.key), func(w string) bool { return strings.HasPrefix(w, kind[len(kind)-1]) })
}

// builtinGroup reports whether an API group belongs to Kubernetes.
func builtinGroup(group string) bool {
	switch group {
	case "", "apps", "batch", "autoscaling", "policy", "extensions":
		return true
	case admission, "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io",
		"discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", rbac, "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io":
		return true
	}
	return false
}
