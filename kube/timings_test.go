package kube

import (
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
)

// timings are those of a revision, 0 for the last, by phase and group.
func (r *rig) timings(revision int) map[string]Timing {
	r.t.Helper()
	v, err := r.client.PrepareView(r.t.Context(), "t", r.namespace, revision)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]Timing{}
	for _, x := range v.Timings() {
		out[x.Phase+" "+x.Group] = x
	}
	return out
}

// TestTimings are kept with each revision: of the operation that made it, of a
// failed one, too, and of a rollback; never those of another revision.
func TestTimings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow := func(delay, image string) string {
		return strings.Replace(deployment("slow", group("a"), delay), "example/app:1.0", image, 1)
	}
	start := time.Now()
	r.deploy("plain", use(one(t, slow("1s", "example/app:1.0"), configMap("after", group("b", "a"))), nil))
	first := r.timings(0)
	a, b := first["apply edge:a"], first["apply edge:b"]
	if len(first) != 2 || a.Status != event.Ready || a.Took < time.Second || b.Started.Before(a.Started.Add(a.Took)) || a.Started.Before(start) || time.Now().Before(b.Started.Add(b.Took)) {
		t.Errorf("timings %+v", first)
	}

	op, err := r.upgrade("plain", useUp(one(t, slow("1s", "example/no-such-image:1"), configMap("after", group("b", "a"))), func(u *Upgrade) {
		u.RollbackOnFailure, u.ReadinessTimeout = true, 2*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.state.Exit != 1 {
		t.Fatalf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	if usual := out.state.Phases[0].Usual; len(usual) != 2 || usual["edge:a"] != a.Took { // for a forecast
		t.Errorf("usually %v, and the first revision took %+v", usual, first)
	}
	second, third := r.timings(2), r.timings(3)
	if len(second) != 1 || second["apply edge:a"].Status != event.Failed {
		t.Errorf("timings of the failed upgrade %+v", second)
	}
	if len(third) != 2 || third["apply edge:a"].Status != event.Ready || !third["apply edge:a"].Started.After(second["apply edge:a"].Started) {
		t.Errorf("timings of its rollback %+v", third)
	}

	back := action.NewRollback(r.helm())
	back.Version, back.WaitStrategy, back.ServerSideApply = 1, helmkube.HookOnlyStrategy, "auto"
	if err := back.Run("t"); err != nil {
		t.Fatal(err)
	}
	if got := r.timings(0); len(got) != 0 {
		t.Errorf("timings of a rollback by Helm: %+v", got)
	}
	if got := r.timings(1); len(got) != 2 {
		t.Errorf("the first revision's timings are lost: %+v", got)
	}
}
