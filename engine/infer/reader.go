package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// node is an object, prepared for finding edges.
type node struct {
	*Object
	at   int // index in reader.nodes, or -1 if the object gets no edges
	kind plan.GroupKind
	root refs.Field
	refs []refs.Ref
	// pods are the pods that it creates, if isWorkload is set.
	pods       refs.Pods
	isWorkload bool
	// labels are its own labels, podLabels those of its pods.
	labels, podLabels map[string]any

	hosts []hostRef // of workloads and custom resources

	// Only workloads have these.
	settings    []setting
	permissions []permission
}

func (n *node) name() plan.Object { return n.Object.Object }

// idle reports whether the object is a workload without pods, which waits for nothing. A suspended
// CronJob is not idle.
func (n *node) idle() bool { return n.isWorkload && n.pods.None && n.name().Kind != "CronJob" }

// serves reports whether the object is a workload that keeps running, so that others can wait for its service.
func (n *node) serves() bool { return n.isWorkload && n.kind.Group != "batch" && !n.idle() }

// reader collects the edges between the objects of a release.
type reader struct {
	nodes    []*node // by object, without duplicates
	byObject map[plan.Object]*node
	found    map[arc]Edge // the best reason for each pair

	definer         map[plan.GroupKind]*node // CRDs by the kind that they define
	bindings        map[plan.Object][]*node  // role bindings by ServiceAccount
	servicesNamed   map[string][]*node       // Services by name
	servicesIn      map[string][]*node       // Services by namespace
	labelled        map[label][]*node        // workloads by the labels of their pods
	serversCache    map[*node][]*node        // cache of serversOf
	mentionCache    map[*node][]entryMention // cache of entryMentions
	storeCache      map[*node]bool           // cache of isStore
	hooks           map[plan.Object]*node    // ConfigMaps and Secrets that are hooks
	createdServices map[plan.Object]*node    // Services that an operator creates for a custom resource
	doubtful        []Dropped                // edges that dropDoubtful has removed
	possible        map[arc]string           // init containers that may wait for a workload, and why
}

func newReader(objects []Object) *reader {
	r := &reader{
		byObject: make(map[plan.Object]*node, len(objects)), found: make(map[arc]Edge, 3*len(objects)),
		bindings: map[plan.Object][]*node{}, servicesIn: map[string][]*node{}, servicesNamed: map[string][]*node{}, labelled: map[label][]*node{},
		serversCache: map[*node][]*node{}, mentionCache: map[*node][]entryMention{}, storeCache: map[*node]bool{}, possible: map[arc]string{},
		hooks: map[plan.Object]*node{}, createdServices: map[plan.Object]*node{}, definer: map[plan.GroupKind]*node{},
	}
	sorted := make([]*Object, len(objects))
	for i := range objects {
		sorted[i] = &objects[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Object) int {
		return cmp.Or(a.Object.Compare(b.Object), strings.Compare(a.Chart, b.Chart))
	})
	for _, o := range sorted {
		switch {
		case o.Hook:
			r.hooks[o.Object] = &node{Object: o, at: -1, root: refs.Field{Value: o.Fields}}
		case r.byObject[o.Object] == nil: // no duplicate
			r.addNode(o)
		}
	}
	for _, n := range r.nodes {
		r.addCreatedServices(n)
	}
	return r
}

// addNode adds the node of an object, also to the indexes.
func (r *reader) addNode(o *Object) {
	n := &node{Object: o, at: len(r.nodes), kind: o.Object.GroupKind(), root: refs.Field{Value: o.Fields}, refs: refs.Find(o.Object, o.Fields)}
	r.nodes = append(r.nodes, n)
	r.byObject[o.Object] = n
	n.labels, _ = n.root.At("metadata", "labels").Value.(map[string]any)
	if n.pods, n.isWorkload = refs.FindPods(o.Object, o.Fields); n.isWorkload {
		n.podLabels, _ = n.pods.Meta["labels"].(map[string]any)
		n.isWorkload = o.Object.Kind != "PodTemplate"
	}
	for key, value := range n.podLabels {
		if value, ok := value.(string); ok && n.isWorkload {
			at := label{o.Object.Namespace, key, value}
			r.labelled[at] = append(r.labelled[at], n)
		}
	}
	if n.kind == service {
		r.servicesNamed[o.Object.Name] = append(r.servicesNamed[o.Object.Name], n)
		r.servicesIn[o.Object.Namespace] = append(r.servicesIn[o.Object.Namespace], n)
	}
	if n.Defines != (plan.GroupKind{}) {
		r.definer[n.Defines] = n
	}
	for _, ref := range n.refs {
		if ref.Use == refs.Subject {
			r.bindings[ref.To] = append(r.bindings[ref.To], n)
		}
	}
}

// read finds all edges. Later steps use results of earlier ones.
func (r *reader) read() {
	r.referenceEdges()
	r.bindingEdges()
	r.selectorEdges()
	r.readPermissions()
	r.callEdges()
	r.routeEdges()
	r.operatorEdges()
	r.webhookEdges()
	r.waitEdges()
	r.softEdges()
	r.dropDoubtful()
}

// add adds an edge, unless it is known with a better reason.
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
	for _, key := range sortedArcs(r.found) {
		edges = append(edges, r.found[key])
	}
	return edges
}

// label is a label of pods in a namespace.
type label struct{ namespace, key, value string }

