package kube

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"lockstep/engine/event"
	"lockstep/kube/lease"
	"lockstep/kube/throwaway/meddle"
)

// TestSecondRunWhileTheLeaseIsGone deletes the Lease of a run by hand and lets a second run come and go before
// the first looks. Whether the first finds out when it makes its Lease anew or when it writes its record, it
// writes nothing over what the second has left (R51a).
func TestSecondRunWhileTheLeaseIsGone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		duration time.Duration // of the Lease of the first run, which is looked at every third of it
		ready    string        // when its first group is
	}{
		"by its Lease":  {12 * time.Second, "1h"}, // so that the second run has 4 s
		"by its record": {time.Hour, "1s"},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, configMap("before", nil)), nil))
			chart := one(t, deployment("slow", group("a"), x.ready), configMap("after", group("b", "a")))
			op, err := r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.Lease.Duration, u.RollbackOnFailure = x.duration, true }))
			out := r.in(op, err, "slow", func() {
				op.Command(event.Command{Name: event.Pause})
				defer op.Command(event.Command{Name: event.Resume})
				if err := r.cluster.CoordinationV1().Leases(r.namespace).Delete(t.Context(), lease.Name("t"), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				theirs := one(t, deployment("slow", group("a"), "1s"), configMap("theirs", nil))
				r.mustRun(r.upgrade("plain", useUp(theirs, func(u *Upgrade) { u.Wait = "false" })))
			})
			if out.state.Exit != 1 || out.state.Status != event.Aborted || !strings.Contains(out.state.Message, "does not hold release t") {
				t.Errorf("exit %d, %s: %s", out.state.Exit, out.state.Status, out.state.Message)
			}
			r.assertHistory("1 superseded", "2 failed", "3 deployed")
			if got := r.leases(); len(got) > 0 {
				t.Errorf("left are %v", got)
			}
		})
	}
}

// TestRightsOnLeasesAreTakenAway takes the rights on Leases from the user of a run: it goes on, with one
// warning, by what the records of the release say (R51).
func TestRightsOnLeasesAreTakenAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	others := rule("", "configmaps,secrets", "*")
	apps := rule("apps", "deployments", "*")
	by := r.acting(r.as("user", others, apps, rule("coordination.k8s.io", "leases", "*")))
	chart := one(t, deployment("slow", group("a"), "4s"), configMap("after", group("b", "a")))
	op, err := by.install("plain", use(chart, func(i *Install) { i.Lease.Duration, i.Timeout = 2*time.Second, 30*time.Second }))
	out := by.in(op, err, "slow", func() {
		roles := r.cluster.RbacV1().Roles(r.namespace)
		role, err := roles.Get(t.Context(), "user", metav1.GetOptions{})
		if err == nil {
			role.Rules = role.Rules[:2]
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if out.err != nil || out.state.Exit != 0 || !out.says("R51", "leases", "forbidden") {
		t.Errorf("exit %d: %v, warnings %v", out.state.Exit, out.err, out.state.Warnings)
	}
	r.assertHistory("1 deployed")
	if got := r.configMaps(r.namespace); len(got) != 1 {
		t.Errorf("there are %v", got)
	}
}

// TestInstallWhereTheLeaseWasLeft installs again what is deployed, where the first installation could not give
// its Lease back: the name is in use, and nothing is marked, undone or uninstalled (R51a).
func TestInstallWhereTheLeaseWasLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("healthy", nil)), nil))
	now := metav1.NewMicroTime(time.Now())
	_, err := r.cluster.CoordinationV1().Leases(r.namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name("t"), Annotations: map[string]string{"lockstep/holder": `{"user":"ada","host":"elsewhere","operation":"install"}`}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("ada@elsewhere/0/"), LeaseDurationSeconds: ptr.To(int32(1)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken := one(t, deployment("never", group("a"), "1h"), configMap("after", group("b", "a")))
	op, err := r.install("plain", use(broken, func(i *Install) { i.RollbackOnFailure, i.ReadinessTimeout = true, time.Second }))
	if err == nil {
		out := r.run(op, nil)
		t.Errorf("it was begun: exit %d: %s", out.state.Exit, out.state.Message)
	} else if !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "ada on elsewhere") {
		t.Errorf("error %v", err)
	}
	r.assertHistory("1 deployed")
	if got := r.configMaps(r.namespace); fmt.Sprint(got) != "[healthy]" {
		t.Errorf("there are %v", got)
	}
}

// TestSupersededThatIsNotWritten refuses the write which marks the deployed revision superseded while an
// upgrade is rolled back: Helm only logs that. Never are two revisions deployed (R32a).
func TestSupersededThatIsNotWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", nil, "v: one")), nil))
	var undoing, refused atomic.Bool
	c := r.through(middle{meddle: func(w http.ResponseWriter, req *http.Request) bool {
		if !undoing.Load() || req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, "/sh.helm.release.v1.t.v1") || refused.Swap(true) {
			return false
		}
		meddle.Refuse(w, http.StatusForbidden, "Forbidden", "made to fail")
		return true
	}}, "")
	broken := one(t, deployment("never", group("a"), "1h"), configMap("a", group("b", "a"), "v: two"))
	op, err := r.acting(c).upgrade("plain", useUp(broken, func(u *Upgrade) { u.RollbackOnFailure, u.ReadinessTimeout = true, time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		if strings.HasPrefix(e.Phase, event.RollbackPrefix) {
			undoing.Store(true)
		}
	})
	if !refused.Load() || out.state.Exit != 1 || out.state.Release != "deployed" {
		t.Errorf("refused %v, exit %d, release %q: %s", refused.Load(), out.state.Exit, out.state.Release, out.state.Message)
	}
	r.assertHistory("1 superseded", "2 failed", "3 deployed")
}
