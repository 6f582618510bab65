package infer

import (
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// unit is a group under construction.
type unit struct {
	unitKey
	members       []*node // in topological order
	name          string
	declared      bool            // the author declared the group
	declaredAfter []string        // the names of its declared dependencies
	dependencies  map[*unit]bool  // of the same chart
	subcharts     map[string]bool // the subcharts to wait for, by name
}

type unitKey struct {
	chart   string
	purpose purpose
	key     string // distinguishes units of one purpose and chart
}

// purpose is the reason why a unit exists.
type purpose int

const (
	base      purpose = iota // plain objects that no workload needs, or more than one
	crds                     // CustomResourceDefinitions
	workload                 // a workload with the objects that only it needs
	followers                // objects that wait for the same units
	loose                    // other objects that wait for no unit except base
)

// arranger divides objects into groups.
type arranger struct {
	release string
	charts  map[string]*plan.Chart // by path
	reader  *reader
	edges   []Edge
	out     [][]*Edge // edges by waiting object
	place   []int     // index of each object in sorted
	sorted  []*node   // the objects in topological order

	// By index in reader.nodes.
	plain  []bool  // see findPlain
	owner  []*node // the first object found to need a plain object, or nil; the only one unless shared
	shared []bool  // plain objects that several objects need, or one of another chart
	unit   []*unit

	units    map[string][]*unit // by chart
	unitKeys map[unitKey]*unit
	paths    []string // of charts, sorted

	byChart, across map[string][]*Edge // within a chart, and between charts by their common parent
	weighted        map[string]bool    // charts that order their objects by weights (R19)
	dropped         []Dropped
	yaml            map[string]*Chart // additions to Chart.yaml, by chart
}

func newArranger(release string, tree *plan.Chart, r *reader, edges []Edge) *arranger {
	n := len(r.nodes)
	a := &arranger{
		release: release, charts: map[string]*plan.Chart{}, reader: r, edges: edges,
		out: make([][]*Edge, n), place: make([]int, n), plain: make([]bool, n), owner: make([]*node, n), shared: make([]bool, n),
		unit: make([]*unit, n), units: map[string][]*unit{}, unitKeys: map[unitKey]*unit{}, yaml: map[string]*Chart{},
		byChart: map[string][]*Edge{}, across: map[string][]*Edge{}, weighted: map[string]bool{},
	}
	a.addTree(tree)
	arcs := make([]arc, len(edges))
	for i := range edges {
		e := &edges[i]
		a.out[e.at.from] = append(a.out[e.at.from], e)
		arcs[i] = e.at
	}
	order, _ := plan.TopologicalOrder(adjacency(n, arcs))
	for at, i := range order {
		a.place[i] = at
		a.sorted = append(a.sorted, r.nodes[i])
	}
	paths := map[string]bool{}
	for _, n := range r.nodes {
		if n.Chart == "" && tree != nil {
			n.Chart = tree.Path // R6
		}
		paths[n.Chart] = true
		if weight, _ := plan.Annotation(n.Annotations, plan.AnnotationWeight); strings.TrimSpace(weight) != "" {
			a.weighted[n.Chart] = true
		}
	}
	for path := range a.charts {
		paths[path] = true
	}
	a.paths = slices.Sorted(maps.Keys(paths))
	a.splitEdges()
	return a
}

func (a *arranger) addTree(c *plan.Chart) {
	if c == nil {
		return
	}
	a.charts[c.Path] = c
	for _, s := range c.Subcharts {
		a.addTree(s.Chart)
	}
}

func (a *arranger) from(e *Edge) *node { return a.reader.nodes[e.at.from] }
func (a *arranger) to(e *Edge) *node   { return a.reader.nodes[e.at.to] }

func (a *arranger) arrange() {
	a.findPlain()
	a.findOwners()
	a.shareWithBase()
	a.makeUnits()
	for _, path := range a.paths {
		a.findDependencies(path)
		a.linkSubcharts(path)
		a.finishUnits(path)
		a.nameUnits(path)
	}
}

// readyOnApply are the kinds whose objects are ready as soon as they are applied.
var readyOnApply = map[plan.GroupKind]bool{
	{Kind: "Namespace"}: true, {Kind: "ServiceAccount"}: true, {Kind: "Secret"}: true, {Kind: "ConfigMap"}: true, {Kind: "Service"}: true,
	{Kind: "ResourceQuota"}: true, {Kind: "LimitRange"}: true, {Kind: "PersistentVolume"}: true, {Kind: "PodTemplate"}: true, {Kind: "Endpoints"}: true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true, {Group: "networking.k8s.io", Kind: "IngressClass"}: true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: true, {Group: "storage.k8s.io", Kind: "StorageClass"}: true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}: true, {Group: "scheduling.k8s.io", Kind: "PriorityClass"}: true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}: true, {Group: "policy", Kind: "PodSecurityPolicy"}: true,
	{Group: "policy", Kind: "PodDisruptionBudget"}: true, {Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: true,
	{Group: rbac, Kind: "Role"}: true, {Group: rbac, Kind: "ClusterRole"}: true,
	{Group: rbac, Kind: "RoleBinding"}: true, {Group: rbac, Kind: "ClusterRoleBinding"}: true,
}

