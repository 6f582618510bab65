package uninstall

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// TestKilledAfterTheUninstall: a run is killed after the last change of the records: before it could delete its Lease, or, as
// a pod of a Job, just before its exit. The same command, or the next pod, has nothing to do, and no Lease stays (R52, S13).
func TestKilledAfterTheUninstall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ keepHistory, job bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		t.Run(fmt.Sprintf("history %t, job %t", test.keepHistory, test.job), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))
			var kept rig.Store
			prepare := func() (*kube.Operation, error) {
				u := kube.Uninstall{Common: r.Common(), KeepHistory: test.keepHistory}
				if test.job {
					j := rig.OpenJournal(t, &kept)
					u.Journal, u.Job = j.Entry(""), r.Namespace+"/job"
				}
				return r.Client.PrepareUninstall(t.Context(), u)
			}
			r.MustRun(prepare())
			leases := r.Cluster.CoordinationV1().Leases(r.Namespace)
			if now := metav1.NewMicroTime(time.Now()); !test.job {
				if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: lease.Name("t"), Annotations: map[string]string{"lockstep/holder": `{"user":"ada","host":"elsewhere","operation":"uninstall"}`}},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("ada@elsewhere/0/"), LeaseDurationSeconds: new(int32(1)), AcquireTime: &now, RenewTime: &now},
				}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if op, err := prepare(); err != nil || op != nil {
				t.Errorf("the next run: %v, %v", op, err)
			}
			if left, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
				t.Errorf("Leases %v, %v", left.Items, err)
			}
		})
	}
}
