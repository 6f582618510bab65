package uninstall

import (
	"context"
	"slices"
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

const (
	finalizer        = "example.com/held"
	addFinalizer     = `{"metadata":{"finalizers":["` + finalizer + `"]}}`
	removeFinalizers = `{"metadata":{"finalizers":null}}`
	claimSpec        = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
)

// mountClaim starts a pod named user that mounts a claim.
func mountClaim(r *rig.Rig, claim string) {
	r.T.Helper()
	nodes, err := r.Cluster.CoreV1().Nodes().List(r.T.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		r.T.Fatal("no node", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Spec: corev1.PodSpec{
		NodeName:   nodes.Items[0].Name,
		Containers: []corev1.Container{{Name: "c", Image: "example/app:1.0"}},
		Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
	if _, err := r.Cluster.CoreV1().Pods(r.Namespace).Create(r.T.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
}

// isBeingDeleted reports whether a ConfigMap is being deleted.
func isBeingDeleted(r *rig.Rig, name string) bool {
	r.T.Helper()
	c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(r.T.Context(), name, metav1.GetOptions{})
	return err == nil && c.DeletionTimestamp != nil
}

// TestRemovalStillRunning removes a claim that a pod mounts and an object with a finalizer from the chart. An upgrade and a
// rollback succeed, and warn about the objects that are still being deleted, with their finalizers and pods (R30).
func TestRemovalStillRunning(t *testing.T) {
	t.Parallel()
	less := rig.ChartOf(t, rig.ConfigMap("stays", nil))
	more := rig.ChartOf(t, rig.ConfigMap("stays", nil), rig.Object("v1/PersistentVolumeClaim/data", rig.Group("data", "under"), claimSpec),
		rig.ConfigMap("under", rig.Group("under")), rig.ConfigMap("held", rig.Group("held", "data")), rig.ConfigMap("last", rig.Group("last", "held")))
	const quick, timeout = time.Second, 8 * time.Second
	tests := map[string]func(r *rig.Rig) (*kube.Operation, error){
		"upgrade": func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(more, nil))
			mountClaim(r, "data")
			r.PatchConfigMap("held", addFinalizer)
			return r.Upgrade("plain", rig.UseChart(less, func(u *kube.Deploy) { u.ReadinessTimeout, u.Timeout = quick, timeout }))
		},
		"rollback": func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(less, nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(more, nil)))
			mountClaim(r, "data")
			r.PatchConfigMap("held", addFinalizer)
			back := kube.Rollback{Common: r.Common(), Revision: 1}
			back.ReadinessTimeout, back.Timeout = quick, timeout
			return r.Client.PrepareRollback(t.Context(), back)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			out := r.MustRun(prepare(r))
			if !out.HasWarning("R30", "ConfigMap/held", finalizer) || !out.HasWarning("R30", "PersistentVolumeClaim/data", "kubernetes.io/pvc-protection", "pod user") {
				t.Errorf("warnings %v", out.State.Warnings)
			}
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"held", "stays"}) || !isBeingDeleted(r, "held") {
				t.Errorf("ConfigMaps: %v", got)
			}
			claim, err := r.Cluster.CoreV1().PersistentVolumeClaims(r.Namespace).Get(t.Context(), "data", metav1.GetOptions{})
			if err != nil || claim.DeletionTimestamp == nil {
				t.Errorf("the claim is not being deleted: %v", err)
			}
			var order []string
			for _, e := range r.Audit() {
				if e.Verb == "delete" && e.UserAgent == "lockstep" && (e.Object.Resource == "configmaps" || e.Object.Resource == "persistentvolumeclaims") {
					order = append(order, e.Object.Name)
				}
			}
			if want := []string{"last", "held", "data", "under"}; !slices.Equal(order, want) {
				t.Errorf("deleted in the order %v, want %v", order, want)
			}
		})
	}
}

// TestRemovalOfUnusedClaim removes a claim that no pod uses. Its finalizer disappears, so there is no warning.
func TestRemovalOfUnusedClaim(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("stays", nil), rig.Object("v1/PersistentVolumeClaim/data", nil, claimSpec), rig.ConfigMap("goes", nil)), nil))
	out := r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("stays", nil)), nil)))
	if out.HasWarning("R30") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
}

// TestUninstallNamesUsers: an uninstall waits for deletions. If an object is not deleted in time, the error names its
// finalizer and the pods that use it (R31).
func TestUninstallNamesUsers(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Object("v1/PersistentVolumeClaim/data", nil, claimSpec)), nil))
	mountClaim(r, "data")
	op, err := r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: func() kube.Common {
		c := r.Common()
		c.Timeout, c.ReadinessTimeout = time.Minute, 4*time.Second
		return c
	}()})
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, nil)
	text := out.State.Cause + " " + strings.Join(out.State.Evidence, " ")
	if out.State.Exit != 1 || !strings.Contains(text, "kubernetes.io/pvc-protection") || !strings.Contains(text, "pod user") {
		t.Errorf("exit %d: %s", out.State.Exit, text)
	}
}

// TestSameNameAgain adds an object again that is still being deleted. It is applied once the
// old one is gone, and the group that waits for it starts after that (R30).
func TestSameNameAgain(t *testing.T) {
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			with := rig.ChartOf(t, rig.ConfigMap("stays", nil), rig.ConfigMap("x", rig.Group("x"), "more: data"), rig.ConfigMap("after", rig.Group("after", "x")))
			quick := func(u *kube.Deploy) {
				u.ReadinessTimeout, u.Timeout, u.ServerSide = 30*time.Second, time.Minute, serverSide
			}
			r.Deploy("plain", rig.UseChart(with, func(i *kube.Deploy) { i.ServerSide = serverSide }))
			r.PatchConfigMap("x", addFinalizer)
			r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("stays", nil)), quick)))
			if !isBeingDeleted(r, "x") {
				t.Fatal("x is not being deleted")
			}
			op := r.Must(r.Upgrade("plain", rig.UseChart(with, quick)))
			var once sync.Once
			out := r.Run(op, func(e event.Event) {
				if e.Object != nil && e.Object.Name == "x" && strings.Contains(e.Message, "still being deleted") {
					once.Do(func() { // not before the run has noticed
						if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(context.Background(), "x", types.MergePatchType, []byte(removeFinalizers), metav1.PatchOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
			})
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			if isBeingDeleted(r, "x") || len(r.ConfigMapData("x")) == 0 || len(r.ConfigMapData("after")) == 0 {
				t.Errorf("x is %v", r.ConfigMapData("x"))
			}
		})
	}
}

// TestSameNameNeverFree: the run fails if the old object is never deleted, and names its finalizer.
func TestSameNameNeverFree(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	with := rig.ChartOf(t, rig.ConfigMap("stays", nil), rig.ConfigMap("x", nil))
	quick := func(u *kube.Deploy) { u.ReadinessTimeout, u.Timeout = 4*time.Second, time.Minute }
	r.Deploy("plain", rig.UseChart(with, nil))
	r.PatchConfigMap("x", addFinalizer)
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("stays", nil)), quick)))
	out := r.MustFail(r.Upgrade("plain", rig.UseChart(with, quick)))
	if !strings.Contains(out.State.Cause, finalizer) && !strings.Contains(strings.Join(out.State.Evidence, " "), finalizer) {
		t.Errorf("cause %q, evidence %q", out.State.Cause, out.State.Evidence)
	}
}
