// Package infer reads from rendered objects the order that a chart implies: who
// mounts which ConfigMap, which Service stands before which pods, whose rights
// name which custom resources. What it finds are edges, each with the field that
// it was read from. Groups follow from them, and are written as the annotations
// that an author would have written: plan.Build remains the only planner.
package infer

import (
	"cmp"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Object is one rendered object: what the planner sees of it, and its fields.
type Object struct {
	plan.Resource
	Fields map[string]any
	// Hook is set for a ConfigMap or Secret that is a hook: it is there before, and only
	// read.
	Hook bool
}

// Strength is how much an object needs what it waits for.
type Strength string

// The strengths.
const (
	// Hard is what an object names: it is refused, or does not start, without it.
	// It needs the other to be there, not to be ready.
	Hard Strength = "hard"
	// Serving is what an object calls: it works only once the other is ready.
	Serving Strength = "serving"
	// Soft is what is better done first.
	Soft Strength = "soft"
)

// softness orders strengths, the strongest first.
func (s Strength) softness() int { return slices.Index([]Strength{Hard, Serving, Soft}, s) }

// Edge says that From waits for To.
type Edge struct {
	From, To plan.Object
	Strength Strength
	Reason   Reason

	at arc // between the nodes of a reader
}

// Reason is what an edge was read from.
type Reason struct {
	// In is the object that the field is in, mostly that which waits.
	In plan.Object
	// Path is the field, "spec.template.spec.containers[0].env[2].value", Value
	// what it says of the other object. Secret values are never a part of it.
	Path, Value string
	// Text says it in words, after "A waits for B: ".
	Text string
	// By are the objects besides the two that the edge would not be there without.
	By []plan.Object
	// doubt orders reasons of one strength: the larger, the less likely.
	doubt int
	// proof is set where a command that waits says so: nothing else contradicts it.
	proof bool
	// many is set for a ConfigMap or Secret that becomes variables as a whole: who reads it
	// need not use all of it.
	many bool
}

// Dropped is an edge that the groups do not keep, and why.
type Dropped struct {
	Edge
	Why string
	// Cycle are objects or charts that wait for each other, where that is why: each
	// for the next one, the last for the first.
	Cycle []string
	// Error is set where the chart cannot come up in order because of it.
	Error bool
}

// Group is what a group of one chart is to be.
type Group struct {
	// Chart is its chart path, Name its name, plan.Unsequenced where its objects
	// get no annotation.
	Chart, Name string
	Objects     []plan.Object
	// After are the groups of the same chart to wait for, Subcharts the subcharts,
	// by the names that Chart.yaml has for them.
	After, Subcharts []string
	// Written is set where the author has named the group; what it waits for is as
	// written as well.
	Written bool
}

// Chart is what Chart.yaml of a chart is to say.
type Chart struct {
	Path string
	// DependsOn are the subcharts that the chart's own resources wait for.
	DependsOn []string
	// Subcharts are the subcharts that a subchart waits for, both by name.
	Subcharts map[string][]string
	// Layers is set where groups are written as layers, since they wait for
	// subcharts of their own (R18).
	Layers bool
}

// Order is the order that a chart implies. It does not depend on the order in
// which its objects were given, and no list in it is nil.
type Order struct {
	// Edges are all that were found and kept, by their objects. They have no
	// cycle.
	Edges []Edge
	// Dropped are those that were found and order nothing.
	Dropped []Dropped
	// Groups are those of charts that need groups, by chart and name.
	Groups []Group
	// Charts are those with something to say, by path.
	Charts []Chart

	jobs map[plan.Object]bool // those that are waited for to their end
}

// From reads the order that a release implies from its objects, and from hooks that
// these read. The tree may be nil.
//
// Rule R60: an order is read from objects alone, and leads to annotations.
func From(release string, tree *plan.Chart, objects []Object) *Order {
	r := newReader(objects)
	r.read()
	edges, cycles := r.acyclic()
	a := newArranger(release, tree, r, edges)
	a.arrange()
	o := a.order()
	o.Dropped = slices.Concat(cycles, o.Dropped)
	if o.Dropped == nil {
		o.Dropped = []Dropped{}
	}
	slices.SortStableFunc(o.Dropped, func(a, b Dropped) int { return a.Compare(b.Edge) })
	return o
}

// Compare orders edges by their objects.
func (e Edge) Compare(f Edge) int { return cmp.Or(e.From.Compare(f.From), e.To.Compare(f.To)) }

// Between returns the edges that lead from one set of objects to another, the
// strongest and surest first: why a group waits for another one.
func (o *Order) Between(from, to []plan.Object) []Edge {
	in := func(list []plan.Object) map[plan.Object]bool {
		set := make(map[plan.Object]bool, len(list))
		for _, x := range list {
			set[x] = true
		}
		return set
	}
	waits, awaited := in(from), in(to)
	var found []Edge
	for _, e := range o.Edges {
		if waits[e.From] && awaited[e.To] {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, compareStrength)
	return found
}

// compareStrength orders edges by strength and doubt, the strongest and surest
// first.
func compareStrength(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.Reason.doubt, b.Reason.doubt))
}

// class is what goes from a cycle first: the largest does (R66).
func (e Edge) class() int {
	if e.Strength == Serving && e.Reason.proof {
		return 2
	}
	return []int{1, 3, 4}[e.Strength.softness()]
}

// sure reports whether the other way round is impossible.
func (e Edge) sure() bool { return e.Strength == Hard || e.Reason.proof }

func (e Edge) String() string {
	return e.From.String() + " waits for " + e.To.String() + ": " + e.Reason.Text
}

// sentence joins names as one says them.
func sentence(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
