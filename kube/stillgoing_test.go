package kube

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
)

const (
	foreign   = "example.com/held"
	holdIt    = `{"metadata":{"finalizers":["` + foreign + `"]}}`
	letItGo   = `{"metadata":{"finalizers":null}}`
	claimSpec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
)

// mount starts a pod that mounts a claim, and frees the claim at the end of the test.
func (r *rig) mount(claim string) {
	r.t.Helper()
	nodes, err := r.cluster.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		r.t.Fatal("no node", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Spec: corev1.PodSpec{
		NodeName:   nodes.Items[0].Name,
		Containers: []corev1.Container{{Name: "c", Image: "example/app:1.0"}},
		Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
	if _, err := r.cluster.CoreV1().Pods(r.namespace).Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// goes reports whether a ConfigMap is there and being deleted.
func (r *rig) goes(name string) bool {
	r.t.Helper()
	c, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	return err == nil && c.DeletionTimestamp != nil
}

// TestRemovalThatCannotEnd drops a claim that a pod mounts, and an object that somebody
// holds by a finalizer: an upgrade and a rollback delete all there is to delete, are
// deployed, and name what is still being deleted, what for, and who uses it (R30).
func TestRemovalThatCannotEnd(t *testing.T) {
	t.Parallel()
	less := one(t, configMap("stays", nil))
	more := one(t, configMap("stays", nil), object("v1/PersistentVolumeClaim/data", group("data", "under"), claimSpec),
		configMap("under", group("under")), configMap("held", group("held", "data")), configMap("last", group("last", "held")))
	const quick, timeout = time.Second, 8 * time.Second
	tests := map[string]func(r *rig) (*Operation, error){
		"upgrade": func(r *rig) (*Operation, error) {
			r.deploy("plain", use(more, nil))
			r.mount("data")
			r.patchConfigMap("held", holdIt)
			return r.upgrade("plain", useUp(less, func(u *Upgrade) { u.ReadinessTimeout, u.Timeout = quick, timeout }))
		},
		"rollback": func(r *rig) (*Operation, error) {
			r.deploy("plain", use(less, nil))
			r.mustRun(r.upgrade("plain", useUp(more, nil)))
			r.mount("data")
			r.patchConfigMap("held", holdIt)
			back := Rollback{Common: r.common(), Revision: 1}
			back.ReadinessTimeout, back.Timeout = quick, timeout
			return r.client.PrepareRollback(t.Context(), back)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			out := r.mustRun(prepare(r))
			if !out.says("R30", "ConfigMap/held", foreign) || !out.says("R30", "PersistentVolumeClaim/data", "kubernetes.io/pvc-protection", "pod user") {
				t.Errorf("warnings %v", out.state.Warnings)
			}
			if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"held", "stays"}) || !r.goes("held") {
				t.Errorf("there are %v", got)
			}
			claim, err := r.cluster.CoreV1().PersistentVolumeClaims(r.namespace).Get(t.Context(), "data", metav1.GetOptions{})
			if err != nil || claim.DeletionTimestamp == nil {
				t.Errorf("the claim is not being deleted: %v", err)
			}
			var order []string
			for _, e := range r.audit() {
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

// TestNothingToWarnOf deletes a claim that nobody uses: its finalizer goes by itself, so
// there is nothing to tell.
func TestNothingToWarnOf(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("stays", nil), object("v1/PersistentVolumeClaim/data", nil, claimSpec), configMap("goes", nil)), nil))
	out := r.mustRun(r.upgrade("plain", useUp(one(t, configMap("stays", nil)), nil)))
	if out.says("R30") {
		t.Errorf("warnings %v", out.state.Warnings)
	}
}

// TestUninstallNamesWhoUsesIt: an uninstallation waits for what it deletes, and where
// that does not go it names the finalizer and who uses it (R31).
func TestUninstallNamesWhoUsesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, object("v1/PersistentVolumeClaim/data", nil, claimSpec)), nil))
	r.mount("data")
	op, err := r.client.PrepareUninstall(t.Context(), Uninstall{Common: func() Common { c := r.common(); c.Timeout, c.ReadinessTimeout = 3*time.Second, time.Second; return c }()})
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	text := out.state.Cause + " " + strings.Join(out.state.Evidence, " ")
	if out.state.Exit != 1 || !strings.Contains(text, "kubernetes.io/pvc-protection") || !strings.Contains(text, "pod user") {
		t.Errorf("exit %d: %s", out.state.Exit, text)
	}
}

// TestSameNameAgain brings an object back that is still being deleted: it is applied
// once the old one is gone, and the group that waits for it starts after that (R30).
func TestSameNameAgain(t *testing.T) {
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			with := one(t, configMap("stays", nil), configMap("x", group("x"), "more: data"), configMap("after", group("after", "x")))
			quick := func(u *Upgrade) {
				u.ReadinessTimeout, u.Timeout, u.ServerSide = 5*time.Second, 10*time.Second, serverSide
			}
			r.deploy("plain", use(with, func(i *Install) { i.ClientSide = serverSide == "false" }))
			r.patchConfigMap("x", holdIt)
			r.mustRun(r.upgrade("plain", useUp(one(t, configMap("stays", nil)), quick)))
			if !r.goes("x") {
				t.Fatal("x is not being deleted")
			}
			op, err := r.upgrade("plain", useUp(with, quick))
			if err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			out := r.run(op, func(e event.Event) {
				if e.Object != nil && e.Object.Name == "x" && strings.Contains(e.Message, "still being deleted") {
					once.Do(func() { // only once the run has seen it
						if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(context.Background(), "x", types.MergePatchType, []byte(letItGo), metav1.PatchOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
			})
			if out.err != nil {
				t.Fatal(out.err)
			}
			if r.goes("x") || len(r.data("x")) == 0 || len(r.data("after")) == 0 {
				t.Errorf("x is %v", r.data("x"))
			}
		})
	}
}

// TestSameNameNeverFree fails where the old object does not go, and says what keeps it.
func TestSameNameNeverFree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	with := one(t, configMap("stays", nil), configMap("x", nil))
	quick := func(u *Upgrade) { u.ReadinessTimeout, u.Timeout = 2*time.Second, 10*time.Second }
	r.deploy("plain", use(with, nil))
	r.patchConfigMap("x", holdIt)
	r.mustRun(r.upgrade("plain", useUp(one(t, configMap("stays", nil)), quick)))
	op, err := r.upgrade("plain", useUp(with, quick))
	out := r.mustFail(op, err)
	if !strings.Contains(out.state.Cause, foreign) && !strings.Contains(strings.Join(out.state.Evidence, " "), foreign) {
		t.Errorf("cause %q, evidence %q", out.state.Cause, out.state.Evidence)
	}
}
