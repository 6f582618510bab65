package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Edit is how an edited revision differs from the one that it replaces (R46).
type Edit struct {
	Operation     event.Operation
	Before, After []event.Phase
	Changes       []Change
	Warnings      []plan.Warning
	// Empty means that it applies the same objects in the same order.
	Empty bool
}

// Lines are the counts, the warnings and the changes to the plan. After its indentation a
// line starts with + (new), - (removed) or ~ (changed).
func (e Edit) Lines() []string {
	var lines []string
	switch _, counts := count(e.Changes); {
	case e.Empty:
		lines = []string{"no object changes: nothing to apply"}
	case len(e.Changes) == 0:
		lines = []string{fmt.Sprintf("revision %d: no object changes", e.Operation.Revision)}
	default:
		lines = []string{fmt.Sprintf("revision %d: %s", e.Operation.Revision, counts)}
	}
	for _, w := range e.Warnings {
		lines = append(lines, "! "+withReason(w.Rule, w.Message))
	}
	if plan := e.plan(); len(plan) > 0 && !e.Empty {
		lines = append(append(lines, "", "plan"), plan...)
	}
	for n := range lines {
		lines[n] = clean(lines[n])
	}
	return lines
}

// plan are the changes to the groups that are applied, and to their order.
func (e Edit) plan() (lines []string) {
	before, after := appliedGroups(e.Before), appliedGroups(e.After)
	for _, g := range after {
		i := slices.IndexFunc(before, func(old *plan.Group) bool { return old.ID == g.ID })
		switch gates := strings.Join(g.After, ", "); {
		case i < 0:
			lines = append(lines, fmt.Sprintf("  + %s (%s)%s", g.ID, Count(len(g.Objects), "object"), prefixed(", after ", gates)))
		case strings.Join(before[i].After, ", ") != gates:
			lines = append(lines, "  ~ "+g.ID+" waits for "+cmp.Or(gates, "nothing"))
		}
	}
	for _, g := range before {
		if !slices.ContainsFunc(after, func(now *plan.Group) bool { return now.ID == g.ID }) {
			lines = append(lines, "  - "+g.ID)
		}
	}
	return lines
}

// appliedGroups are the groups of all phases, without removals and the namespace, which
// exists by then.
func appliedGroups(phases []event.Phase) (groups []*plan.Group) {
	for _, p := range phases {
		if p.Kind != event.PhaseRemove && p.Kind != event.PhaseNamespace {
			groups = append(groups, p.Groups...)
		}
	}
	return groups
}
