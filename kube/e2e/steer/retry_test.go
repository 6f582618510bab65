package steer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRetryAfterAManualFix fixes the failed object with another field manager while the run
// is held. The retry accepts the change, with a warning, or with --force-conflicts applies the
// chart's fields (R44).
func TestRetryAfterAManualFix(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint(force), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "the test fixes objects by hand"
			op, err := r.Install("fail-image", func(i *kube.Deploy) {
				i.HoldOnFailure, i.ReadinessTimeout, i.ForceConflicts = true, 6*time.Second, force
			})
			if err != nil {
				t.Fatal(err)
			}
			out, held := r.RunHeld(op, event.Abort, func() { fixDeployment(r, "broken") })
			if force {
				if held != 2 || out.State.Exit != 3 || strings.Contains(out.State.Message, "conflict") {
					t.Errorf("held %d times, exit %d: %s", held, out.State.Exit, out.State.Message)
				}
				return
			}
			if out.Err != nil || out.State.Exit != 0 || !out.HasWarning("R44", "Deployment/broken", "kubectl-set") {
				t.Errorf("exit %d, %v, warnings %v", out.State.Exit, out.Err, out.State.Warnings)
			}
			r.AssertDeployed("t")
		})
	}
}

// TestRetryAfterHold fixes the cluster while the run is held, then retries (R44).
func TestRetryAfterHold(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("fail-image", func(i *kube.Deploy) { i.HoldOnFailure, i.ReadinessTimeout = true, 8*time.Second })
	if err != nil {
		t.Fatal(err)
	}
	out, held := r.RunHeld(op, event.Abort, func() { patchDeployment(r, "broken", `{"spec":{"paused":true}}`) }) // a paused Deployment counts as ready
	if out.Err != nil || out.State.Exit != 0 || held != 1 {
		t.Errorf("held %d times, exit %d: %v", held, out.State.Exit, out.Err)
	}
	r.AssertDeployed("t")
}

// TestRollbackAfterARetry: what the run created is not taken for what existed before when a retry writes it again, so a rollback
// deletes it (R31a, R33, R44).
func TestRollbackAfterARetry(t *testing.T) {
	t.Parallel()
	for _, upgrade := range []bool{false, true} {
		t.Run(map[bool]string{false: "install", true: "upgrade"}[upgrade], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			objects := rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), failingJob("bad", rig.Group("b", "a"))),
				func(d *kube.Deploy) {
					d.HoldOnFailure, d.RollbackOnFailure, d.WaitForJobs = true, true, kube.AllJobs
				})
			prepare := r.Install
			if upgrade {
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"))), nil))
				prepare = r.Upgrade
			}
			op, err := prepare("plain", objects)
			if err != nil {
				t.Fatal(err)
			}
			out, held := r.RunHeld(op, event.GiveUp, nil)
			want := []string{}
			if upgrade {
				want = []string{"a"}
			}
			if got := r.ConfigMaps(r.Namespace); out.State.Exit != 1 || held != 2 || !slices.Equal(got, want) || strings.Contains(out.State.Message, "kept") {
				t.Errorf("exit %d, held %d times, left %v: %s", out.State.Exit, held, got, out.State.Message)
			}
		})
	}
}
