package upgrade

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/e2e/rig"
)

// TestClientSideApply: a release that was installed with --server-side=false is never applied
// on the server, in any operation.
func TestClientSideApply(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.RunEveryOperation(true, func(rig.Outcome) {
		c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "last", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		for _, f := range c.ManagedFields {
			if f.Operation == metav1.ManagedFieldsOperationApply {
				t.Errorf("applied by the server, as %s", f.Manager)
			}
		}
	})
}
