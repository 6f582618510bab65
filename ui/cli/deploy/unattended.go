package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// unattended ends a paused or held run whose terminal has closed if no client attaches within
// its timeout. It leaves held failures failed, and aborts a paused run, which must not continue
// without the user.
type unattended struct {
	op      command.Operation
	timeout time.Duration
	// attached reports how many clients are attached.
	attached func() int
	rollback bool // abort by rolling back

	mu     sync.Mutex
	closed bool
	run    event.Status
	timer  *time.Timer
}

// start is called when the terminal closes.
func (d *unattended) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.reset()
}

// Consume follows whether the run is paused or held.
func (d *unattended) Consume(e event.Event) {
	if e.Scope != "" || e.Kind != event.KindRun && e.Kind != event.KindOperation {
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

// reset requires d.mu.
func (d *unattended) reset() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.closed && (d.run == event.Paused || d.run == event.Held) {
		d.timer = time.AfterFunc(d.timeout, d.timeOut)
	}
}

func (d *unattended) timeOut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := event.Command{Name: event.Abort, KnowsRollback: true, Reason: fmt.Sprintf("the terminal closed, and nobody attached for %s", d.timeout)}
	switch {
	case d.attached() > 0:
		d.reset()
		return
	case d.run == event.Held:
		c.Name = event.GiveUp
	case d.run != event.Paused:
		return // it continued meanwhile
	case d.rollback:
		c.Name = event.Rollback
	}
	d.op.Command(c)
}