// labelledWorkloads returns the workloads of a namespace whose pods have all labels of a selector. It
// returns none for an empty selector.
func (r *reader) labelledWorkloads(namespace string, selector map[string]any) []*node {
	var fewest []*node
	for i, key := range sortedKeys(selector) {
		value, _ := selector[key].(string)
		if matches := r.labelled[label{namespace, key, value}]; i == 0 || len(matches) < len(fewest) {
			fewest = matches
		}
	}
	return slices.DeleteFunc(slices.Clone(fewest), func(n *node) bool { return !hasLabels(n.podLabels, selector) })
}

// selectedWorkloads returns the workloads of a namespace whose pods match a LabelSelector. It returns
// none if the selector has no matchLabels.
func (r *reader) selectedWorkloads(namespace string, selector refs.Field) []*node {
	labels, _ := selector.At("matchLabels").Value.(map[string]any)
	if len(labels) == 0 {
		return nil
	}
	return slices.DeleteFunc(r.labelledWorkloads(namespace, labels), func(n *node) bool { return !matches(selector, n.podLabels) })
}

// hasLabels reports whether labels contain all labels of a selector.
func hasLabels(labels, selector map[string]any) bool {
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
	if !hasLabels(labels, plain) {
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

// serversOf returns the long-running workloads whose pods a Service selects. It follows an ExternalName
// to another Service.
func (r *reader) serversOf(s *node) []*node {
	if known, ok := r.serversCache[s]; ok {
		return known
	}
	r.serversCache[s] = nil // in case ExternalNames form a cycle
	var found []*node
	if selector, _ := s.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
		found = slices.DeleteFunc(r.labelledWorkloads(s.name().Namespace, selector), func(n *node) bool { return !n.serves() })
	}
	if other := s.root.At("spec", "externalName").Text(); other != "" {
		if to := r.resolve(other, s.name().Namespace); to.service != nil {
			found = r.serversOf(to.service)
		}
	}
	r.serversCache[s] = found
	return found
}

// waitForService makes an object wait for the workloads behind a Service, unless it is one of them.
func (r *reader) waitForService(n, s *node, strength Strength, why Reason) {
	r.waitForWorkloads(n, s, r.serversOf(s), strength, why)
}

// waitForWorkloads is waitForService for some of the workloads behind a Service.
func (r *reader) waitForWorkloads(n, s *node, servers []*node, strength Strength, why Reason) {
	if slices.Contains(servers, n) {
		return
	}
	if s.root.At("spec", "publishNotReadyAddresses").True() {
		if n.kind == job {
			return // the Job may be what makes the servers ready
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

// impliesOrder reports whether a reference implies an order. That of a ServiceAccount to its token
// Secret does not, nor that of a CRD to its conversion webhook, which is needed only once objects exist.
func impliesOrder(n *node, ref refs.Ref) bool {
	return ref.Use != refs.Token && (ref.Use != refs.Server || n.kind != crd)
}

var crd = plan.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// referenceEdges adds hard edges for references.
//
// Rule R61: an object waits for the objects that it names, unless the reference is optional
func (r *reader) referenceEdges() {
	for _, n := range r.nodes {
		for _, ref := range n.refs {
			if to := r.byObject[ref.To]; to != nil && !ref.Optional && impliesOrder(n, ref) {
				r.add(n, to, Hard, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s", ref.Path, ref.To)})
			}
		}
		if d := r.definer[n.kind]; d != nil {
			r.add(n, d, Hard, Reason{Path: "kind", Value: n.name().Kind, Text: fmt.Sprintf("%s defines kind %s", d.name(), n.name().Kind)})
		}
	}
}

// bindingEdges makes pods wait for the role bindings of their ServiceAccount.
func (r *reader) bindingEdges() {
	for _, n := range r.nodes {
		if n.isWorkload {
			account, path := podAccount(n)
			for _, b := range r.bindings[account] {
				r.add(n, b, Hard, Reason{Path: path, Value: account.Name, Text: fmt.Sprintf("%s grants permissions to %s, its account", b.name(), account)})
			}
		}
	}
}

// podAccount returns the ServiceAccount that pods run as, and the field that names it.
func podAccount(n *node) (account plan.Object, path string) {
	for _, ref := range n.refs {
		if ref.Use == refs.Account {
			return ref.To, ref.Path
		}
	}
	return plan.Object{Kind: "ServiceAccount", Namespace: n.name().Namespace, Name: "default"}, n.pods.Path + ".serviceAccountName"
}

// selectorEdges makes objects wait for those that they select: a PodDisruptionBudget and a PodMonitor
// for workloads, a ServiceMonitor for Services.
func (r *reader) selectorEdges() {
	for _, n := range r.nodes {
		selector := n.root.At("spec", "selector")
		var found []*node
		switch n.kind {
		case plan.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, plan.GroupKind{Group: monitoring, Kind: "PodMonitor"}:
			for _, in := range selectedNamespaces(n) {
				found = append(found, r.selectedWorkloads(in, selector)...)
			}
		case plan.GroupKind{Group: monitoring, Kind: "ServiceMonitor"}:
			for _, in := range selectedNamespaces(n) {
				for _, s := range r.servicesIn[in] {
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

// selectedNamespaces returns the namespaces in which an object selects others, by default its own.
func selectedNamespaces(n *node) []string {
	if names := texts(n.root.At("spec", "namespaceSelector", "matchNames")); len(names) > 0 {
		return names
	}
	return []string{n.name().Namespace}
}
