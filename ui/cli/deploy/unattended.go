package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
	"lockstep/ui/report/format"
)

// unattendedTimer calls end if a run without a terminal was paused or held for timeout, while no client was
// attached and no command arrived.
type unattendedTimer struct {
	timeout    time.Duration
	lastClient func() time.Time // returns the last time at which a client was attached; nil if that is unknown
	end        func(why string, status event.Status)

	mu     sync.Mutex
	alone  bool            // the run has no terminal
	status event.Status    // of the run; a stack is paused while a release is held
	held   map[string]bool // the held releases of a stack
	timer  *time.Timer
}

// endUnattended ends an operation. A held one ends as failed. A paused one is aborted, because it must not continue without
// the user.
func endUnattended(op command.Operation, rollback bool) func(why string, status event.Status) {
	return func(why string, status event.Status) {
		c := event.Command{Name: event.Abort, KnowsRollback: true, Reason: why}
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
	case e.Scope != "":
		t.followRelease(e)
		return
	case e.Kind == event.KindRun:
		t.status = e.Status
	case e.Kind == event.KindOperation:
		t.status = ""
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
}

// reset restarts the timer if the run is paused or held without a terminal, and stops it otherwise. The
// caller must hold t.mu.
func (t *unattendedTimer) reset() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.alone && (t.status == event.Paused || t.status == event.Held) {
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
