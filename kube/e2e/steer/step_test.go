package steer

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestStepStopsBeforeTheFirstWrite starts paused and steps once: exactly one unit runs (R41). The rollback then removes only
// the objects of that unit.
func TestStepStopsBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("fanout", func(i *kube.Deploy) { i.Step = true }))
	stepped, started := false, 0
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused && !stepped: // a step that waits is announced by another one
			stepped = true
			if w := r.Writes(); len(w) > 0 {
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
		t.Errorf("%d units started, want 2: one group and its removal", started)
	}
	if out.State.Exit != 3 || r.Status() != "" || len(r.Remaining()) > 0 {
		t.Errorf("exit %d, release %q, not removed: %v", out.State.Exit, r.Status(), r.Remaining())
	}
}
