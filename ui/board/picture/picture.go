// Package picture derives from an operation's state what the screen shows: counts, the marks of
// groups and objects, and the outcomes of a rollback. Only events change it. Its central type is
// Picture, which screen.Screen embeds.
package picture

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// Picture is the state of an operation with its derived numbers and marks.
type Picture struct {
	Theme  theme.Theme
	Now    func() time.Time
	Steers bool // the screen can send commands

	State event.State
	// Observed is the state of the objects after the operation, nil unless they are watched.
	// The graph then shows Observed, while State keeps the outcome.
	Observed *event.State
	// NotLive says why the objects may be out of date, "" if they are not.
	NotLive string
	Graph   graph.Graph
	Tally   tally
	Next    *event.GroupState // the next group to step, while paused
	Ended   bool              // the source has ended
	// Stack is the picture of the stack if the operation is one of its releases, else nil. Scope
	// is the release's Event.Scope.
	Stack *Picture
	Scope string
}

func (p *Picture) ReadOnly() bool { return !p.Steers }

func (p *Picture) Over() bool {
	status := p.State.Status
	return p.Ended || status == event.Succeeded || status == event.Failed || status == event.Aborted || p.Stack != nil && p.Stack.Over()
}

// RunStatus returns the status of the run, and the reason. A release that has not started has the
// status of its stack, but a failure held in another release only pauses it.
func (p *Picture) RunStatus() (event.Status, string) {
	if p.Stack != nil && p.State.Status == "" {
		run, why := p.Stack.RunStatus()
		if run == event.Held {
			run = event.Paused
		}
		return run, why
	}
	return p.State.RunStatus()
}

// Paused and Held report whether the run has that status and accepts commands.
func (p *Picture) Paused() bool { return p.runIs(event.Paused) }
func (p *Picture) Held() bool   { return p.runIs(event.Held) }

func (p *Picture) runIs(status event.Status) bool {
	is, _ := p.RunStatus()
	return p.Steerable() && is == status
}

// Steerable reports whether the run accepts commands.
func (p *Picture) Steerable() bool { return !p.ReadOnly() && !p.Over() }

// RollingBack reports whether the operation is being or was rolled back.
func (p *Picture) RollingBack() bool {
	return p.State.Status == event.RollingBack || slices.ContainsFunc(p.State.Phases, func(p *event.PhaseState) bool { return event.IsRollback(p.Name) })
}

// IsCurrent reports whether a group belongs to the rollback if there is one, else to the
// operation.
func (p *Picture) IsCurrent(n *graph.Node) bool { return n.InRollback() == p.RollingBack() }

// tally holds the header's counts, computed once per batch of events.
type tally struct {
	Total, Done, Applied, Active, Degraded, Failed, Waiting int
	Paused                                                  int // releases of a stack
	Requests                                                int // in flight
	Groups                                                  int // running
	Gone, Drifted                                           int // of Done
	Lost                                                    int // of Degraded: they have failed, in a group that was ready
}

// Count counts the objects of the operation's phases, or of the rollback's if there is one.
func (p *Picture) Count() {
	p.Tally, p.Next = tally{}, nil
	if p.Paused() && p.State.Run == event.Paused {
		if next := p.State.Next(); p.Stack == nil || p.Stack.stepsIn(p.Scope) {
			p.Next = next
		}
	}
	rollback := p.RollingBack()
	for _, n := range p.Graph.Nodes {
		n.Degraded = 0
		for _, o := range n.Objects {
			if Degraded(n, o) {
				n.Degraded++
			}
		}
		switch {
		case n.InRollback() == rollback:
			p.Tally.add(n, p.State.ReleaseRun(n.GroupState))
		case rollback && p.rolledItselfBack(n):
			p.Tally.Total++
			p.Tally.Done++
		}
	}
	if p.State.Operation.IsStack() {
		p.Tally.Requests = p.State.ReleaseRequests()
	}
}

// stepsIn reports whether a step of a stack starts a group of a release.
func (p *Picture) stepsIn(scope string) bool {
	next := p.State.Next()
	return next != nil && next.ID == scope && p.State.NextInRelease(next) != nil
}

// Degraded reports whether an object has a problem that waiting does not solve, or is no
// longer ready. Once a rollback has reached the object, only its group in the rollback shows that.
func Degraded(n *graph.Node, o *event.ObjectState) bool {
	return n.Undone[o.Object] == nil && degraded(n.GroupState, o)
}

func degraded(g *event.GroupState, o *event.ObjectState) bool {
	return g.Regressed(o) || g.Status == event.Running && o.Degraded && !o.Done() && o.Status != event.Failed
}

// MarkInRelease returns the mark of a group of one of a stack's releases.
func (p *Picture) MarkInRelease(g *event.GroupState) theme.Mark {
	if slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return degraded(g, o) }) {
		return p.degradedMark(g.Objects)
	}
	return p.Theme.Mark(string(g.Shown()))
}