// claim is the kind of claims: they exist once applied, but may be bound only once a pod uses them.
var claim = plan.GroupKind{Kind: "PersistentVolumeClaim"}

// lateKinds are the kinds that Helm applies after the pods that need them.
var lateKinds = map[plan.GroupKind]bool{{Group: "node.k8s.io", Kind: "RuntimeClass"}: true, {Group: "storage.k8s.io", Kind: "CSIDriver"}: true}

// findPlain finds the plain objects: claims and objects that are ready on apply, if they wait only
// for plain objects.
func (a *arranger) findPlain() {
	for _, n := range a.sorted {
		a.plain[n.at] = readyOnApply[n.kind] || n.kind == claim
		for _, e := range a.out[n.at] {
			a.plain[n.at] = a.plain[n.at] && a.plain[a.to(e).at]
		}
	}
}

// findOwners finds the only object that needs a plain object, if there is one: first among
// workloads, then among the rest.
func (a *arranger) findOwners() {
	for _, workloads := range []bool{true, false} {
		owned := slices.Clone(a.owner)
		for _, n := range a.sorted {
			if !a.plain[n.at] && n.isWorkload == workloads {
				a.markOwner(n, n, owned)
			}
		}
		for i, n := range owned {
			if a.owner[i] == nil {
				a.owner[i] = n
			}
		}
	}
}

// markOwner makes an object the owner of the plain objects that it reaches.
func (a *arranger) markOwner(owner, n *node, owned []*node) {
	for _, e := range a.out[n.at] {
		to := a.to(e)
		if !a.plain[to.at] || owned[to.at] == owner || a.shared[to.at] || a.owner[to.at] != nil {
			continue
		}
		if owned[to.at] != nil || owner.Chart != to.Chart {
			a.shared[to.at] = true
		} else {
			owned[to.at] = owner
		}
		a.markOwner(owner, to, owned)
	}
}

// shareWithBase makes what an object of the base unit needs come before all workloads, too, even if only one workload needs it: the base
// unit waits for none.
func (a *arranger) shareWithBase() {
	for _, n := range slices.Backward(a.sorted) { // what waits comes first
		if !a.plain[n.at] || a.joinsOwner(n) || a.staysAlone(n) {
			continue
		}
		for _, e := range a.out[n.at] {
			if to := a.to(e); to.Chart == n.Chart {
				a.shared[to.at] = true
			}
		}
	}
}

// joinsOwner reports whether a plain object joins the unit of the only object that needs it.
func (a *arranger) joinsOwner(n *node) bool {
	return a.owner[n.at] != nil && !a.shared[n.at] && !lateKinds[n.kind]
}

// staysAlone reports whether a plain object is a claim that nobody uses.
func (a *arranger) staysAlone(n *node) bool {
	return n.kind == claim && a.owner[n.at] == nil && !a.shared[n.at]
}

// declaredGroup returns the group that an object declares, the groups to wait for, and whether it is a layer.
//
// Rule R67: a declared order is kept; only objects without a group get an inferred one
func declaredGroup(n *node) (name string, after []string, layer bool) {
	trimmed := func(key string) string {
		value, _ := plan.Annotation(n.Annotations, key)
		return strings.TrimSpace(value)
	}
	if name = trimmed(plan.AnnotationLayer); name != "" {
		if needs := trimmed(plan.AnnotationLayerDependsOn); needs != "" {
			after, _ = plan.ParseNames(needs)
		}
		return name, after, true
	}
	after, _ = plan.ParseList(trimmed(plan.AnnotationGroupDependsOn))
	return trimmed(plan.AnnotationGroup), after, false
}

// unitFor returns the unit with a key, creating it if needed.
func (a *arranger) unitFor(chart string, p purpose, key string) *unit {
	k := unitKey{chart, p, key}
	if u := a.unitKeys[k]; u != nil {
		return u
	}
	u := &unit{unitKey: k, dependencies: map[*unit]bool{}, subcharts: map[string]bool{}}
	a.unitKeys[k] = u
	a.units[chart] = append(a.units[chart], u)
	return u
}

// put assigns an object to a unit.
func (a *arranger) put(n *node, u *unit) {
	a.unit[n.at] = u
	u.members = append(u.members, n)
}
