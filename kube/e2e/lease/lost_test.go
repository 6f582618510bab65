package lease

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// takeLease gives the Lease of a run to another holder.
func takeLease(r *rig.Rig) {
	r.T.Helper()
	patch := []byte(`{"spec":{"holderIdentity":"ada@elsewhere"}}`)
	if _, err := r.Cluster.CoordinationV1().Leases(r.Namespace).Patch(r.T.Context(), lease.Name("t"), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.T.Error(err)
	}
}

// assertStopped checks the end of a run whose Lease was taken over: it has not changed the history, and has not deleted
// the Lease of the new holder.
func assertStopped(r *rig.Rig, out rig.Outcome, history ...string) {
	r.T.Helper()
	if out.State.Exit != 1 || out.State.Status != event.Aborted || !strings.Contains(out.State.Message, "took it over: ada@elsewhere") {
		r.T.Errorf("exit %d, %s: %s", out.State.Exit, out.State.Status, out.State.Message)
	}
	r.AssertHistory(history...)
	if got := leases(r); len(got) != 1 {
		r.T.Error("the Lease of another run was deleted")
	}
}

// TestLostLease: another run takes over the Lease of an operation. The operation stops, writes nothing more, and reports
// who took over (R51).
func TestLostLease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("after", nil)), nil))
	chart := rig.ChartOf(t, rig.Deployment("new", rig.Group("a"), "1h"), rig.ConfigMap("after", rig.Group("b", "a"), "v: two"))
	op, err := r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Lease.Duration, u.RollbackOnFailure = 3*time.Second, true }))
	assertStopped(r, runUntilApplied(r, op, err, "new", func() { takeLease(r) }), "1 deployed", "2 pending-upgrade")
	if d := r.ConfigMapData("after"); d["v"] != "" {
		t.Errorf("the run wrote after it had lost its Lease: %v", d)
	}
}

// TestLostLeaseInARollback is like TestLostLease, during a rollback (R51).
func TestLostLeaseInARollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	before := rig.Job("before", map[string]string{"helm.sh/hook": "pre-rollback"}, "1h")
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, before, rig.ConfigMap("after", nil)), nil))
	chart := rig.ChartOf(t, rig.Deployment("slow", rig.Impatient(rig.Group("a")), "1h"), rig.ConfigMap("after", rig.Group("b", "a")))
	op := r.Must(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Lease.Duration, u.RollbackOnFailure = 3*time.Second, true })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && strings.HasPrefix(e.Phase, event.RollbackPrefix) && e.Object.Name == "before" && e.Change != "" {
			takeLease(r)
		}
	})
	assertStopped(r, out, "1 deployed", "2 failed", "3 pending-rollback")
}

// TestWritesWaitForTheLease: a Lease cannot be renewed for a while, and another run takes it over. The writes of the first
// run wait for the renewal and are never sent (R51).
func TestWritesWaitForTheLease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var renewable atomic.Bool
	c := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/leases") || renewable.Load() {
			return false
		}
		return rig.InternalError(w)
	}}, "")
	chart := rig.ChartOf(t, rig.Deployment("new", rig.Group("a"), "15s"), rig.ConfigMap("after", rig.Group("b", "a")))
	op := r.Must(r.WithClient(c).Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Lease.Duration = 10 * time.Second })))
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindObject && e.Object.Name == "new" && e.Change != "":
			takeLease(r)
		case e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Running:
			renewable.Store(true)
		}
	})
	assertStopped(r, out, "1 pending-install")
	if got := r.ConfigMaps(r.Namespace); len(got) > 0 {
		t.Errorf("the run wrote %v", got)
	}
}
