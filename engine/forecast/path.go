package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
)

// Step is a group on the critical path.
type Step struct {
	Group  *event.GroupState
	Start  time.Duration // from the start of the operation
	Took   time.Duration
	Waited time.Duration // the part of Took spent waiting for the cluster, see Waits
}

// PathHeading returns the heading of the critical path.
func PathHeading(s *event.State) string {
	if s.Edited() {
		return fmt.Sprintf("critical path of revision %d (after the edit)", s.Operation.Revision)
	}
	return "critical path"
}

// Path returns the critical path in run order. Its last step is the group that ended last. Each step
// is preceded by the dependency that ended last or, if there is none, by the last group of another phase to end before the
// step started. The rollback of a failed or aborted operation is ignored,
// and so are revisions that an edit replaced.
func Path(s *event.State) []Step {
	waits := Waits(s)
	var path []Step
	var last *event.GroupState
	for _, p := range forwardPhases(s) {
		last = latest(last, p.Groups, s.Now)
	}
	seen := map[*event.GroupState]bool{} // instant groups could form a cycle
	for last != nil && !seen[last] {
		seen[last] = true
		path = append(path, Step{last, last.Started.Sub(s.Started), Took(last), waits[last.Unit()]})
		last = predecessor(s, last)
	}
	slices.Reverse(path)
	return path
}

// A path is worth showing to somebody who has not asked for it if its steps take at least minShown together. Steps shorter than
// minStep would be shown as 0.0s.
const (
	minShown = 3 * time.Second
	minStep  = 50 * time.Millisecond
)

// ShownPath returns the steps of the critical path to show after a run, or nil if they would say nothing: the run was short, was
// aborted, or one step took the whole time.
func ShownPath(s *event.State) []Step {
	total := time.Duration(0)
	steps := LongSteps(Path(s))
	for _, step := range steps {
		total += step.Took
	}
	if len(steps) < 2 || total < minShown || s.Status == event.Aborted {
		return nil
	}
	return steps
}

// LongSteps returns the steps of a path that do not show as 0.0s.
func LongSteps(path []Step) []Step {
	return slices.DeleteFunc(path, func(step Step) bool { return step.Took < minStep })
}

// predecessor returns the last group that g waited for, or nil.
func predecessor(s *event.State, g *event.GroupState) *event.GroupState {
	var last *event.GroupState
	for _, id := range g.After {
		if b := s.Find(g.Phase, id); b != nil {
			last = latest(last, []*event.GroupState{b}, g.Started)
		}
	}
	if last != nil {
		return last
	}
	for _, p := range s.Phases {
		if p.Name != g.Phase {
			last = latest(last, p.Groups, g.Started)
		}
	}
	return last
}

// latest returns whichever of last and groups ended last, ignoring groups that ended after limit.
func latest(last *event.GroupState, groups []*event.GroupState, limit time.Time) *event.GroupState {
	for _, g := range groups {
		ended := !g.Started.IsZero() && !g.Ended.IsZero() && !g.Ended.After(limit)
		if ended && (last == nil || g.Ended.After(last.Ended)) {
			last = g
		}
	}
	return last
}

// Bar is a step drawn as a row of cells: From blank cells, then Requests cells for the time that was not spent waiting (its
// requests), then Waited cells for the time spent waiting for the cluster.
type Bar struct{ From, Requests, Waited int }

// Bars scales a path to a width in cells, at least one for each step. It omits the time between steps: pauses, holds
// and earlier attempts of a group.
func Bars(path []Step, width int) []Bar {
	total := time.Millisecond // never 0
	for _, step := range path {
		total += step.Took
	}
	cells := func(d time.Duration) int { return min(int(float64(d)/float64(total)*float64(width)+0.5), width) }
	bars := make([]Bar, len(path))
	at := time.Duration(0)
	for i, step := range path {
		from := min(cells(at), width-1)
		at += step.Took
		length := max(cells(at)-from, 1)
		waited := min(cells(step.Waited), length)
		bars[i] = Bar{from, length - waited, waited}
	}
	return bars
}

// LongestGroups returns up to limit groups that took longest, the longest first. It ignores groups without
// a history, those that did not succeed, and those of the operation's rollback.
func LongestGroups(s *event.State, limit int) []Timing {
	var all []Timing
	for _, p := range forwardPhases(s) {
		for _, g := range p.Groups {
			succeeded := g.Status == event.Ready || g.Status == event.Applied || g.Status == event.Gone
			if last, known := p.Usual[g.ID]; known && succeeded && !unchanged(g) {
				all = append(all, Timing{g, Took(g), last})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Timing) int { return cmp.Compare(b.Took, a.Took) })
	return all[:min(len(all), limit)]
}

// unchanged reports whether the run has changed no object of a group: the time is that of a group that was ready.
func unchanged(g *event.GroupState) bool {
	return len(g.Objects) > 0 && !slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.NetChange() != event.Unchanged })
}