// degradedMark returns the mark of a degraded group or object: that of a failure if an object has failed for good, such as a Job that
// counted as ready once it had started.
func (p *Picture) degradedMark(objects []*event.ObjectState) theme.Mark {
	if slices.ContainsFunc(objects, func(o *event.ObjectState) bool { return o.Status == event.Failed }) {
		return p.Theme.Mark(string(event.Failed))
	}
	return p.Theme.Mark(string(event.Degraded))
}

// Drifted reports whether others have changed a ready object since it was applied, and no rollback has reached it.
func Drifted(n *graph.Node, o *event.ObjectState) bool {
	return len(o.Drift) > 0 && o.Status == event.Ready && n.Undone[o.Object] == nil
}

// add counts the objects of a group. run is that of its release: Paused or Held, else "".
func (t *tally) add(g *graph.Node, run event.Status) {
	t.Total += len(g.Objects)
	for _, o := range g.Objects {
		if o.Status == event.Gone {
			t.Gone++
		}
		if Drifted(g, o) {
			t.Drifted++
		}
	}
	if g.Status == event.Running {
		t.Groups++
	}
	if g.Status == event.Waiting {
		t.Done += g.Done
		t.Waiting += len(g.Objects) - g.Done
		return
	}
	for _, o := range g.Objects {
		switch {
		case o.Shown() == event.Applied && g.Status.Over(): // also if its controller has said nothing (R22a)
			t.Applied++
		case o.Done():
			t.Done++
		case run == event.Held:
			t.Failed++
		case g.Degraded > 0 && Degraded(g, o):
			t.Degraded++
			if o.Status == event.Failed {
				t.Lost++
			}
		case o.Status == event.Failed, g.Status == event.Failed && Urgency(o) == 1:
			t.Failed++
		case g.Status == event.Aborted && Urgency(o) == 1: // no longer watched
		case o.Status == event.Waiting:
			t.Waiting++
		case o.Status == event.Applying, o.Status == event.Deleting:
			t.Requests++
			t.addActive(run)
		default:
			t.addActive(run)
		}
	}
}

// addActive counts an object that is in progress, or a release that is paused.
func (t *tally) addActive(run event.Status) {
	if run == event.Paused {
		t.Paused++
		return
	}
	t.Active++
}

// HasRunningTimes reports whether the screen shows running times.
func (p *Picture) HasRunningTimes() bool {
	switch {
	case p.Observed != nil && p.Tally.Degraded > 0: // the header shows for how long
		return true
	case p.Over() || p.State.Started.IsZero():
		return false
	}
	return p.Tally.Groups > 0 || p.State.Run == event.Running || p.State.Run == event.Aborting
}

// Urgency ranks objects, the most urgent first: 0 failed, 1 in progress or applied, 2 waiting,
// 3 ready or gone.
func Urgency(o *event.ObjectState) int {
	switch o.Status {
	case event.Failed:
		return 0
	case event.Waiting:
		return 2
	case event.Ready, event.Gone:
		return 3
	}
	return 1
}

// IsUnfinished reports whether a group ended before all its objects were ready.
func IsUnfinished(s event.Status) bool { return s == event.Failed || s == event.Aborted }

// StartsNothing reports whether a group ended and its waiting objects will never be applied or deleted.
func (p *Picture) StartsNothing(n *graph.Node) bool {
	return n.Status == event.Skipped || IsUnfinished(n.Status) && p.Over()
}

// Blockers returns the groups that a group still waits for.
func Blockers(n *graph.Node) []*graph.Node {
	return slices.DeleteFunc(slices.Clone(n.Ins), func(up *graph.Node) bool {
		return up.Status == event.Ready || up.Status == event.Gone || up.Status == event.Applied
	})
}

// MissingOutside returns the objects outside the release that keep a group from starting.
func MissingOutside(n *graph.Node) []*event.ObjectState {
	if n.Status != event.Waiting && n.Status != event.AtBreakpoint {
		return nil
	}
	return n.Missing()
}

// NotReady is the label of an object's reason after the end of its group.
const NotReady = "not ready: "

// Reason says in one line why an object is not ready. label is the start of the line: the word for its status, or NotReady.
// Both are "" if it is ready, or if no reason is known.
func (p *Picture) Reason(n *graph.Node, o *event.ObjectState) (label, text string) {
	why, word := cmp.Or(phrase.CauseAt(n.GroupState, o, p.clockNow()), o.Message), p.ObjectMark(n, o).Word
	switch {
	case p.State.ReleaseRun(n.GroupState) != "":
		return word, p.JoinAfter(word, "", why)
	case o.Status == event.Failed:
		return "", why
	case Degraded(n, o):
		return word, p.JoinAfter(word, space(p.DegradedFor(n, o)), why, p.TimesOutIn(n, o))
	case Drifted(n, o):
		return "", phrase.Drift(o.Drift)
	case IsUnfinished(n.Status) && Urgency(o) == 1:
		return NotReady, cmp.Or(why, string(o.Status))
	case o.Status != event.InProgress && o.Status != event.Deleting && (o.Status != event.Applying || why == ""):
		return "", ""
	}
	spent := ""
	if !n.Status.Over() || n.Status == event.Applied {
		spent = space(p.InProgressFor(n, o))
	}
	return word, p.JoinAfter(word, spent, why)
}

