// Package infer derives the order that a chart implies from its rendered objects: mounted
// ConfigMaps, called Services, roles on custom resources. From these edges it makes groups. It
// expresses them as the annotations that an author would write, so that plan.Build stays the only
// planner. Its central types are Order and Edge. It is pure; the commands and kube/operation import it.
package infer

import (
	"cmp"
	"slices"

	"lockstep/engine/plan"
)

// Object is a rendered object with its fields.
type Object struct {
	plan.Resource
	Fields map[string]any
	// Hook is set for a ConfigMap or Secret that is a hook. It gets no edges, because hooks are not part of
	// the order; only its data is read.
	Hook bool
}

// Strength is how strongly an object needs the other one.
type Strength string

// The strengths.
const (
	// Hard: the object is refused or does not start unless the other one exists, ready or not.
	Hard Strength = "hard"
	// Serving: the object works only once the other one is ready.
	Serving Strength = "serving"
	// Soft: the other one should come first, but nothing proves it.
	Soft Strength = "soft"
)

// Edge means that From waits for To.
type Edge struct {
	From, To plan.Object
	Strength Strength
	Reason   Reason

	at arc // the same, as indexes in reader.nodes
}

// Reason is the evidence for an edge.
type Reason struct {
	// In is the object with the field, usually the waiting one.
	In plan.Object
	// Path is the field, "spec.template.spec.containers[0].env[2].value", Value the part of it that
	// names the other object. It never contains a secret.
	Path, Value string
	// Text is the reason in words, after "A waits for B: ".
	Text string
	// By are further objects that the edge depends on.
	By []plan.Object
	// doubt ranks reasons of the same strength: the larger, the less certain.
	doubt int
	// proof is set for a command that waits, and for the creator of a Secret without which pods do not start: it overrides
	// other evidence.
	proof bool
	// allEntries is set if all entries of a ConfigMap or Secret become variables of the container,
	// which may not need all of them.
	allEntries bool
	// shared is set if the called workload has the same variable as the Job that calls it: it may be its own address.
	shared bool
}

// Dropped is an edge that was dropped, and why.
type Dropped struct {
	Edge
	Chart string // of From
	Why   string
	// Cycle are objects or charts that wait for each other, if that is the reason: each waits
	// for the next one, the last for the first.
	Cycle []string
	// Error is set if the chart cannot be installed in any order because of it.
	Error bool
}

// Group is an inferred group of a chart.
type Group struct {
	Chart, Name string // the chart path, and the name in annotations
	Objects     []plan.Object
	// After lists the groups of the same chart to wait for, Subcharts the subcharts, by their names
	// in Chart.yaml.
	After, Subcharts []string
	// Declared means that the author declared the group and its dependencies.
	Declared bool
}

// Chart is the addition to a Chart.yaml.
type Chart struct {
	Path string
	// DependsOn lists the subcharts that the chart's own objects wait for.
	DependsOn []string
	// Subcharts maps a subchart to those that it waits for, all by name.
	Subcharts map[string][]string
	// Layers is set if groups are written as layers, because they wait for different subcharts (R18).
	Layers bool
}

// Order is the order that a chart implies. It does not depend on the order of the input, and
// none of its lists is nil.
type Order struct {
	Edges   []Edge    // without cycles, sorted by their objects
	Dropped []Dropped // edges that have no effect
	Groups  []Group   // of charts that need groups, sorted by chart and name
	Charts  []Chart   // with additions to Chart.yaml, sorted by path

	jobs   map[plan.Object]bool // Jobs that must complete
	claims map[plan.Object]bool // PersistentVolumeClaims that need only exist, because a later group binds them
}

// From infers the order of a release from its objects, and from the hooks whose data they use. The
// tree may be nil.
//
// Rule R60: an order is inferred from objects only, and results in annotations
func From(release string, tree *plan.Chart, objects []Object) *Order {
	r := newReader(slices.Clone(objects)) // the arranger sets their charts
	r.read()
	edges, cycles := r.acyclic()
	a := newArranger(release, tree, r, edges)
	a.arrange()
	o := a.order()
	o.Dropped = slices.Concat(cycles, o.Dropped)
	if o.Dropped == nil {
		o.Dropped = []Dropped{}
	}
	for i := range o.Dropped {
		d := &o.Dropped[i]
		d.Chart = r.nodes[d.at.from].Chart
	}
	slices.SortStableFunc(o.Dropped, func(a, b Dropped) int { return a.Compare(b.Edge) })
	return o
}

// Waits returns the edges that a command proves: its container waits for another workload (R62).
func Waits(objects []Object) []Edge {
	r := newReader(slices.Clone(objects))
	r.waitEdges()
	return slices.DeleteFunc(r.edges(), func(e Edge) bool { return !e.Reason.proof })
}

// Compare compares edges by their objects.
func (e Edge) Compare(f Edge) int { return cmp.Or(e.From.Compare(f.From), e.To.Compare(f.To)) }

// Between returns the edges from one set of objects to another, the strongest and most certain
// first: the reasons why one group waits for another.
func (o *Order) Between(from, to []plan.Object) []Edge {
	found := slices.DeleteFunc(slices.Clone(o.Edges), func(e Edge) bool { return !slices.Contains(from, e.From) || !slices.Contains(to, e.To) })
	slices.SortStableFunc(found, compareStrength)
	return found
}

// compareStrength compares edges by strength and doubt, the strongest and most certain first.
func compareStrength(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.Reason.doubt, b.Reason.doubt))
}

// certain is the largest class of an edge whose opposite order is impossible.
const certain = 2

// class ranks edges on a cycle: the largest class is dropped first (R66).
func (e Edge) class() int {
	switch {
	case e.Strength == Hard:
		return 1
	case e.Strength == Serving && e.Reason.proof:
		return 2
	case e.Strength == Serving:
		return mayWait + 1
	}
	return mayWait + 2
}

// isCertain reports whether the opposite order is impossible.
func (e Edge) isCertain() bool { return e.Strength == Hard || e.Reason.proof }

func (e Edge) String() string {
	return e.From.String() + " waits for " + e.To.String() + ": " + e.Reason.Text
}
