package picture

import (
	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// The outcomes of objects and groups after a rollback, as keys of theme's table. A rollback has
// its own phases and does not change the operation's groups; their outcomes are derived from it,
// object by object.
const (
	Removed    = "removed"
	rolledBack = "rolled-back"
	partly     = "partly-undone"
)

// UpdateOutcomes computes the outcomes of the rollback so far.
// Changes observed after the end do not affect them.
func (p *Picture) UpdateOutcomes() {
	undone := map[plan.Object]*event.ObjectState{}
	for g := range p.State.GroupStates() {
		for _, o := range g.Objects {
			if event.IsRollback(g.Phase) && o.Status != event.Waiting {
				undone[o.Object] = o
			}
		}
	}
	for _, n := range p.Graph.Nodes {
		if !n.InRollback() {
			n.Undone = undone
		}
		if n.Outcome = p.groupOutcome(n); n.Outcome == "" && p.rolledItselfBack(n) {
			n.Outcome = rolledBack
			if p.State.Scopes[n.ID].Release == event.NoRelease {
				n.Outcome = Removed
			}
		}
	}
}

// rolledItselfBack reports whether the operation of a stack's release was rolled back by itself, not by the stack.
func (p *Picture) rolledItselfBack(n *graph.Node) bool {
	return p.IsRelease() && !n.InRollback() && phrase.Undone(p.State.Scopes[n.ID]) != ""
}

// ObjectOutcome returns a rollback's effect on an object, "" if it had none: the object was not
// reached, did not need to change, or its rollback failed.
func (p *Picture) ObjectOutcome(n *graph.Node, o *event.ObjectState) string {
	u := n.Undone[o.Object]
	if u == nil || o.Status == event.Waiting || u.Change == event.Kept || u.Change == event.Unchanged {
		return ""
	}
	switch u.Status {
	case event.Gone:
		if o.Status != event.Gone { // else it was gone before the rollback
			return Removed
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
	if n.Started.IsZero() {
		return ""
	}
	is, any, all := Removed, false, true
	for _, o := range n.Objects {
		switch outcome := p.ObjectOutcome(n, o); {
		case outcome == Removed:
			any = true
		case outcome == rolledBack:
			any, is = true, rolledBack
		case outcome != "":
			any, all = true, false
		case o.Status != event.Waiting && !untouched(n, o):
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
func untouched(n *graph.Node, o *event.ObjectState) bool {
	u := n.Undone[o.Object]
	return u != nil && (u.Change == event.Unchanged || u.Status == event.Gone)
}

// GroupMark returns the mark of a group's status or outcome. A failed group shows both.
func (p *Picture) GroupMark(n *graph.Node) theme.Mark {
	mark := p.ShortMark(n)
	if n.Outcome != "" && IsUnfinished(n.Status) && n.Degraded == 0 && p.State.ReleaseRun(n.GroupState) == "" {
		mark.Word = p.Theme.Mark(string(n.Shown())).Word + ", " + mark.Word
	}
	return mark
}

// ShortMark is like GroupMark, but the word for a failed group is its outcome: the glyph shows that it failed.
func (p *Picture) ShortMark(n *graph.Node) theme.Mark {
	mark := p.Theme.Mark(string(n.Shown()))
	switch {
	case p.State.ReleaseRun(n.GroupState) != "":
		return p.releaseMark(n)
	case n.Degraded > 0:
		return p.degradedMark(n.Objects)
	case n.Outcome == "":
	case IsUnfinished(n.Status):
		mark.Word = p.Theme.Mark(n.Outcome).Word
	default:
		return p.Theme.Mark(n.Outcome)
	}
	return mark
}
