package report

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Edit is what an edited revision has other than the one it takes the place of
// (R46).
type Edit struct {
	Operation     event.Operation
	Before, After []event.Phase
	Changes       []Change
	Warnings      []plan.Warning
}

// Lines are the difference for people to read: what is edited, then the plan, then
// the objects. What begins with +, - or ~ after its indentation is new, gone or
// changed.
func (e Edit) Lines() []string {
	lines := []string{fmt.Sprintf("revision %d: %s", e.Operation.Revision, Plan{Changes: e.Changes}.edited())}
	for _, w := range e.Warnings {
		lines = append(lines, "! "+withReason(w.Rule, w.Message))
	}
	if moved := e.plan(); len(moved) > 0 {
		lines = append(append(lines, "", "plan"), moved...)
	}
	group := ""
	for _, c := range e.Changes {
		if c.Group != group {
			group = c.Group
			lines = append(lines, "", group)
		}
		lines = append(lines, "  "+actions[c.Action].sign+" "+withReason(c.Object.String(), c.Message))
		for line := range strings.Lines(c.Diff) {
			lines = append(lines, "      "+strings.TrimRight(line, "\n"))
		}
	}
	for n := range lines {
		lines[n] = clean(lines[n])
	}
	return lines
}

// edited counts what becomes other.
func (p Plan) edited() string {
	n := map[string]int{}
	for _, c := range p.Changes {
		n[c.Action]++
	}
	if len(p.Changes) == 0 {
		return "no object changes"
	}
	return fmt.Sprintf("%d to create, %d to change, %d to delete", n["create"], n["change"], n["delete"])
}

// plan is what becomes other of the groups that bring objects and of their order.
func (e Edit) plan() (lines []string) {
	was, is := ordered(e.Before), ordered(e.After)
	for _, g := range is {
		i := slices.IndexFunc(was, func(old *plan.Group) bool { return old.ID == g.ID })
		switch after := strings.Join(g.After, ", "); {
		case i < 0:
			lines = append(lines, fmt.Sprintf("  + %s (%s)%s", g.ID, Count(len(g.Objects), "object"), prefixed(", after ", after)))
		case strings.Join(was[i].After, ", ") != after && after == "":
			lines = append(lines, "  ~ "+g.ID+" waits for nothing")
		case strings.Join(was[i].After, ", ") != after:
			lines = append(lines, "  ~ "+g.ID+" waits for "+after)
		}
	}
	for _, g := range was {
		if !slices.ContainsFunc(is, func(now *plan.Group) bool { return now.ID == g.ID }) {
			lines = append(lines, "  - "+g.ID)
		}
	}
	return lines
}

// ordered are the groups of all phases but those that remove, and the namespace,
// which is there by then.
func ordered(phases []event.Phase) (groups []*plan.Group) {
	for _, p := range phases {
		if p.Kind != event.PhaseRemove && p.Kind != event.PhaseNamespace {
			groups = append(groups, p.Groups...)
		}
	}
	return groups
}
