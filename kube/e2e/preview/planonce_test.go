package preview

import (
	"reflect"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPlannedOnce counts the plans of an operation: each phase is announced once
// and never planned again during the run, including hooks and removals (R29 to R32).
func TestPlannedOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := rig.Job("before", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-rollback,pre-delete"}, "100ms")
	first := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("old", rig.Group("two", "one")), hook)
	next := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("new", rig.Group("two", "one")), hook)
	once := func(op *kube.Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		phases := op.Phases()
		var plans []event.Event
		for _, e := range r.MustRun(op, nil).Events {
			if e.Kind == event.KindPlan {
				for i := range e.Phases {
					e.Phases[i].Usual = nil // only the forecast uses it
				}
				plans = append(plans, e)
			}
		}
		if len(plans) != 1 || !reflect.DeepEqual(plans[0].Phases, phases) {
			t.Errorf("%s: %d plan events, want one with the prepared phases: %+v", op.Info().Name, len(plans), phases)
		}
	}
	once(r.Install("plain", rig.UseChart(first, nil)))
	once(r.Upgrade("plain", rig.UseChart(next, nil)))
	once(r.Rollback(1))
	once(r.Uninstall())
}
