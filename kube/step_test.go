package kube

import (
	"testing"

	"lockstep/engine/event"
)

// TestStepStopsBeforeTheFirstWrite starts paused and steps once: exactly one
// unit runs (R41); the abort then finds nothing but what that unit wrote.
func TestStepStopsBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fanout", func(i *Install) { i.Step = true })
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused:
			if w := r.writes(); len(w) > 0 {
				t.Errorf("written before the first step: %v", w)
			}
			op.Command(event.Command{Name: event.Step})
		case e.Kind == event.KindGroup && e.Status == event.Running:
			started++
		case e.Kind == event.KindGroup && (e.Status == event.Ready || e.Status == event.Applied):
			op.Command(event.Command{Name: event.Rollback})
		}
	})
	if started != 2 { // the unit, and its removal
		t.Errorf("%d units started, want the one and its removal", started)
	}
	if out.state.Exit != 3 || r.status() != "" || len(r.left()) > 0 {
		t.Errorf("exit %d, release %q, left %v", out.state.Exit, r.status(), r.left())
	}
}
