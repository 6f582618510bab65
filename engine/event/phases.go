package event

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"lockstep/engine/plan"
)

// PhaseKind is the kind of a phase.
type PhaseKind string

const (
	PhaseNamespace PhaseKind = "namespace" // the namespace of --create-namespace
	PhaseCRDs      PhaseKind = "crds"      // the content of crds/
	PhaseHooks     PhaseKind = "hooks"     // hooks of one event, one after the other
	PhaseApply     PhaseKind = "apply"     // the groups of the plan
	PhaseRemove    PhaseKind = "remove"    // groups being removed, in reverse
)

// Phase is a part of an operation. Phases run one after the other; the groups of a phase
// run in the order that their After fields define.
type Phase struct {
	// Name is unique within the operation: "crds", "pre-install", "apply", "remove", and
	// during a rollback "rollback/remove" and so on.
	Name   string        `json:"name"`
	Kind   PhaseKind     `json:"kind"`
	Groups []*plan.Group `json:"groups"`
	// Usual is how long each group took, by id, in the last deployed revision that changed it,
	// in nanoseconds. Groups without such a revision are missing.
	Usual map[string]time.Duration `json:"usual,omitempty"`
}

// Unit identifies the namespace, crds/, a hook, a group, or the removal of a group (R40). A
// group is a separate unit in each of its phases.
type Unit struct{ Phase, Group string }

// RollbackPrefix is the prefix of phase names in a rollback that is part of another operation.
const RollbackPrefix = "rollback/"

// IsRollback reports whether a phase belongs to such a rollback.
func IsRollback(phase string) bool { return strings.HasPrefix(phase, RollbackPrefix) }

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
func PhaseTitle(name string, kind PhaseKind) string {
	title, detail := phaseTitle(name, kind, "")
	return title + detail
}

// LayerTitle returns the title of a layer of a phase: "layer 0", "delete layer 0", "rollback: delete layer 0".
func LayerTitle(name string, kind PhaseKind, layer int) string {
	title, detail := phaseTitle(name, kind, fmt.Sprintf("layer %d", layer))
	return title + detail
}

// ShortLayerTitle returns the title of a layer for a narrow place: "0", "delete 0", "rollback: delete 0".
func ShortLayerTitle(name string, kind PhaseKind, layer int) string {
	title, _ := phaseTitle(name, kind, strconv.Itoa(layer))
	return title
}

// LeftoverRevision returns the revision whose leftovers a phase removes, or 0 if it removes none.
func LeftoverRevision(phase string) int {
	number, ok := strings.CutPrefix(strings.TrimPrefix(phase, RollbackPrefix), string(PhaseRemove)+"-")
	revision, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0
	}
	return revision
}

// RollbackTitle is before the titles of a rollback's phases, except for its apply phase and its hooks.
const RollbackTitle = "rollback: "

// phaseTitle returns the title of a phase, with layer after what the phase does, and a detail in brackets or "".
func phaseTitle(name string, kind PhaseKind, layer string) (title, detail string) {
	revision := LeftoverRevision(name)
	name, back := strings.CutPrefix(name, RollbackPrefix)
	switch kind {
	case PhaseApply:
		name = ""
	case PhaseRemove:
		if name = "delete"; revision > 0 {
			detail = fmt.Sprintf(" (left over from revision %d)", revision)
		}
	}
	switch {
	case back && name == "":
		name = "rollback"
	case back && !strings.HasSuffix(name, "rollback"): // pre-rollback and post-rollback say so already
		name = RollbackTitle + name
	}
	if name != "" && layer != "" {
		name += " "
	}
	return name + layer, detail
}
