package lease

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
	"lockstep/kube/throwaway/faultproxy"
)

// TestSecondRunWhileTheLeaseIsGone deletes the Lease of a run, and a second run starts and finishes. The first run notices
// when it recreates its Lease or writes its record, and does not overwrite the second run's records (R51a).
func TestSecondRunWhileTheLeaseIsGone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		duration time.Duration // of the first run's Lease, which is renewed after every third of it
		ready    string        // the delay until its first group is ready
		message  string
	}{
		"by its Lease":  {24 * time.Second, "1h", "release t"}, // gives the second run 8 s
		"by its record": {time.Hour, "1s", "another run or Helm changed release t"},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("before", nil)), nil))
			chart := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), x.ready), rig.ConfigMap("after", rig.Group("b", "a")))
			op, err := r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Lease.Duration, u.RollbackOnFailure = x.duration, true }))
			out := runUntilApplied(r, op, err, "slow", func() {
				op.Command(event.Command{Name: event.Pause})
				defer op.Command(event.Command{Name: event.Resume})
				if err := r.Cluster.CoordinationV1().Leases(r.Namespace).Delete(t.Context(), lease.Name("t"), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				theirs := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "1s"), rig.ConfigMap("theirs", nil))
				r.MustRun(r.Upgrade("plain", rig.UseChart(theirs, func(u *kube.Deploy) { u.Wait = "false" })))
			})
			if out.State.Exit != 1 || out.State.Status != event.Aborted || !strings.Contains(out.State.Message, x.message) {
				t.Errorf("exit %d, %s: %s", out.State.Exit, out.State.Status, out.State.Message)
			}
			r.AssertHistory("1 superseded", "2 failed", "3 deployed")
			if got := leases(r); len(got) > 0 {
				t.Errorf("not removed: %v", got)
			}
		})
	}
}

// TestLeasePermissionsRevoked removes a user's permissions for Leases during a run. The run continues with a warning and relies
// on the release records (R51).
func TestLeasePermissionsRevoked(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	others := rig.Rule("", "configmaps,secrets", "*")
	apps := rig.Rule("apps", "deployments", "*")
	by := r.WithClient(r.ConnectAs("user", others, apps, rig.Rule("coordination.k8s.io", "leases", "*")))
	chart := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "4s"), rig.ConfigMap("after", rig.Group("b", "a")))
	op, err := by.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Lease.Duration, i.Timeout = 2*time.Second, 30*time.Second }))
	out := runUntilApplied(by, op, err, "slow", func() {
		roles := r.Cluster.RbacV1().Roles(r.Namespace)
		role, err := roles.Get(t.Context(), "user", metav1.GetOptions{})
		if err == nil {
			role.Rules = role.Rules[:2]
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if out.Err != nil || out.State.Exit != 0 || !out.HasWarning("R51", "leases", "forbidden") {
		t.Errorf("exit %d: %v, warnings %v", out.State.Exit, out.Err, out.State.Warnings)
	}
	r.AssertHistory("1 deployed")
	if got := r.ConfigMaps(r.Namespace); len(got) != 1 {
		t.Errorf("ConfigMaps: %v", got)
	}
}

// TestRenewalRefusedByAPolicy: a policy refuses the renewals of the lock during a run. The run continues with a warning that names it, as
// without permission, and does not wait for its timeout (R51, R53).
func TestRenewalRefusedByAPolicy(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var refuses atomic.Bool
	by := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if !refuses.Load() || req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/leases/") {
			return false
		}
		faultproxy.Refuse(w, http.StatusUnprocessableEntity, "Invalid", "no-leases denied request")
		return true
	}}, ""))
	chart := rig.ChartOf(t, rig.Deployment("slow", rig.Group("a"), "4s"), rig.ConfigMap("after", rig.Group("b", "a")))
	op, err := by.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Lease.Duration = 2 * time.Second }))
	out := runUntilApplied(by, op, err, "slow", func() { refuses.Store(true) })
	if out.Err != nil || out.State.Exit != 0 || !out.HasWarning("R51", "no-leases denied request") || out.HasWarning("R51", "grant the permission") {
		t.Errorf("exit %d: %v, warnings %v", out.State.Exit, out.Err, out.State.Warnings)
	}
	r.AssertHistory("1 deployed")
}

// TestInstallWithOldLease installs a deployed release again after the first install could not delete its Lease. The name
// is in use, and no record or object changes (R51a).
func TestInstallWithOldLease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("healthy", nil)), nil))
	now := metav1.NewMicroTime(time.Now())
	_, err := r.Cluster.CoordinationV1().Leases(r.Namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name("t"), Annotations: map[string]string{"lockstep/holder": `{"user":"ada","host":"elsewhere","operation":"install"}`}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("ada@elsewhere/0/"), LeaseDurationSeconds: new(int32(1)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken := rig.ChartOf(t, rig.Deployment("never", rig.Impatient(rig.Group("a")), "1h"), rig.ConfigMap("after", rig.Group("b", "a")))
	op, err := r.Install("plain", rig.UseChart(broken, func(i *kube.Deploy) { i.RollbackOnFailure = true }))
	if err == nil {
		out := r.Run(op, nil)
		t.Errorf("the install was not refused: exit %d: %s", out.State.Exit, out.State.Message)
	} else if !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "ada on elsewhere") {
		t.Errorf("error %v", err)
	}
	r.AssertHistory("1 deployed")
	if got := r.ConfigMaps(r.Namespace); fmt.Sprint(got) != "[healthy]" {
		t.Errorf("ConfigMaps: %v", got)
	}
}

// TestSupersededWriteFails fails the write that marks the deployed revision superseded during a rollback, which Helm only
// logs. There are never two deployed revisions (R32a).
func TestSupersededWriteFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "v: one")), nil))
	var rollingBack, refused atomic.Bool
	c := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if !rollingBack.Load() || req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, "/sh.helm.release.v1.t.v1") || refused.Swap(true) {
			return false
		}
		faultproxy.Refuse(w, http.StatusForbidden, "Forbidden", "made to fail")
		return true
	}}, "")
	broken := rig.ChartOf(t, rig.Deployment("never", rig.Impatient(rig.Group("a")), "1h"), rig.ConfigMap("a", rig.Group("b", "a"), "v: two"))
	op := r.Must(r.WithClient(c).Upgrade("plain", rig.UseChart(broken, func(u *kube.Deploy) { u.RollbackOnFailure = true })))
	out := r.Run(op, func(e event.Event) {
		if strings.HasPrefix(e.Phase, event.RollbackPrefix) {
			rollingBack.Store(true)
		}
	})
	if !refused.Load() || out.State.Exit != 1 || out.State.Release != "deployed" {
		t.Errorf("refused %v, exit %d, release %q: %s", refused.Load(), out.State.Exit, out.State.Release, out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}
