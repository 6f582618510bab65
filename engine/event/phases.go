package event

import (
	"fmt"
	"iter"
	"strings"

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

// NewNamespace returns the namespace that the phases create first, the zero Object if they create none. The release may
// contain it, too: it counts once.
func NewNamespace(phases []Phase) plan.Object {
	for g, o := range Objects(phases) {
		if g.Phase.Kind == PhaseNamespace {
			return o
		}
	}
	return plan.Object{}
}

// CountObjects counts the objects of phases. created is the NewNamespace of the run.
func CountObjects(phases []Phase, created plan.Object) (n int) {
	for g, o := range Objects(phases) {
		if o != created || g.Phase.Kind == PhaseNamespace {
			n++
		}
	}
	return n
}

// PhaseTitle returns the title of a phase: "" for apply, "delete" for a removal, "delete (left over from revision 2)" for
// the removal of revision 2's leftovers, else the phase's name. In a rollback it starts with "rollback: "; apply
// becomes "rollback", and a name that ends in "rollback" gets no prefix.
func PhaseTitle(name string, kind PhaseKind) string { return phaseTitle(name, kind, "") }

// LayerTitle returns the title of a layer of a phase: "layer 0", "delete layer 0", "rollback: delete layer 0".
func LayerTitle(name string, kind PhaseKind, layer int) string {
	return phaseTitle(name, kind, fmt.Sprintf("layer %d", layer))
}

// phaseTitle returns the title of a phase, with layer after what the phase does.
func phaseTitle(name string, kind PhaseKind, layer string) string {
	name, back := strings.CutPrefix(name, RollbackPrefix)
	detail := ""
	switch kind {
	case PhaseApply:
		name = ""
	case PhaseRemove:
		_, revision, leftovers := strings.Cut(name, "-")
		if name = "delete"; leftovers {
			detail = " (left over from revision " + revision + ")"
		}
	}
	switch {
	case back && name == "":
		name = "rollback"
	case back && !strings.HasSuffix(name, "rollback"): // pre-rollback and post-rollback say so already
		name = "rollback: " + name
	}
	if name != "" && layer != "" {
		name += " "
	}
	return name + layer + detail
}
