package event

import (
	"iter"

	"lockstep/engine/plan"
)

// PlannedGroup is a group with its phase.
type PlannedGroup struct {
	Phase Phase
	*plan.Group
}

// Unit returns the group as a unit.
func (g PlannedGroup) Unit() Unit { return Unit{g.Phase.Name, g.ID} }

// Groups yields the groups of phases, in plan order.
func Groups(phases []Phase) iter.Seq[PlannedGroup] {
	return func(yield func(PlannedGroup) bool) {
		for _, p := range phases {
			for _, g := range p.Groups {
				if !yield(PlannedGroup{p, g}) {
					return
				}
			}
		}
	}
}

// Objects yields the objects of phases with their groups, in plan order.
func Objects(phases []Phase) iter.Seq2[PlannedGroup, plan.Object] {
	return func(yield func(PlannedGroup, plan.Object) bool) {
		for g := range Groups(phases) {
			for _, o := range g.Objects {
				if !yield(g, o) {
					return
				}
			}
		}
	}
}
