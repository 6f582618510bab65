package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// unattended ends a run that waits for somebody where nobody can come to it: its
// terminal has gone, and nobody has joined it for as long as its timeout. What
// failed is given up then, and a run that is paused is aborted: to go on by
// itself with what somebody wanted to look at first would be worse.
type unattended struct {
	op      command.Operation
	timeout time.Duration
	// joined reports how many look at the run from elsewhere.
	joined   func() int
	rollback bool // an abort rolls back

	mu    sync.Mutex
	gone  bool
	run   event.Status
	timer *time.Timer
}

// start is called when the terminal has gone.
func (d *unattended) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	d.reset()
}

// Consume looks whether the run waits for somebody.
func (d *unattended) Consume(e event.Event) {
	if e.Kind != event.KindRun && e.Kind != event.KindOperation {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run = ""
	if e.Kind == event.KindRun {
		d.run = e.Status
	}
	d.reset()
}

// reset needs d.mu.
func (d *unattended) reset() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.gone && (d.run == event.Paused || d.run == event.Held) {
		d.timer = time.AfterFunc(d.timeout, d.giveUp)
	}
}

func (d *unattended) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := event.Command{Name: event.Abort, Told: true, Reason: fmt.Sprintf("the terminal is gone, and nobody has joined the run for %s", d.timeout)}
	switch {
	case d.joined() > 0:
		d.reset()
		return
	case d.run == event.Held:
		c.Name = event.GiveUp
	case d.run != event.Paused:
		return // it went on meanwhile
	case d.rollback:
		c.Name = event.Rollback
	}
	d.op.Command(c)
}
