package home

import (
	"cmp"
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/ui/board/graph"
	"lockstep/ui/cli/runs"
	"lockstep/ui/home"
)

// describeOperation names an operation with the chart that it deploys.
func describeOperation(name, chart string) string {
	if name == "uninstall" {
		return name
	}
	return text.Join(" ", name, chart)
}

// retriedAt names an object whose request is retried or waits for something, and why; in a stack it begins with the release. It returns
// "" if there is none.
func retriedAt(s *event.State) string {
	for g := range s.GroupStates() {
		if release := s.Scopes[g.ID]; release != nil {
			if why := retriedAt(release); why != "" {
				return g.ID + ": " + why
			}
			continue
		}
		for _, o := range g.Objects {
			if sent := o.Status == event.Applying || o.Status == event.Deleting; sent && o.Message != "" && !s.Operation.IsStack() {
				return graph.ShortObject(o.Object) + ": " + o.Message
			}
		}
	}
	return ""
}

// heldBy says which failure holds a run, as its screen does, and counts the others. It returns "" if no group has failed.
func heldBy(s *event.State) string {
	release, roots := "", s.Roots()
	if g := s.HeldRelease(); g != nil {
		release, roots = g.ID+": ", s.Scopes[g.ID].Roots()
	}
	if len(roots) == 0 {
		return ""
	}
	why := roots[0].Cause
	if o := roots[0].Object; o != nil {
		why = graph.ShortObject(o.Object) + ": " + why
	}
	if more := len(roots) - 1; more > 0 {
		why += fmt.Sprintf("; and %d more", more)
	}
	return release + why
}

// pausedBy says who paused a run by a command, "" if nobody did: "by lockstep ctl (ann on box)".
func pausedBy(s *event.State) string {
	if o := s.RunOrigin; o != nil && o.Command == event.Pause && o.Why == "" {
		return strings.TrimSpace(phrase.Whence(*o))
	}
	return ""
}

// describe fills in how a run stands.
func describe(row *home.LiveRun, s *event.State) {
	row.Status, row.Why = s.RunStatus()
	row.Since = s.Started
	op := s.Operation
	row.Operation = describeOperation(op.Name, op.Chart)
	if row.Status == "" {
		row.Status = event.Running
	}
	if row.Status == event.Held {
		row.Why = cmp.Or(heldBy(s), row.Why)
	}
	if row.Why != "" { // as the screen of the run calls its groups
		names := graph.New(s)
		row.Why = names.Shorten(row.Why)
	}
	done, of, stuck := 0, 0, runs.Stuck(s)
	row.Parts = nil
	for g := range s.GroupStates() {
		of++
		if g.Status == event.Ready || g.Status == event.Gone || g.Status == event.Applied {
			done++
		}
		shown := g.Shown()
		for _, o := range g.Objects {
			if o.Degraded && !o.Done() {
				shown = event.Degraded
			}
		}
		if op.IsStack() {
			row.Parts = append(row.Parts, home.Part{Name: g.ID, Status: cmp.Or(s.ReleaseRun(g), shown), Why: g.Message})
		}
	}
	if row.Why == "" && of > 0 {
		row.Why = text.Join("; ", pausedBy(s), cmp.Or(stuck, retriedAt(s)), fmt.Sprintf("%d of %d %ss done", done, of, s.GroupNoun()))
	}
	if stuck != "" && row.Status == event.Running {
		row.Status = event.Degraded
	}
}
