package recovery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRollbackOfUnmarkedObjects (R31a, R33): an object that has only lost its label and annotations while the run waited is still the
// release's, and is rolled back, as in a stack. One that somebody else has marked is left.
func TestRollbackOfUnmarkedObjects(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"nobody": "1", "argocd": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "somebody else changes the marks of an object"
			chart := func(v string, options func(*kube.Deploy)) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("first", rig.Group("first"), "v: '"+v+"'"), rig.ConfigMap("last", rig.Group("last", "first"))), options)
			}
			r.Deploy("plain", chart("1", nil))
			op := r.Must(r.Upgrade("plain", chart("2", func(d *kube.Deploy) { d.BreakOn = []string{"last"} })))
			r.Run(op, func(e event.Event) {
				if e.Kind != event.KindRun || e.Status != event.Paused {
					return
				}
				manager := map[string]string{"nobody": "null", "argocd": `"argocd"`}[name]
				patch := `{"metadata":{"labels":{"app.kubernetes.io/managed-by":` + manager + `},"annotations":{"meta.helm.sh/release-name":null,"meta.helm.sh/release-namespace":null}}}`
				if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "first", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				op.Command(event.Command{Name: event.Rollback})
			})
			if got := r.ConfigMapData("first"); got["v"] != want {
				t.Errorf("after the rollback, first has %v, want %s", got, want)
			}
		})
	}
}
