package picture

import (
	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// A rollback does not change the groups of the operation. Their outcomes come from the
// rollback's own phases, object by object.

// The outcomes of objects and groups, words of the theme's table.
const (
	removed    = "removed"
	rolledBack = "rolled-back"
	partly     = "partly-undone"
)

// Undone computes the outcomes of a rollback so far.
func (p *Picture) Undone() {
	p.undo = nil
	if !p.RollingBack() {
		return
	}
	p.undo = map[plan.Object]*event.ObjectState{}
	for _, n := range p.Graph.Nodes {
		for _, o := range n.Objects {
			if n.Back() && o.Status != event.Waiting {
				p.undo[o.Object] = o
			}
		}
	}
	for _, n := range p.Graph.Nodes {
		n.Outcome = p.groupOutcome(n)
	}
}

// ObjectOutcome returns a rollback's effect on an object, "" if there is none: untouched,
// unchanged, failed, or nothing to undo.
func (p *Picture) ObjectOutcome(n *graph.Node, o *event.ObjectState) string {
	u := p.undo[o.Object]
	if u == nil || n.Back() || o.Status == event.Waiting || u.Change == event.Kept || u.Change == event.Unchanged {
		return ""
	}
	switch u.Status {
	case event.Gone:
		if o.Status != event.Gone { // before the rollback
			return removed
		}
	case event.Ready, event.Applied:
		return rolledBack
	case event.Deleting:
		return string(event.Deleting)
	case event.Applying, event.InProgress:
		return string(event.RollingBack)
	}
	return ""
}

// groupOutcome returns a rollback's effect on a group that had started.
func (p *Picture) groupOutcome(n *graph.Node) string {
	if n.Back() || n.Started.IsZero() {
		return ""
	}
	is, any, all := removed, false, true
	for _, o := range n.Objects {
		switch outcome := p.ObjectOutcome(n, o); {
		case outcome == removed:
			any = true
		case outcome == rolledBack:
			any, is = true, rolledBack
		case outcome != "":
			any, all = true, false
		case o.Status != event.Waiting && !p.untouched(o):
			all = false
		}
	}
	switch {
	case !any:
		return ""
	case all:
		return is
	case !p.Over():
		return string(event.RollingBack)
	}
	return partly
}

// untouched reports whether a rollback had nothing to do for an object.
func (p *Picture) untouched(o *event.ObjectState) bool {
	u := p.undo[o.Object]
	return u != nil && (u.Change == event.Unchanged || u.Status == event.Gone)
}

// GroupMark returns the mark of a group's status. A failed group shows its failure after a
// rollback too.
func (p *Picture) GroupMark(n *graph.Node) theme.Mark {
	mark := p.Theme.Mark(string(n.Status))
	switch {
	case p.State.ReleaseRun(n.GroupState) != "":
		return p.releaseMark(n)
	case n.Degraded > 0:
		return p.Theme.Mark(string(event.Degraded))
	case n.Outcome == "":
	case IsUnfinished(n.Status):
		mark.Word += ", " + p.Theme.Mark(n.Outcome).Word
	default:
		return p.Theme.Mark(n.Outcome)
	}
	return mark
}
