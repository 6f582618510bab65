package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// node is an object with the parts that edges are read from.
type node struct {
	*Object
	at   int // in reader.nodes
	kind plan.GroupKind
	root refs.Field
	refs []refs.Ref
	// pods are the pods it creates, if works is set.
	pods  refs.Pods
	works bool
	// labels are its own labels, podLabels those of its pods.
	labels, podLabels map[string]any
	// uses, settings and rights are those of a workload.
	uses     []use
	settings []setting
	rights   []right
}

func (n *node) name() plan.Object { return n.Object.Object }

// idle reports whether the object runs no pods, so that it waits for nothing.
func (n *node) idle() bool { return n.works && n.pods.None && n.name().Kind != "CronJob" }

// reader collects the edges between the objects of a release.
type reader struct {
	nodes []*node // by object, without duplicates
	by    map[plan.Object]*node
	found map[arc]Edge // the best reason for each pair

	definer         map[plan.GroupKind]*node // of kinds
	bindings        map[plan.Object][]*node  // by account
	services        map[string][]*node       // by name
	inNamespace     map[string][]*node       // Services
	labelled        map[label][]*node        // workloads by the labels of their pods
	servers         map[*node][]*node        // cache of behind
	texts           map[*node][]entryMention // cache of entryMentions
	stores          map[*node]bool           // cache of isStore
	hooks           map[plan.Object]*node    // ConfigMaps and Secrets that are hooks
	createdServices map[plan.Object]*node    // Services that an operator creates for a custom resource
	doubtful        []Dropped
}

func newReader(objects []Object) *reader {
	r := &reader{
		by: make(map[plan.Object]*node, len(objects)), found: make(map[arc]Edge, 3*len(objects)),
		bindings: map[plan.Object][]*node{}, inNamespace: map[string][]*node{}, services: map[string][]*node{}, labelled: map[label][]*node{},
		servers: map[*node][]*node{}, texts: map[*node][]entryMention{}, stores: map[*node]bool{},
		hooks: map[plan.Object]*node{}, createdServices: map[plan.Object]*node{},
	}
	sorted := make([]*Object, len(objects))
	for i := range objects {
		sorted[i] = &objects[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Object) int {
		return cmp.Or(a.Object.Compare(b.Object), strings.Compare(a.Chart, b.Chart))
	})
	for _, o := range sorted {
		if o.Hook {
			r.hooks[o.Object] = &node{Object: o, at: -1, root: refs.Field{Value: o.Fields}}
			continue // a hook is only read
		}
		if r.by[o.Object] != nil {
			continue // a duplicate
		}
		n := &node{Object: o, at: len(r.nodes), kind: o.Object.GroupKind(), root: refs.Field{Value: o.Fields}, refs: refs.Find(o.Object, o.Fields)}
		n.labels, _ = n.root.At("metadata", "labels").Value.(map[string]any)
		if n.pods, n.works = refs.FindPods(o.Object, o.Fields); n.works {
			n.podLabels, _ = n.pods.Meta["labels"].(map[string]any)
			n.works = o.Object.Kind != "PodTemplate"
		}
		for key, value := range n.podLabels {
			if value, ok := value.(string); ok && n.works {
				at := label{o.Object.Namespace, key, value}
				r.labelled[at] = append(r.labelled[at], n)
			}
		}
		if n.kind == service {
			r.services[o.Object.Name] = append(r.services[o.Object.Name], n)
			r.inNamespace[o.Object.Namespace] = append(r.inNamespace[o.Object.Namespace], n)
		}
		r.nodes = append(r.nodes, n)
		r.by[o.Object] = n
	}
	for _, n := range r.nodes {
		r.addCreatedServices(n)
	}
	return r
}

func (r *reader) read() {
	r.hard()
	r.targets()
	r.readRights()
	r.calls()
	r.routes()
	r.operators()
	r.webhooks()
	r.habits()
}

// add adds an edge, unless it already has a better reason.
func (r *reader) add(from, to *node, s Strength, why Reason) {
	if from == nil || to == nil || from == to || from.at < 0 || to.at < 0 || from.idle() {
		return
	}
	if why.In == (plan.Object{}) {
		why.In = from.name()
	}
	e := Edge{From: from.name(), To: to.name(), Strength: s, Reason: why, at: arc{from.at, to.at}}
	old, known := r.found[e.at]
	if !known || cmp.Or(compareStrength(e, old), e.Reason.In.Compare(old.Reason.In), strings.Compare(e.Reason.Path, old.Reason.Path)) < 0 {
		r.found[e.at] = e
	}
}

// edges returns the edges found so far, sorted by their objects.
func (r *reader) edges() []Edge {
	edges := make([]Edge, 0, len(r.found))
	for _, key := range slices.SortedFunc(maps.Keys(r.found), func(a, b arc) int { return cmp.Or(a.from-b.from, a.to-b.to) }) {
		edges = append(edges, r.found[key])
	}
	return edges
}

// label is a label of pods in a namespace.
type label struct{ namespace, key, value string }

// pods returns the workloads of a namespace whose pods match a selector with at least one label.
func (r *reader) pods(namespace string, selector map[string]any) []*node {
	var fewest []*node
	for i, key := range sorted(selector) {
		value, _ := selector[key].(string)
		if matches := r.labelled[label{namespace, key, value}]; i == 0 || len(matches) < len(fewest) {
			fewest = matches
		}
	}
	return slices.DeleteFunc(slices.Clone(fewest), func(n *node) bool { return !has(n.podLabels, selector) })
}

