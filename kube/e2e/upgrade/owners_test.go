package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestOwnersThatAreDeleted: an object that the release keeps is not deleted by the cluster because its ownerReferences name one that
// an upgrade, rollback or uninstall deletes or replaces (R31c).
func TestOwnersThatAreDeleted(t *testing.T) {
	t.Parallel()
	a, b := rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)
	immutable := func(value string) string { return rig.ConfigMap("a", nil, "v: v"+value) + "\nimmutable: true" }
	for name, tt := range map[string]struct {
		first   []string
		change  func(r *rig.Rig) rig.Outcome
		planned bool
	}{
		"upgrade": {first: []string{a, b}, planned: true, change: func(r *rig.Rig) rig.Outcome {
			return r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, b), nil)))
		}},
		"replacement": {first: []string{immutable("1"), b}, change: func(r *rig.Rig) rig.Outcome {
			next := rig.ChartOf(r.T, immutable("2"), b)
			return r.MustRun(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.ReplaceObjects = []string{"ConfigMap"} })))
		}},
		"uninstall": {first: []string{a, rig.ConfigMap("b", map[string]string{"helm.sh/resource-policy": "keep"})}, planned: true, change: func(r *rig.Rig) rig.Outcome {
			return r.MustRun(r.Uninstall())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, "owners-"+name)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, tt.first...), nil))
			own(r, "a", "b")
			out := tt.change(r)
			if warned := out.HasWarning("R31c", "ConfigMap/b stays, although its ownerReferences name ConfigMap/a"); warned != tt.planned {
				t.Errorf("warnings: %v", out.State.Warnings)
			}
			assertNotCollected(r, "b")
		})
	}
	t.Run("rollback", func(t *testing.T) { // somebody makes the new object the owner during the run
		t.Parallel()
		r := rig.NewNamed(t, "owners-rollback")
		first := map[string]string{"helm.sh/layer": "first"}
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("b", first)), nil))
		next := rig.ChartOf(t, rig.ConfigMap("a", first), rig.ConfigMap("b", first, "changed: by-the-upgrade"),
			rig.FailingJob(map[string]string{"helm.sh/layer": "fails", "helm.sh/dependson/layer": "first"}))
		op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.RollbackOnFailure, u.ReadinessTimeout = true, time.Minute })))
		owned := false
		if out := r.Run(op, func(e event.Event) {
			if e.Kind == event.KindGroup && e.Phase == "apply" && e.Status == event.Ready && !owned {
				owned = true
				own(r, "a", "b")
			}
		}); out.Err == nil || !owned {
			t.Fatalf("the upgrade: %v", out.Err)
		}
		assertNotCollected(r, "b")
	})
}

// own makes a ConfigMap the owner of another one, and of one more that nobody keeps.
func own(r *rig.Rig, owner, dependent string) {
	maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
	o, err := maps.Get(r.T.Context(), owner, metav1.GetOptions{})
	if err != nil {
		r.T.Error(err)
		return
	}
	r.Create(rig.ConfigMap("collected", nil))
	for _, name := range []string{dependent, "collected"} {
		r.PatchConfigMap(name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]}}`, owner, o.UID))
	}
}

// assertNotCollected waits until the cluster has deleted what nobody keeps, and looks whether a ConfigMap still exists.
func assertNotCollected(r *rig.Rig, name string) {
	maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
	r.Eventually("the cluster deletes the dependents", func() bool {
		_, err := maps.Get(r.T.Context(), "collected", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if cm, err := maps.Get(r.T.Context(), name, metav1.GetOptions{}); err != nil || len(cm.OwnerReferences) > 0 || cm.DeletionTimestamp != nil {
		r.T.Errorf("%s: %v, owners %v", name, err, cm.OwnerReferences)
	}
}

// TestOwnersThatDoNotExist: an object that the cluster would delete at once is refused before the first write (R31c).
func TestOwnersThatDoNotExist(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Create(rig.ConfigMap("now", nil))
	owned := func(name, owner string) string {
		return strings.Replace(rig.ConfigMap(name, nil), "  name: "+name,
			"  name: "+name+"\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: "+owner+", uid: 0f3c5d1e-0000-4000-8000-000000000003}]", 1)
	}
	start := time.Now()
	_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, owned("x", "never"), owned("w", "now"), rig.ConfigMap("z", nil)), nil))
	r.MustRefuse(start, err, "ConfigMap/x: its owner, ConfigMap/never", "ConfigMap/w: its owner, ConfigMap/now")
}
