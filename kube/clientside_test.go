package kube

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// everyOperation installs a chart of several kinds that wait for each other, upgrades
// it, rolls it back and uninstalls it. check looks at what each left.
func (r *rig) everyOperation(clientSide bool, check func(outcome)) {
	r.t.Helper()
	last := func(data string) string { return configMap("last", group("last", "seed"), data) }
	check(r.mustRun(r.install("plain", func(i *Install) {
		shopLike(r.t, last("version: v1"))(i)
		i.ClientSide = clientSide
	})))
	var next Install
	shopLike(r.t, last("version: v2"))(&next)
	check(r.mustRun(r.upgrade("plain", useUp(next.Chart, func(u *Upgrade) { u.WaitForJobs = true }))))
	if got := r.data("last")["version"]; got != "v2" {
		r.t.Errorf("after the upgrade: %s", got)
	}
	check(r.mustRun(r.rollback(1)))
	if got := r.data("last")["version"]; got != "v1" {
		r.t.Errorf("after the rollback: %s", got)
	}
	r.assertHistory("1 superseded", "2 superseded", "3 deployed")
	check(r.mustRun(r.uninstall()))
	if left := r.labelled(); len(left) > 0 {
		r.t.Errorf("left are %v", left)
	}
}

// TestClientSideApply: what was installed with --server-side=false is never applied by
// the server, whatever the operation.
func TestClientSideApply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.everyOperation(true, func(outcome) {
		c, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "last", metav1.GetOptions{})
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
