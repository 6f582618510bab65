package upgrade

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestKeptLeftover: an object that somebody annotated with helm.sh/resource-policy: keep before an upgrade dropped it stays, also
// in an uninstall, whose plan does not delete it.
func TestKeptLeftover(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	a, b := rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a, b), nil))
	keep := []byte(`{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "b", types.MergePatchType, keep, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	lines, _ := r.Changes(r.Uninstall())
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "ConfigMap/b delete") }) {
		t.Errorf("the plan of the uninstall is %q", lines)
	}
	r.MustRun(r.Uninstall())
	if left := r.ConfigMaps(r.Namespace); !slices.Equal(left, []string{"b"}) {
		t.Errorf("left %v, want [b]", left)
	}
}

// TestRemovalsKeepTheirGroups removes objects whose dependencies stay in the cluster, in the
// order of the whole old plan (R30, R31, R32), without a warning about a missing group (R8).
func TestRemovalsKeepTheirGroups(t *testing.T) {
	t.Parallel()
	whole := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("z", rig.Group("z", "a")), rig.ConfigMap("c", rig.Group("c", "z")), rig.ConfigMap("b", rig.Group("b", "c")))
	less := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("c", nil))
	kept := rig.Group("a")
	kept["helm.sh/resource-policy"] = "keep"
	keeping := rig.ChartOf(t, rig.ConfigMap("a", kept), rig.ConfigMap("b", rig.Group("b", "a")), rig.ConfigMap("c", rig.Group("c", "b")), rig.ConfigMap("d", rig.Group("d", "c")))
	tests := []struct {
		name    string
		run     func(r *rig.Rig)
		removed []string
	}{
		{"upgrade", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(whole, nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(less, nil)))
		}, []string{"b", "z"}},
		{"rollback", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(less, nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(whole, nil)))
			r.MustRun(r.Rollback(1))
		}, []string{"b", "z"}},
		{"uninstall", func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(keeping, nil))
			r.MustRun(r.Uninstall())
		}, []string{"d", "c", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			tt.run(r)
			var got []string
			for _, e := range r.Audit() {
				if e.Verb == "delete" && e.Object.Resource == "configmaps" && e.UserAgent == "lockstep" {
					got = append(got, e.Object.Name)
				}
			}
			if !slices.Equal(got, tt.removed) {
				t.Errorf("deleted %v, want %v", got, tt.removed)
			}
		})
	}
}

// TestOnePlanOfARemoval: an upgrade removes objects as planned.
func TestOnePlanOfARemoval(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), rig.ConfigMap("c", rig.Group("c", "b"))), nil))
	lines, _ := r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"))), nil)))
	want := []string{"edge:a ConfigMap/a unchanged", "edge:c ConfigMap/c delete", "edge:b ConfigMap/b delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("plan %q, want %q", lines, want)
	}
}

// TestRemovalsAfterAFailedUpgrade: the old order can be restored although the failed and the new revision order the same
// objects by another method (R20, R30).
func TestRemovalsAfterAFailedUpgrade(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("one", rig.Group("one")), rig.ConfigMap("two", rig.Group("two", "one")), rig.ConfigMap("three", rig.Group("three", "two"))), nil))
	layer := func(name string, after ...string) map[string]string {
		m := map[string]string{plan.AnnotationLayer: name}
		if len(after) > 0 {
			m[plan.AnnotationLayerDependsOn] = after[0]
		}
		return m
	}
	broken := strings.ReplaceAll(rig.Deployment("broken", layer("b", "a"), "0s"), "example/app:1.0", "example/no-such-image:1")
	docs := []string{rig.ConfigMap("one", layer("a")), rig.ConfigMap("new", layer("a"))}
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, append(docs, broken, rig.ConfigMap("last", layer("c", "b")))...), func(u *kube.Deploy) { u.ReadinessTimeout = 2 * time.Second }))
	r.MustFail(op, err)
	op, err = r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, append(docs, rig.ConfigMap("last", layer("b", "a")))...), nil))
	out := r.MustRun(op, err)
	if out.HasWarning("R28", "order") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
	ended := out.EndedGroups()
	if want := []string{"edge:three", "edge:two"}; !slices.Equal(ended[len(ended)-2:], want) {
		t.Errorf("the last groups were %v, want %v", ended, want)
	}
}

// TestLostMarks: an object of the deployed revision that has lost the release's marks (kubectl replace) is still the release's, for
// writes and for removals. One that somebody else created in its place is kept by removals, and one that another manager has
// marked by both (R31a).
func TestLostMarks(t *testing.T) {
	t.Parallel()
	a, two := rig.ConfigMap("a", nil), rig.ConfigMap("two", nil)
	changes := map[string]func(r *rig.Rig, cm *corev1.ConfigMap){
		"lost": func(r *rig.Rig, cm *corev1.ConfigMap) { cm.Labels, cm.Annotations = nil, nil },
		"marked by another manager": func(r *rig.Rig, cm *corev1.ConfigMap) {
			cm.Labels, cm.Annotations = map[string]string{"app.kubernetes.io/managed-by": "argocd"}, nil
		},
		"created again": func(r *rig.Rig, cm *corev1.ConfigMap) {
			if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), cm.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			cm.ObjectMeta = metav1.ObjectMeta{Name: cm.Name}
		},
	}
	removals := map[string]struct {
		clientSide bool
		run        func(r *rig.Rig) (*kube.Operation, error)
	}{
		"upgrade": {false, func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil))
		}},
		"client-side upgrade": {true, func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil))
		}},
		"rollback":  {false, func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(1) }},
		"uninstall": {false, (*rig.Rig).Uninstall},
	}
	for how, change := range changes {
		for name, removal := range removals {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a), func(i *kube.Deploy) { i.ServerSide = strconv.FormatBool(!removal.clientSide) }))
				r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, two), nil)))
				client := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
				cm, err := client.Get(t.Context(), "two", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				change(r, cm)
				if cm.UID == "" {
					_, err = client.Create(t.Context(), cm, metav1.CreateOptions{FieldManager: "kubectl-create"})
				} else {
					_, err = client.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: "kubectl-replace"})
				}
				if err != nil {
					t.Fatal(err)
				}
				if name == "upgrade" { // one that changes the object
					op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, rig.ConfigMap("two", nil, "v: new")), func(u *kube.Deploy) { u.PlanOnly = true })))
					if refused := op.Conflicts(); (len(refused) > 0) != (how == "marked by another manager") {
						t.Errorf("a write is refused: %v", refused)
					}
				}
				op, err := removal.run(r)
				r.MustRun(op, err)
				_, err = client.Get(t.Context(), "two", metav1.GetOptions{})
				if deleted := apierrors.IsNotFound(err); deleted != (how == "lost") {
					t.Errorf("deleted: %t (%v)", deleted, err)
				}
			})
		}
	}
}
