package hooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestJobWithTTL: a Job that is deleted as soon as it is complete counts as complete, in a layer and with --wait-for-jobs,
// and the next group starts after it (R22).
func TestJobWithTTL(t *testing.T) {
	tests := map[string]struct {
		job, after map[string]string
		change     func(*kube.Deploy)
	}{
		"layer": {map[string]string{plan.AnnotationLayer: "a"}, map[string]string{plan.AnnotationLayer: "b", plan.AnnotationLayerDependsOn: "a"}, nil},
		"flag":  {rig.Group("a"), rig.Group("b", "a"), func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			out := r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Job("work", tt.job, "1s", "  ttlSecondsAfterFinished: 0"), rig.ConfigMap("after", tt.after)), tt.change))
			if d := out.StatusTime("edge:b", event.Running).Sub(out.StatusTime("edge:a", event.Running)); d < time.Second {
				t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
			}
			r.Eventually("the Job is deleted", func() bool {
				_, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), "work", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			r.MustRun(r.Uninstall())
		})
	}
}

// TestJobGoneUnseen: a Job with a TTL counts as complete if it was deleted before lockstep saw its end.
func TestJobGoneUnseen(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Job("work", rig.Group("a"), "60s", "  ttlSecondsAfterFinished: 0"), rig.ConfigMap("after", rig.Group("b", "a"))),
		func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }))
	if err != nil {
		t.Fatal(err)
	}
	deleted := false
	out := r.Run(op, func(e event.Event) {
		if !deleted && e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" {
			deleted = true
			now := int64(0)
			policy := metav1.DeletePropagationBackground
			if err := r.Cluster.BatchV1().Jobs(r.Namespace).Delete(t.Context(), "work", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy}); err != nil {
				t.Error(err)
			}
		}
	})
	if !deleted || out.Err != nil {
		t.Errorf("deleted %v: %v", deleted, out.Err)
	}
}

// rulesWithoutWatch returns all necessary permissions except that to watch Jobs.
func rulesWithoutWatch() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rig.Rule("", "configmaps,secrets", "*"), rig.Rule("batch", "jobs", "get", "list", "create", "patch", "delete")}
}

// jobWithTTL returns a Job with a TTL of 0.
func jobWithTTL(duration, exit string) string {
	text := rig.Job("work", rig.Group("a"), duration, "  ttlSecondsAfterFinished: 0", "  backoffLimit: 0")
	return strings.Replace(text, "sandbox/run-duration: "+duration, "sandbox/run-duration: "+duration+`, sandbox/exit-code: "`+exit+`"`, 1)
}

// TestFailedJobWithTTL: a failed Job fails the run although it is deleted at once. lockstep learns the result from its
// watch, also if the API server was unreachable in between, or, without permission to watch Jobs, from Events. A
// complete Job counts as complete in all these cases (R22).
func TestFailedJobWithTTL(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*rig.Rig, func() (*kube.Operation, error)) rig.Outcome{
		"watched": func(r *rig.Rig, prepare func() (*kube.Operation, error)) rig.Outcome {
			op := r.Must(prepare())
			return r.Run(op, nil)
		},
		"unreachable": func(r *rig.Rig, prepare func() (*kube.Operation, error)) rig.Outcome {
			out, _ := r.CutWhile(prepare, "jobs", "work", "running", func() { r.Eventually("the Job is gone", func() bool { return jobGone(r) }) })
			return out
		},
		"from Events": func(r *rig.Rig, prepare func() (*kube.Operation, error)) rig.Outcome {
			r.Client = r.ConnectAs("blind", append(rulesWithoutWatch(), rig.Rule("", "events", "list"))...)
			op := r.Must(prepare())
			return r.Run(op, nil)
		},
	}
	for way, run := range ways {
		for _, exit := range []string{"1", "0"} {
			t.Run(way+" exit "+exit, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				chart := rig.ChartOf(t, jobWithTTL("300ms", exit), rig.ConfigMap("after", rig.Group("b", "a")))
				out := run(r, func() (*kube.Operation, error) {
					return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }))
				})
				failed := out.State.Exit == 1 && strings.Contains(out.State.Message, "edge:a: Job/work") && (strings.Contains(out.State.Message, "backoff limit") || strings.Contains(out.State.Message, "container main exited with code 1"))
				if failed != (exit == "1") || !failed && out.Err != nil {
					t.Errorf("exit %d: %v", out.State.Exit, out.Err)
				}
				if got := r.ConfigMaps(r.Namespace); slices.Contains(got, "after") == failed {
					t.Errorf("ConfigMaps: %v", got)
				}
				if out.HasWarning("R22", "its result is unknown") {
					t.Errorf("a warning says that the result is unknown")
				}
				if way != "watched" {
					r.Eventually("the Job is gone", func() bool { return jobGone(r) })
				}
			})
		}
	}
}

func jobGone(r *rig.Rig) bool {
	r.T.Helper()
	_, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(r.T.Context(), "work", metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// TestJobWithUnknownEnd: a Job counts as complete, with a warning, if neither a watch nor
// an Event shows its end.
func TestJobWithUnknownEnd(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Client = r.ConnectAs("blind", rulesWithoutWatch()...)
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, jobWithTTL("60s", "0"), rig.ConfigMap("after", rig.Group("b", "a"))), func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs })))
	deleted, now := false, int64(0)
	policy := metav1.DeletePropagationBackground
	out := r.Run(op, func(e event.Event) {
		if !deleted && e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" {
			deleted = true
			if err := r.Cluster.BatchV1().Jobs(r.Namespace).Delete(t.Context(), "work", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy}); err != nil {
				t.Error(err)
			}
		}
	})
	if !deleted || out.Err != nil || !out.HasWarning("R22", "Job/work", "its result is unknown") {
		t.Errorf("deleted %v: %v, warnings %v", deleted, out.Err, out.State.Warnings)
	}
}

// TestRollbackRunsNoExpiredJob: the rollback of an upgrade that failed before it reached a Job that its TTL has deleted does not run the
// Job again (R22, R33).
func TestRollbackRunsNoExpiredJob(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(first string) func(*kube.Deploy) {
		job := rig.Job("work", rig.Group("b", "a"), "10ms", "  ttlSecondsAfterFinished: 0")
		return rig.UseChart(rig.ChartOf(t, first, job), func(d *kube.Deploy) {
			d.RollbackOnFailure, d.WaitForJobs = true, kube.AllJobs
		})
	}
	r.Deploy("plain", chart(rig.ConfigMap("first", rig.Group("a"))))
	r.Eventually("the Job is gone", func() bool { return jobGone(r) })
	fails := rig.Group("a")
	fails[plan.AnnotationReadinessTimeout] = "3s"
	out := r.Run(r.Must(r.Upgrade("plain", chart(rig.UnpullableDeployment("fails", fails)))), nil)
	for _, e := range out.Events {
		if e.Kind == event.KindObject && e.Object.Name == "work" && e.Writes() {
			t.Errorf("the Job was %s %s in %s", e.Status, e.Change, e.Phase)
		}
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}
