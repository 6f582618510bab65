package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// hangupTimer ends a paused or held run if its terminal has closed and no client was attached for
// timeout. A held run ends as failed. A paused one is aborted, because it must not continue without
// the user.
type hangupTimer struct {
	op         command.Operation
	timeout    time.Duration
	lastClient func() time.Time // returns the last time at which a client was attached
	rollback   bool             // abort by rolling back

	mu     sync.Mutex
	closed bool
	status event.Status // of the run
	timer  *time.Timer
}

// start is called when the terminal closes.
func (t *hangupTimer) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.reset()
}

// Consume follows whether the run is paused or held.
func (t *hangupTimer) Consume(e event.Event) {
	if e.Scope != "" || e.Kind != event.KindRun && e.Kind != event.KindOperation {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = ""
	if e.Kind == event.KindRun {
		t.status = e.Status
	}
	t.reset()
}

// reset restarts the timer if the run is paused or held without a terminal, and stops it otherwise. The
// caller must hold t.mu.
func (t *hangupTimer) reset() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.closed && (t.status == event.Paused || t.status == event.Held) {
		t.startTimer(t.timeout)
	}
}

// startTimer starts the timer. The caller must hold t.mu.
func (t *hangupTimer) startTimer(d time.Duration) {
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
func (t *hangupTimer) expire() {
	if idle := time.Since(t.lastClient()); idle < t.timeout {
		t.startTimer(t.timeout - idle)
		return
	}
	c := event.Command{
		Name: event.Abort, KnowsRollback: true,
		Reason: fmt.Sprintf("the terminal closed, and nobody attached for %s", t.timeout),
	}
	switch {
	case t.status == event.Held:
		c.Name = event.GiveUp
	case t.rollback:
		c.Name = event.Rollback
	}
	t.op.Command(c)
}