// JoinAfter is like Join for a label with more and parts, and returns what follows the label.
func (p *Picture) JoinAfter(label, more string, parts ...string) string {
	return p.Join(append([]string{label + more}, parts...)...)[len(label):]
}

// space puts a space before a text that is not empty.
func space(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// ObjectMark returns the mark of an object: its outcome after a rollback, else StatusMark.
func (p *Picture) ObjectMark(n *graph.Node, o *event.ObjectState) theme.Mark {
	if outcome := p.ObjectOutcome(n, o); outcome != "" {
		return p.Theme.Mark(outcome)
	}
	return p.StatusMark(n, o)
}

// StatusMark returns the mark of an object's status. Until its group is over, an applied object
// looks in progress; once the group failed, an object in progress is not ready.
func (p *Picture) StatusMark(n *graph.Node, o *event.ObjectState) theme.Mark {
	switch {
	case p.State.ReleaseRun(n.GroupState) != "":
		return p.releaseMark(n)
	case Degraded(n, o):
		return p.degradedMark([]*event.ObjectState{o})
	case IsUnfinished(n.Status) && Urgency(o) == 1:
		mark := p.Theme.Mark(string(n.Status))
		mark.Word = "not ready"
		return mark
	case Drifted(n, o):
		mark := p.Theme.Mark(string(event.Degraded))
		mark.Word = "changed by others"
		return mark
	case p.State.Operation.IsStack() && o.Status == event.Applying: // a release or a hook, not one request
		return p.Theme.Mark(string(event.InProgress))
	case p.StartsNothing(n) && o.Status == event.Waiting:
		return p.Theme.Mark(string(event.Skipped))
	case o.Status == event.Applied && !n.Status.Over():
		mark := p.Theme.Mark(string(event.InProgress))
		mark.Word = p.Theme.Mark(string(event.Applied)).Word
		return mark
	case o.Status == event.Ready && o.Change == event.Deleted: // a release that the rollback of a stack uninstalled
		return p.Theme.Mark(string(event.Gone))
	case o.Shown() == event.Ready && (o.Change == event.Unchanged || o.Change == event.Kept):
		return p.Theme.Mark(string(o.Change))
	}
	return p.Theme.Mark(string(o.Shown()))
}

// releaseMark returns the mark of a stack's release that is paused or held.
func (p *Picture) releaseMark(n *graph.Node) theme.Mark {
	if p.State.ReleaseRun(n.GroupState) == event.Held {
		return p.Theme.HeldFailure()
	}
	return p.Theme.Mark(string(event.Paused))
}

// Join joins parts with dots, without empty ones.
func (p *Picture) Join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, " "+p.Theme.Lines.Dot+" ")
}

// Active reports whether a group is running or at a breakpoint.
func Active(n *graph.Node) bool { return n.Status == event.Running || n.Status == event.AtBreakpoint }

// InTrouble reports whether a group has failed or is degraded, or has objects that are not ready for a known cause or that others
// have changed.
func InTrouble(n *graph.Node) bool {
	return n.Status == event.Failed || n.Degraded > 0 || slices.ContainsFunc(n.Objects, func(o *event.ObjectState) bool { return o.InTrouble() || Drifted(n, o) })
}

// PausedAt returns why the run paused before a group: a breakpoint or a run-to target. It returns "" if the
// breakpoint was removed or disabled afterwards.
func (p *Picture) PausedAt(n *graph.Node) string {
	if n.Status != event.AtBreakpoint || n.Code == event.Breakpoint && !p.State.PausesBefore(n.Unit()) {
		return ""
	}
	return n.Message
}

// Unblocked reports whether all dependencies of a waiting group are over.
func (p *Picture) Unblocked(n *graph.Node) bool {
	return !slices.ContainsFunc(n.Ins, func(up *graph.Node) bool { return !up.Status.Over() })
}

// Worst returns the most urgent object of a group: failed, degraded, or longest in progress.
func Worst(n *graph.Node) *event.ObjectState {
	var best *event.ObjectState
	for _, o := range n.Objects {
		switch {
		case Urgency(o) > 1:
		case best == nil, Degraded(n, o) && !Degraded(n, best), Urgency(o) < Urgency(best),
			Urgency(o) == Urgency(best) && o.Sent.Before(best.Sent):
			best = o
		}
	}
	return best
}
