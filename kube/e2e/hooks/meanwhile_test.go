package hooks

import (
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// TestReplacedMeanwhile: somebody deletes the Job that a run waits for, and creates another one of that name, which completes. It
// does not count: neither as the run's hook, nor as the release's Job (R21).
func TestReplacedMeanwhile(t *testing.T) {
	for name, annotations := range map[string]map[string]string{"hook": {"helm.sh/hook": "pre-install"}, "group": rig.Group("a")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Job("migrate", annotations, "1h"), rig.ConfigMap("after", rig.Group("b", "a"))), nil)))
			var replace, end sync.Once
			noticed := false
			out := r.Run(op, func(e event.Event) {
				if e.Kind != event.KindObject || e.Object.Name != "migrate" {
					return
				}
				if e.Status == event.InProgress { // its pod runs, or will
					replace.Do(func() { replaceJob(r, "migrate") })
				}
				if e.Message == "deleted and created again by somebody else" {
					noticed = true
					end.Do(func() { op.Command(event.Command{Name: event.Abort}) })
				}
			})
			if !noticed || out.State.Exit != event.ExitAborted || len(r.ConfigMaps(r.Namespace)) > 0 {
				t.Errorf("exit %d, ConfigMaps %v: %s", out.State.Exit, r.ConfigMaps(r.Namespace), out.State.Message)
			}
		})
	}
}

// replaceJob deletes a Job and creates one of the same name that completes at once and has no marks.
func replaceJob(r *rig.Rig, name string) {
	r.T.Helper()
	jobs := r.Cluster.BatchV1().Jobs(r.Namespace)
	old, err := jobs.Get(r.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.T.Error(err)
		return
	}
	background := metav1.DeletePropagationBackground
	if err := jobs.Delete(r.T.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		r.T.Error(err)
	}
	other := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	old.Spec.Template.DeepCopyInto(&other.Spec.Template)
	other.Spec.Template.Labels, other.Spec.Template.Annotations = nil, nil
	if _, err := jobs.Create(r.T.Context(), other, metav1.CreateOptions{}); err != nil {
		r.T.Error(err)
	}
}