// matched returns the workloads that a LabelSelector matches; an empty one, which matches all pods, is ignored.
func (r *reader) matched(namespace string, selector refs.Field) []*node {
	labels, _ := selector.At("matchLabels").Value.(map[string]any)
	if len(labels) == 0 {
		return nil
	}
	return slices.DeleteFunc(r.pods(namespace, labels), func(n *node) bool { return !matches(selector, n.podLabels) })
}

// has reports whether labels contain all labels of a selector.
func has(labels, selector map[string]any) bool {
	for key, value := range selector {
		if v, ok := labels[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// matches reports whether labels match a LabelSelector; an empty one matches all.
func matches(selector refs.Field, labels map[string]any) bool {
	plain, _ := selector.At("matchLabels").Value.(map[string]any)
	if !has(labels, plain) {
		return false
	}
	for _, e := range selector.At("matchExpressions").Each() {
		value, ok := labels[e.At("key").Text()]
		values, _ := e.At("values").Value.([]any)
		holds := map[string]bool{
			"In": ok && slices.Contains(values, value), "NotIn": !ok || !slices.Contains(values, value),
			"Exists": ok, "DoesNotExist": !ok,
		}
		if !holds[e.At("operator").Text()] {
			return false
		}
	}
	return true
}

// behind returns the long-running workloads with pods behind a Service. It follows an
// ExternalName to another Service.
func (r *reader) behind(s *node) []*node {
	if known, ok := r.servers[s]; ok {
		return known
	}
	r.servers[s] = nil // ends a cycle of ExternalNames
	var found []*node
	if selector, _ := s.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
		found = slices.DeleteFunc(r.pods(s.name().Namespace, selector), func(n *node) bool { return n.kind.Group == "batch" || n.idle() })
	}
	if other := s.root.At("spec", "externalName").Text(); other != "" {
		if to := r.resolve(other, s.name().Namespace); to.service != nil {
			found = r.behind(to.service)
		}
	}
	r.servers[s] = found
	return found
}

// waitForService makes an object wait for the workloads behind a Service, unless it is one of them.
func (r *reader) waitForService(n, s *node, strength Strength, why Reason) {
	r.waitForServers(n, s, r.behind(s), strength, why)
}

// waitForServers is waitForService for some of the workloads behind a Service.
func (r *reader) waitForServers(n, s *node, servers []*node, strength Strength, why Reason) {
	if slices.Contains(servers, n) {
		return
	}
	if s.root.At("spec", "publishNotReadyAddresses").True() {
		if n.kind == job {
			return // it may make the others ready
		}
		strength = Soft
	}
	why = r.explainCreated(s, why)
	if s.at >= 0 {
		why.By = append(slices.Clone(why.By), s.name())
	}
	for _, to := range servers {
		r.add(n, to, strength, why)
	}
}

var service = plan.GroupKind{Kind: "Service"}

// impliesNoOrder reports whether a reference implies no order: a token Secret and its account, and the conversion
// webhook of a CustomResourceDefinition, which is needed only once objects exist.
func impliesNoOrder(n *node, ref refs.Ref) bool {
	return ref.Use == refs.Token || ref.Use == refs.Server && n.kind == crd
}

var crd = plan.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Rule R61: an object waits for the objects that it references, unless they are optional.
func (r *reader) hard() {
	r.definer = map[plan.GroupKind]*node{}
	for _, n := range r.nodes {
		if n.Defines != (plan.GroupKind{}) {
			r.definer[n.Defines] = n
		}
	}
	for _, n := range r.nodes {
		for _, ref := range n.refs {
			if ref.Use == refs.Subject {
				r.bindings[ref.To] = append(r.bindings[ref.To], n)
			}
			if to := r.by[ref.To]; to != nil && !ref.Optional && !impliesNoOrder(n, ref) {
				r.add(n, to, Hard, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s", ref.Path, ref.To)})
			}
		}
		if d := r.definer[n.kind]; d != nil {
			r.add(n, d, Hard, Reason{Path: "kind", Value: n.name().Kind, Text: fmt.Sprintf("%s defines kind %s", d.name(), n.name().Kind)})
		}
	}
	r.accounts()
}

// accounts makes pods wait for the role bindings of their account.
func (r *reader) accounts() {
	for _, n := range r.nodes {
		if n.works {
			account, path := podAccount(n)
			for _, b := range r.bindings[account] {
				r.add(n, b, Hard, Reason{Path: path, Value: account.Name, Text: fmt.Sprintf("%s grants permissions to %s, its account", b.name(), account)})
			}
		}
	}
}

// podAccount returns the account that pods run as, and its field.
func podAccount(n *node) (account plan.Object, path string) {
	for _, ref := range n.refs {
		if ref.Use == refs.Account {
			return ref.To, ref.Path
		}
	}
	return plan.Object{Kind: "ServiceAccount", Namespace: n.name().Namespace, Name: "default"}, n.pods.Path + ".serviceAccountName"
}

// targets finds the objects that selectors match: the pods of a budget, the Services and pods of a monitor.
func (r *reader) targets() {
	for _, n := range r.nodes {
		selector := n.root.At("spec", "selector")
		var found []*node
		switch n.kind {
		case plan.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, plan.GroupKind{Group: monitoring, Kind: "PodMonitor"}:
			for _, in := range monitoredNamespaces(n) {
				found = append(found, r.matched(in, selector)...)
			}
		case plan.GroupKind{Group: monitoring, Kind: "ServiceMonitor"}:
			for _, in := range monitoredNamespaces(n) {
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

// monitoredNamespaces returns the namespaces that a monitor selects, by default its own.
func monitoredNamespaces(n *node) []string {
	if names := texts(n.root.At("spec", "namespaceSelector", "matchNames")); len(names) > 0 {
		return names
	}
	return []string{n.name().Namespace}
}
