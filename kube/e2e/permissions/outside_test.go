package permissions

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/e2e/rig"
)

// TestPermissionsForObjectsOutsideTheRelease: without permission to get such an object nothing is written, and the refusal
// names it; without permission to list or watch it, the run reads it (R22d).
func TestPermissionsForObjectsOutsideTheRelease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	gated := rig.Group("b", "a")
	gated[plan.AnnotationWaitFor] = `["Secret/db-tls"]`
	chart := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", gated))

	few := r.WithClient(r.ConnectAs("few", rulesByName(true)...))
	start := time.Now()
	_, err := few.Install("plain", rig.UseChart(chart, nil))
	r.MustRefuse(start, err, "secrets [get] (to wait for Secret/db-tls)")

	enough := r.WithClient(r.ConnectAs("enough", append(rulesByName(true), ruleForNames("", "secrets", []string{"db-tls"}, "get"))...))
	op := enough.Must(enough.Install("plain", rig.UseChart(chart, nil)))
	created := false
	out := enough.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Outside && e.Message == "not in the cluster" && !created {
			created = true
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db-tls"}}
			if _, err := r.Cluster.CoreV1().Secrets(r.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	if out.Err != nil || !created {
		t.Errorf("error %v, created %t", out.Err, created)
	}
	if !slices.ContainsFunc(out.State.Warnings, func(e event.Event) bool { return e.Rule == "R22" }) {
		t.Errorf("warnings %v", out.State.Warnings)
	}
}
