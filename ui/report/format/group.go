package format

import (
	"cmp"
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
)

// Progress counts the objects that are done: "1 of 2 objects ready", or "1 of 2 objects gone" if the group is being
// removed.
func Progress(g *event.GroupState, removing bool) string {
	done := "ready"
	if removing {
		done = "gone"
	}
	return fmt.Sprintf("%d of %s %s", g.Done, text.Count(len(g.Objects), "object"), done)
}

// Removes reports whether a phase removes its groups.
func Removes(s *event.State, phase string) bool {
	return s.PhaseKind(phase) == event.PhaseRemove
}

// GroupName returns the id of a group, after "delete " if the group is deleted by an operation that does not delete all.
func GroupName(s *event.State, g *event.GroupState) string {
	if Removes(s, g.Phase) && s.Operation.Name != "uninstall" && !s.Operation.IsStack() {
		return Deletion(g)
	}
	return g.ID
}

// Deletion names the deletion of a group: "delete shop:migrate", "delete shop:migrate of revision 2" if that left it over.
func Deletion(g *event.GroupState) string {
	name := "delete " + g.ID
	if revision := event.LeftoverRevision(g.Phase); revision > 0 {
		name += fmt.Sprintf(" of revision %d", revision)
	}
	return name
}

// GroupTitle is GroupName, followed by " (rollback)" in a rollback.
func GroupTitle(s *event.State, g *event.GroupState) string {
	name := GroupName(s, g)
	if event.IsRollback(g.Phase) {
		name += " (rollback)"
	}
	return name
}

// GroupOK reports whether all objects of a group are ready, or gone, and have stayed so.
func GroupOK(g *event.GroupState) bool {
	switch g.Status {
	case event.Ready, event.Gone:
		return Problem(g) == ""
	case event.Applied: // not checked (R21), so its objects may not be ready
		return !slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return !o.Done() && !o.NotAwaited() })
	}
	return false
}

// GroupStatus returns the status to show for a group that has ended: Degraded if it was ready but has not stayed so.
func GroupStatus(g *event.GroupState) event.Status {
	if g.Status == event.Ready && !GroupOK(g) {
		return event.Degraded
	}
	return g.Shown()
}

// Problem describes on one line why a group is not OK: its objects in trouble, without the causes of a failure. It
// returns "" if there is nothing to say.
func Problem(g *event.GroupState) string {
	var objects, regressed []string
	for _, o := range g.Objects {
		switch name := o.Object.String(); {
		case o.NotAwaited():
		case o.InTrouble() && g.Status == event.Failed:
			objects = append(objects, name)
		case o.InTrouble():
			objects = append(objects, name+": "+cmp.Or(o.Cause, o.Message))
		case g.Status == event.Ready && o.Status == event.InProgress && o.Cause == "":
			regressed = append(regressed, WithReason(name+" is no longer ready", o.Message))
		}
	}
	first := ""
	switch g.Status {
	case event.Failed:
		if g.FailedObject != nil && !slices.Contains(objects, g.FailedObject.String()) {
			first = g.FailedObject.String()
		} else if len(objects) == 0 {
			return g.Message
		}
	case event.Skipped, event.AtBreakpoint:
		return phrase.Unfinished(g)
	case event.Applied:
		if len(objects) == 0 && !GroupOK(g) {
			removing := slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Status == event.Deleting })
			return "not required to be ready; " + Progress(g, removing) + " at the end"
		}
	case event.Aborted:
		first = phrase.Unfinished(g)
	}
	return Abbreviate(slices.Concat(NonEmpty(first), objects, regressed))
}
