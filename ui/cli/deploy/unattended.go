package deploy

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/cli/command"
)

// unattended ends a run that waits for somebody after its terminal closed and nobody
// attached for as long as its timeout: failed groups are given up, and a paused run is
// aborted, because it must not continue past a pause on its own.
type unattended struct {
	op      command.Operation
	timeout time.Duration
	// joined reports how many clients are attached.
	joined   func() int
	rollback bool // abort by rolling back

	mu    sync.Mutex
	gone  bool
	run   event.Status
	timer *time.Timer
}

// start is called when the terminal has closed.
func (d *unattended) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	d.reset()
}

// Consume checks whether the run waits for somebody.
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
	c := event.Command{Name: event.Abort, KnowsRollback: true, Reason: fmt.Sprintf("the terminal closed, and nobody attached for %s", d.timeout)}
	switch {
	case d.joined() > 0:
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
