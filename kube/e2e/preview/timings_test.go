package preview

import (
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestTimings: each revision has the timings of the operation that created it, also of a
// failed one and of a rollback, and never those of another revision.
func TestTimings(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	slow := func(delay, image string) string {
		return strings.Replace(rig.Deployment("slow", rig.Group("a"), delay), "example/app:1.0", image, 1)
	}
	start := time.Now()
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, slow("1s", "example/app:1.0"), rig.ConfigMap("after", rig.Group("b", "a"))), nil))
	first := r.Timings(0)
	a, b := first["apply edge:a"], first["apply edge:b"]
	if len(first) != 2 || a.Status != event.Ready || a.Took < time.Second || b.Started.Before(a.Started.Add(a.Took)) || a.Started.Before(start) || time.Now().Before(b.Started.Add(b.Took)) {
		t.Errorf("timings %+v", first)
	}

	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, slow("1s", "example/no-such-image:1"), rig.ConfigMap("after", rig.Group("b", "a"))), func(u *kube.Deploy) {
		u.RollbackOnFailure, u.ReadinessTimeout = true, 8*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, nil)
	if out.State.Exit != 1 {
		t.Fatalf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	if usual := out.State.Phases[0].Usual; len(usual) != 2 || usual["edge:a"] != a.Took { // for a forecast
		t.Errorf("usually %v, and the first revision took %+v", usual, first)
	}
	second, third := r.Timings(2), r.Timings(3)
	if len(second) != 1 || second["apply edge:a"].Status != event.Failed {
		t.Errorf("timings of the failed upgrade %+v", second)
	}
	if len(third) != 2 || third["apply edge:a"].Status != event.Ready || !third["apply edge:a"].Started.After(second["apply edge:a"].Started) {
		t.Errorf("timings of its rollback %+v", third)
	}

	back := action.NewRollback(r.Helm())
	back.Version, back.WaitStrategy, back.ServerSideApply = 1, helmkube.HookOnlyStrategy, "auto"
	if err := back.Run("t"); err != nil {
		t.Fatal(err)
	}
	if got := r.Timings(0); len(got) != 0 {
		t.Errorf("timings of a rollback by Helm: %+v", got)
	}
	if got := r.Timings(1); len(got) != 2 {
		t.Errorf("the first revision's timings are lost: %+v", got)
	}
}
