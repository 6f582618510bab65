package kube

import (
	"reflect"
	"testing"

	"lockstep/engine/event"
)

// TestWhatWasPlannedIsWhatRuns counts the plans of an operation: what the checks
// have planned is announced once, and nothing is planned again while it runs,
// hooks and removals included (R29 to R32).
func TestWhatWasPlannedIsWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hook := job("before", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-rollback,pre-delete"}, "100ms")
	first := one(t, configMap("a", group("one")), configMap("old", group("two", "one")), hook)
	next := one(t, configMap("a", group("one")), configMap("new", group("two", "one")), hook)
	once := func(op *Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		phases := op.Phases()
		var plans []event.Event
		for _, e := range r.mustRun(op, nil).events {
			if e.Kind == event.KindPlan {
				for i := range e.Phases {
					e.Phases[i].Usual = nil // which is for the forecast
				}
				plans = append(plans, e)
			}
		}
		if len(plans) != 1 || !reflect.DeepEqual(plans[0].Phases, phases) {
			t.Errorf("%s: %d plans were told of, want what was prepared: %+v", op.Info().Name, len(plans), phases)
		}
	}
	once(r.install("plain", use(first, nil)))
	once(r.upgrade("plain", useUp(next, nil)))
	once(r.rollback(1))
	once(r.uninstall())
}
