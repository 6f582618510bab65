package upgrade

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestNeededByTheNewRevision: a namespace or CRD that leaves the chart stays while the new revision has objects in it, because they
// would be deleted with it; also with --delete-crds, and in a rollback (R31a, R31b). Once nothing needs it, it goes.
func TestNeededByTheNewRevision(t *testing.T) {
	t.Parallel()
	a := rig.ConfigMap("a", nil)
	check := func(r *rig.Rig, owner, inside, name string, resource schema.GroupVersionResource, exists func() bool) {
		t.Helper()
		both, without := rig.UseChart(rig.ChartOf(t, a, owner, inside), nil), rig.UseChart(rig.ChartOf(t, a, inside), func(u *kube.Deploy) { u.DeleteCRDs = true })
		r.Deploy("plain", both)
		op, err := r.Upgrade("plain", without)
		if _, changes := r.Changes(op, err); changes[name].Action != inspect.Keep {
			t.Errorf("the plan says %s %s: %s", name, changes[name].Action, changes[name].Message)
		}
		if out := r.MustRun(op, err); !out.HasWarning("R31b", name+" stays") {
			t.Errorf("warnings: %v", out.State.Warnings)
		}
		if !exists() {
			t.Error("the object of the new revision is gone")
		}
		r.MustRun(r.Upgrade("plain", both))
		r.MustRun(r.Rollback(2))
		if !exists() {
			t.Error("the rollback has deleted the object of its target")
		}
		r.MustRun(r.Upgrade("plain", both))
		r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
		_, object, _ := strings.Cut(name, "/")
		owns, err := r.Client.Metadata.Resource(resource).Get(t.Context(), object, metav1.GetOptions{})
		if err == nil && owns.DeletionTimestamp == nil {
			t.Errorf("%s is left, although nothing needs it", name)
		}
	}
	t.Run("namespace", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		extra := r.Namespace + "-data"
		inside := strings.Replace(rig.ConfigMap("inside", nil), "  name: inside", "  name: inside\n  namespace: "+extra, 1)
		check(r, rig.Object("v1/Namespace/"+extra, nil), inside, "Namespace/"+extra, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, func() bool {
			cm, err := r.Cluster.CoreV1().ConfigMaps(extra).Get(t.Context(), "inside", metav1.GetOptions{})
			return err == nil && cm.DeletionTimestamp == nil
		})
	})
	t.Run("CRD", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		k := rig.LateKinds(r.Namespace + ".example")[1]
		inside := rig.Object(k.API+"/v1/"+k.Kind+"/inside", nil, "spec: {size: x}")
		check(r, k.CRD(nil), inside, "CustomResourceDefinition/"+k.Plural+"."+k.API, rig.CRDResource, func() bool {
			_, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: k.API, Version: "v1", Resource: k.Plural}).Namespace(r.Namespace).Get(t.Context(), "inside", metav1.GetOptions{})
			return err == nil
		})
	})
}
