package recovery

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestLeftBehindIsTheRunsOwn (R43): the end of a run names the objects that it created and left. An object that somebody else has
// deleted and created again under the same name is not among them, with or without the marks of the release.
func TestLeftBehindIsTheRunsOwn(t *testing.T) {
	for name, labels := range map[string]map[string]string{"foreign": nil, "marked": {"app.kubernetes.io/managed-by": "Helm"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "somebody else creates an object again"
			op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t,
				rig.ConfigMap("again", rig.Group("a")), rig.ConfigMap("own", rig.Group("a")), rig.ConfigMap("deleted", rig.Group("a")),
				rig.Job("broken", rig.Group("b", "a"), "10ms, sandbox/exit-code: \"1\"", "  backoffLimit: 0"),
			), func(d *kube.Deploy) { d.HoldOnFailure, d.WaitForJobs = true, kube.AllJobs }))
			if err != nil {
				t.Fatal(err)
			}
			meddled := false
			out := r.Run(op, func(e event.Event) {
				if e.Kind != event.KindRun || e.Status != event.Held || meddled {
					return
				}
				meddled = true
				maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
				for _, name := range []string{"again", "deleted"} {
					if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again", Labels: labels}}
				if labels != nil {
					m.Annotations = map[string]string{"meta.helm.sh/release-name": "t", "meta.helm.sh/release-namespace": r.Namespace}
				}
				if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				op.Command(event.Command{Name: event.Stop})
			})
			text := out.State.Message
			if !strings.Contains(text, "created by this run and not deleted: ") || !strings.Contains(text, "ConfigMap/own") || strings.Contains(text, "ConfigMap/again") || strings.Contains(text, "ConfigMap/deleted") {
				t.Errorf("exit %d: %s", out.State.Exit, text)
			}
		})
	}
}
