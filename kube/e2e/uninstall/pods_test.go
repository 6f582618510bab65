package uninstall

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// stopping makes the pods of a document run on for a moment after their deletion.
func stopping(doc string) string {
	return strings.Replace(doc, "annotations: {sandbox/", "annotations: {sandbox/stop-duration: 1s, sandbox/", 1)
}

func pods(r *rig.Rig) []corev1.Pod {
	list, err := r.Cluster.CoreV1().Pods(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Error(err)
	}
	return list.Items
}

// TestPodsAreGoneFirst: what an application needs is deleted after its pods, in an uninstall and among the removals of an upgrade
// (R30, R31).
func TestPodsAreGoneFirst(t *testing.T) {
	t.Parallel()
	needed, other := rig.ConfigMap("needed", rig.Group("base")), rig.ConfigMap("other", nil)
	app := stopping(rig.Deployment("app", rig.Group("app", "base"), "0s"))
	for name, prepare := range map[string]func(*rig.Rig) (*kube.Operation, error){
		"uninstall": (*rig.Rig).Uninstall,
		"upgrade": func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, other), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, "pods-gone-"+name)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, needed, app, other), nil))
			op := r.Must(prepare(r))
			deleted := false
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Name == "needed" && !deleted {
					deleted = true
					if left := pods(r); len(left) > 0 {
						t.Errorf("ConfigMap/needed is deleted while %s runs", left[0].Name)
					}
				}
			})
			if out.Err != nil || !deleted {
				t.Errorf("deleted %v: %v", deleted, out.Err)
			}
		})
	}
}

// TestHookRunsOnce: the pods of the previous Job of a hook are gone before the next Job is created, and those of an interrupted hook
// when the run has ended (R31).
func TestHookRunsOnce(t *testing.T) {
	t.Parallel()
	hook := func(name, duration string) string {
		return stopping(rig.Job(name, map[string]string{"helm.sh/hook": "pre-install"}, duration))
	}
	r := rig.New(t)
	r.Create(hook("migrate", "1h")) // as a killed run leaves it
	r.Eventually("the pod of the previous Job runs", func() bool {
		list := pods(r)
		return len(list) == 1 && list[0].Status.Phase == corev1.PodRunning
	})
	previous := pods(r)[0].UID
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, hook("migrate", "1h"), rig.ConfigMap("a", nil)), func(i *kube.Deploy) { i.ReadinessTimeout = time.Minute })))
	created := false
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "migrate" && e.Change != "" && !created {
			created = true
			for _, p := range pods(r) {
				if p.UID == previous {
					t.Errorf("%s still runs while the next Job does", p.Name)
				}
			}
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if left := pods(r); !created || len(left) > 0 {
		t.Errorf("created %v, exit %d: %d pods are left: %v", created, out.State.Exit, len(left), out.Err)
	}
}
