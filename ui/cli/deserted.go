package cli

import (
	"fmt"
	"sync"
	"time"

	"lockstep/engine/event"
)

// deserted ends a run that waits for somebody where nobody can come to it: its
// terminal has gone, and nobody has joined it for as long as its timeout. What
// failed is given up then, and a run that is paused is aborted: to go on by
// itself with what somebody wanted to look at first would be worse.
type deserted struct {
	op       operation
	patience time.Duration
	// joined reports how many look at the run from elsewhere.
	joined   func() int
	rollback bool // an abort rolls back

	mu    sync.Mutex
	gone  bool
	run   event.Status
	timer *time.Timer
}

// begin is called when the terminal has gone.
func (d *deserted) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	d.arm()
}

// Consume looks whether the run waits for somebody.
func (d *deserted) Consume(e event.Event) {
	if e.Kind != event.KindRun && e.Kind != event.KindOperation {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run = ""
	if e.Kind == event.KindRun {
		d.run = e.Status
	}
	d.arm()
}

// arm needs d.mu.
func (d *deserted) arm() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.gone && (d.run == event.Paused || d.run == event.Held) {
		d.timer = time.AfterFunc(d.patience, d.giveUp)
	}
}

func (d *deserted) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := event.Command{Name: event.Abort, Told: true, Reason: fmt.Sprintf("the terminal is gone, and nobody has joined the run for %s", d.patience)}
	switch {
	case d.joined() > 0:
		d.arm()
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
