package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// hangupTimer ends a paused or held run if its terminal has closed and no client attaches within
// timeout. A held run ends as failed. A paused one is aborted, because it must not continue without
// the user.
type hangupTimer struct {
	op       command.Operation
	timeout  time.Duration
	clients  func() int // returns the number of attached clients
	rollback bool       // abort by rolling back

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

// reset requires t.mu.
func (t *hangupTimer) reset() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.closed && (t.status == event.Paused || t.status == event.Held) {
		t.timer = time.AfterFunc(t.timeout, t.expire)
	}
}

// expire ends the run, unless a client has attached or the run has continued.
func (t *hangupTimer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := event.Command{
		Name: event.Abort, KnowsRollback: true,
		Reason: fmt.Sprintf("the terminal closed, and nobody attached for %s", t.timeout),
	}
	switch {
	case t.clients() > 0:
		t.reset()
		return
	case t.status == event.Held:
		c.Name = event.GiveUp
	case t.status != event.Paused: // the run continued meanwhile
		return
	case t.rollback:
		c.Name = event.Rollback
	}
	t.op.Command(c)
}
