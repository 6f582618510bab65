package deploy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
)

// unattendedTimer calls end if a run without a terminal was paused or held for timeout, while no client was
// attached and no command arrived. A run that waits for an approval, with or without a terminal, ends after approval.
type unattendedTimer struct {
	timeout    time.Duration
	approval   time.Duration    // 0 for no limit
	lastClient func() time.Time // returns the last time at which a client was attached; nil if that is unknown
	end        func(why string, status event.Status)

	mu     sync.Mutex
	alone  bool            // the run has no terminal
	status event.Status    // of the run; a stack is paused while a release is held
	held   map[string]bool // the held releases of a stack
	// unapproved are the releases of a stack that wait for an approval; "" for the run itself.
	unapproved map[string]bool
	timer      *time.Timer
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

// Consume follows whether the run is paused or held.
func (t *unattendedTimer) Consume(e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.Kind == event.KindCommand: // also one for a release of a stack
		if len(t.unapproved) > 0 {
			return
		}
	case e.Scope != "":
		t.followRelease(e)
		return
	case e.Kind == event.KindRun:
		t.status = e.Status
		t.followApproval(e)
	case e.Kind == event.KindOperation:
		t.status = ""
		t.followApproval(e)
	default:
		return
	}
	t.reset()
}

// followRelease follows whether a release of a stack is held. The caller must hold t.mu.
func (t *unattendedTimer) followRelease(e event.Event) {
	switch {
	case e.Kind == event.KindRun && e.Status == event.Held:
		if t.held == nil {
			t.held = map[string]bool{}
		}
		t.held[e.Scope] = true
	case e.Kind == event.KindRun, e.Kind == event.KindOperation:
		delete(t.held, e.Scope)
	}
	t.followApproval(e)
}

// followApproval follows whether the run, or a release of a stack, waits for an approval.
func (t *unattendedTimer) followApproval(e event.Event) {
	if e.Kind != event.KindRun && e.Kind != event.KindOperation {
		return
	}
	delete(t.unapproved, e.Scope)
	if e.Code == event.Unapproved {
		if t.unapproved == nil {
			t.unapproved = map[string]bool{}
		}
		t.unapproved[e.Scope] = true
	}
	if e.Scope != "" {
		t.reset()
	}
}

// reset restarts the timer if the run is paused or held without a terminal, and stops it otherwise. The
// caller must hold t.mu.
func (t *unattendedTimer) reset() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	switch {
	case len(t.unapproved) > 0:
		if t.approval > 0 {
			t.startTimer(t.approval)
		}
	case t.alone && (t.status == event.Paused || t.status == event.Held):
		t.startTimer(t.timeout)
	}
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

// expire ends the run, unless a client was attached within timeout. The caller must hold t.mu.
func (t *unattendedTimer) expire() {
	if len(t.unapproved) > 0 {
		t.end(fmt.Sprintf("not approved within %s (--approval-timeout)", format.Timeout(t.approval)), event.Paused)
		return
	}
	nobody := "no command came"
	if t.lastClient != nil {
		nobody = "nobody attached or used lockstep ctl"
		if idle := time.Since(t.lastClient()); idle < t.timeout {
			t.startTimer(t.timeout - idle)
			return
		}
	}
	status := t.status
	if len(t.held) > 0 {
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
		items = append(items, inspect.Item{Unit: g.Unit(), Kind: a.kind(e.Phase), Object: o.Object})
	}
	go a.publish(a.state.Operation, items)
}

func (a *approvalChanges) kind(phase string) event.PhaseKind {
	for _, p := range a.state.Phases {
		if p.Name == phase {
			return p.Kind
		}
	}
	return ""
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
