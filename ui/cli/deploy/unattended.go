package deploy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
)

// unattendedTimer calls end if a run without a terminal was paused or held for timeout, while nothing was attached and no command
// arrived. It knows that from the events of the run alone, so that others can count down with it (R47). A run that waits for an
// approval, with or without a terminal, ends after approval.
type unattendedTimer struct {
	timeout    time.Duration
	approval   time.Duration // 0 for no limit
	attachable bool          // a run with screens waits; else only commands count
	end        func(why string, status event.Status)

	mu      sync.Mutex
	alone   bool                   // the run has no terminal
	screens int                    // that show the run
	runs    map[string]event.Event // the states of the run, under "", and of the releases of a stack; that is paused while one is held
	timer   *time.Timer
}

// endUnattended ends an operation. A held one ends as failed. A paused one is aborted, because it must not continue without
// the user.
func endUnattended(op command.Operation, rollback bool) func(why string, status event.Status) {
	return func(why string, status event.Status) {
		c := event.Command{Name: event.Abort, KnowsRollback: true, OrKeep: true, Reason: why}
		switch {
		case status == event.Held:
			c.Name = event.GiveUp
			op.Feed().Publish(event.Event{Kind: event.KindWarning, Message: why}) // no event has the reason of give-up
		case rollback:
			c.Name = event.Rollback
		}
		op.Command(c)
	}
}

// start is called when the terminal closes, or at the start of a run without the screen.
func (t *unattendedTimer) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alone = true
	t.reset()
}

// Consume follows whether the run, or a release of a stack, is paused or held.
func (t *unattendedTimer) Consume(e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case event.KindCommand: // also one for a release of a stack
		if t.any(isUnapproved) {
			return
		}
	case event.KindRun, event.KindOperation:
		if t.runs == nil {
			t.runs = map[string]event.Event{}
		}
		if t.runs[e.Scope] = e; e.Kind == event.KindOperation {
			delete(t.runs, e.Scope)
		}
	case event.KindScreens:
		t.screens = e.Screens
	default:
		return
	}
	t.reset()
}

func isUnapproved(e event.Event) bool { return e.Code == event.Unapproved }

// any reports whether the run or a release of a stack is in a state. The caller must hold t.mu.
func (t *unattendedTimer) any(is func(event.Event) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(t.runs)), is)
}

// reset restarts the timer if the run is paused or held without a terminal or a screen, and stops it otherwise. The
// caller must hold t.mu.
func (t *unattendedTimer) reset() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	status := t.runs[""].Status
	switch {
	case t.any(isUnapproved):
		if t.approval > 0 {
			t.startTimer(time.Until(t.approvalEnd()))
		}
	case t.alone && (t.screens == 0 || !t.attachable) && (status == event.Paused || status == event.Held):
		t.startTimer(t.timeout)
	}
}

// approvalGrace is how long a run waits for an approval at least, also if an earlier pod has waited: somebody may have approved
// between the two.
const approvalGrace = 10 * time.Second

// approvalEnd returns when the first wait for an approval ends. The caller must hold t.mu.
func (t *unattendedTimer) approvalEnd() (first time.Time) {
	for _, e := range t.runs {
		if !isUnapproved(e) {
			continue
		}
		end := e.Time.Add(min(t.approval, approvalGrace))
		if limit := e.Since.Add(t.approval); limit.After(end) {
			end = limit
		}
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// startTimer starts the timer. The caller must hold t.mu.
func (t *unattendedTimer) startTimer(d time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.timer == timer { // otherwise it was reset just now
			t.expire()
		}
	})
	t.timer = timer
}

// expire ends the run. The caller must hold t.mu.
func (t *unattendedTimer) expire() {
	if t.any(isUnapproved) {
		t.end(fmt.Sprintf("not approved within %s (--approval-timeout)", format.Timeout(t.approval)), event.Paused)
		return
	}
	nobody := "no command came"
	if t.attachable {
		nobody = "nobody attached or used " + text.Program + " ctl"
	}
	status := t.runs[""].Status
	if t.any(func(e event.Event) bool { return e.Status == event.Held }) {
		status = event.Held
	}
	t.end(fmt.Sprintf("%s, and %s for %s (--timeout)", status, nobody, format.Timeout(t.timeout)), status)
}

// approvalChanges publishes what a group will change when the run waits for its approval. It is for runs without a screen,
// which has the diff.
type approvalChanges struct {
	ctx     context.Context
	changes inspect.ChangeSource
	feed    *event.Feed
	state   event.State
}

// Consume reads an event of the run.
func (a *approvalChanges) Consume(e event.Event) {
	a.state.Apply(e)
	g := a.state.Find(e.Phase, e.Group)
	if e.Kind != event.KindGroup || e.Code != event.Unapproved || e.Scope != "" || g == nil {
		return
	}
	if g.Step != nil { // before the release that is approved
		if g = a.state.Find(e.Phase, g.Step.Release); g == nil {
			return
		}
	}
	var items []inspect.Item
	for _, o := range g.Objects {
		items = append(items, inspect.Item{Unit: g.Unit(), Kind: a.state.PhaseKind(e.Phase), Object: o.Object})
	}
	go a.publish(a.state.Operation, items)
}

// publish looks the changes of a group up. An object whose change is unknown is left out.
func (a *approvalChanges) publish(op event.Operation, items []inspect.Item) {
	var changes []inspect.Change
	for _, it := range items {
		if c, err := a.changes.Change(a.ctx, it); err == nil {
			changes = append(changes, c)
		}
	}
	if lines := report.ChangeLines(op, changes); len(lines) > 0 {
		u := items[0].Unit
		a.feed.Publish(event.Event{Kind: event.KindApproval, Status: event.Waiting, Phase: u.Phase, Group: u.Group, Lines: lines})
	}
}
