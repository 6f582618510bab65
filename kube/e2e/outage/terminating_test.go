package outage

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// deleteNamespaceSlowly deletes the test's namespace. It is gone only after release removes a finalizer.
func deleteNamespaceSlowly(r *rig.Rig) (release func()) {
	r.T.Helper()
	maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
	stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{"example.com/stuck"}}}
	if _, err := maps.Create(r.T.Context(), stuck, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	if err := r.Cluster.CoreV1().Namespaces().Delete(r.T.Context(), r.Namespace, metav1.DeleteOptions{}); err != nil {
		r.T.Fatal(err)
	}
	return func() {
		if _, err := maps.Patch(context.Background(), "stuck", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			r.T.Error(err)
		}
	}
}

// TestTerminatingNamespace: an install into a terminating namespace is refused, and the error says why the namespace still
// exists. With --create-namespace, the install waits until it is gone.
func TestTerminatingNamespace(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	release := deleteNamespaceSlowly(r)
	const finalizer = "example.com/stuck"
	r.Eventually("the namespace's status names the finalizer", func() bool {
		ns, err := r.Cluster.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{})
		return err == nil && strings.Contains(ns.String(), finalizer)
	})
	if _, err := r.Install("plain", nil); err == nil || !strings.Contains(err.Error(), "has been terminating since") || !strings.Contains(err.Error(), finalizer) {
		t.Errorf("error %v", err)
	}
	var once sync.Once
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), func(i *kube.Deploy) {
		i.CreateNamespace = true
		i.OnStep = func(what string) {
			if strings.HasPrefix(what, "waiting for namespace "+r.Namespace+" to be deleted: ") && strings.Contains(what, finalizer) {
				once.Do(release)
			}
		}
	}))
	r.MustRun(op, err)
	r.AssertDeployed("t")
}

// TestNamespaceDeletedDuringRun: an awaited object is deleted with its namespace. The run reports that at once, and ends all
// groups.
func TestNamespaceDeletedDuringRun(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("base", rig.Group("base")), rig.Deployment("slow", rig.Group("slow", "base"), "1h"),
		rig.ConfigMap("last", rig.Group("last", "slow"))), func(i *kube.Deploy) { i.ReadinessTimeout = 40 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	out := r.Run(op, func(e event.Event) {
		if e.Group == "edge:slow" && e.Status == event.InProgress {
			once.Do(func() { t.Cleanup(deleteNamespaceSlowly(r)) })
		}
	})
	if out.State.Exit != 1 || out.State.FailedObject == nil || out.State.FailedObject.Name != "slow" ||
		!strings.Contains(out.State.Cause, "namespace "+r.Namespace+" is being deleted") || !strings.Contains(out.State.Cause, "example.com/stuck") {
		t.Errorf("exit %d: %v: %q", out.State.Exit, out.State.FailedObject, out.State.Cause)
	}
	for _, p := range out.State.Phases {
		for _, g := range p.Groups {
			if !g.Status.Over() {
				t.Errorf("%s is still %s at the end", g.ID, g.Status)
			}
		}
	}
}
