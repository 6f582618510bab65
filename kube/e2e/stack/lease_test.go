package stack

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// TestLeaseOfACompletedRun: a run was killed after its last write to the release record, before it deleted its Lease. The
// release is then unchanged (S4), and the next run deletes the Lease (R51).
func TestLeaseOfACompletedRun(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	only := release{Name: "a", Dir: rig.DirOf(t, rig.ConfigMap("a", nil))}
	b.mustUp(only)
	now := metav1.NewMicroTime(time.Now())
	leases := b.Cluster.CoordinationV1().Leases(b.Namespace)
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name("a"), Annotations: map[string]string{"lockstep/holder": `{"user":"ada","host":"elsewhere","operation":"upgrade"}`}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("ada@elsewhere/0/"), LeaseDurationSeconds: new(int32(1)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.mustUp(only)
	if left, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("Leases %v, %v", left.Items, err)
	}
	if got := b.history("a"); got[0] != "a 1 deployed" {
		t.Errorf("history %v", got)
	}
}
