package kube

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
)

// TestJobThatRemovesItself has a Job gone as soon as it is complete: that is
// success, for a layer and for --wait-for-jobs, and the next group comes only
// after it (R22).
func TestJobThatRemovesItself(t *testing.T) {
	tests := map[string]struct {
		job, after map[string]string
		change     func(*Install)
	}{
		"layer": {map[string]string{plan.AnnotationLayer: "a"}, map[string]string{plan.AnnotationLayer: "b", plan.AnnotationLayerDependsOn: "a"}, nil},
		"flag":  {group("a"), group("b", "a"), func(i *Install) { i.WaitForJobs = true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			out := r.deploy("plain", use(one(t, job("work", tt.job, "1s", "  ttlSecondsAfterFinished: 0"), configMap("after", tt.after)), tt.change))
			if d := out.at("edge:b", event.Running).Sub(out.at("edge:a", event.Running)); d < time.Second {
				t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
			}
			r.eventually("the Job removes itself", func() bool {
				_, err := r.cluster.BatchV1().Jobs(r.namespace).Get(t.Context(), "work", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			r.mustRun(r.uninstall())
		})
	}
}

// TestJobGoneUnseen has a Job with a TTL gone without anybody having seen it
// complete, as after a watch that was lost for a while.
func TestJobGoneUnseen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, job("work", group("a"), "60s", "  ttlSecondsAfterFinished: 0"), configMap("after", group("b", "a"))),
		func(i *Install) { i.WaitForJobs = true }))
	if err != nil {
		t.Fatal(err)
	}
	deleted := false
	out := r.run(op, func(e event.Event) {
		if !deleted && e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" {
			deleted = true
			now := int64(0)
			policy := metav1.DeletePropagationBackground
			if err := r.cluster.BatchV1().Jobs(r.namespace).Delete(t.Context(), "work", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy}); err != nil {
				t.Error(err)
			}
		}
	})
	if !deleted || out.err != nil {
		t.Errorf("deleted %v: %v", deleted, out.err)
	}
}

// unwatched are the rights to do anything but to watch Jobs.
func unwatched() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("", "configmaps,secrets", "*"), rule("batch", "jobs", "get", "list", "create", "patch", "delete")}
}

// passingJob is a Job that removes itself as soon as it has finished.
func passingJob(duration, exit string) string {
	text := job("work", group("a"), duration, "  ttlSecondsAfterFinished: 0", "  backoffLimit: 0")
	return strings.Replace(text, "sandbox/run-duration: "+duration, "sandbox/run-duration: "+duration+`, sandbox/exit-code: "`+exit+`"`, 1)
}

// TestFailedJobThatRemovesItself fails the run although the Job is gone: where
// its end was seen; where the API server was away from before it failed until
// it was gone, since watches go on where they were cut; and where the Job may
// not be watched and is asked for too seldom, since the cluster's Events tell.
// One that has completed counts as complete in all of them (R22).
func TestFailedJobThatRemovesItself(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*rig, func() (*Operation, error)) outcome{
		"seen": func(r *rig, prepare func() (*Operation, error)) outcome {
			op, err := prepare()
			if err != nil {
				r.t.Fatal(err)
			}
			return r.run(op, nil)
		},
		"cut off": func(r *rig, prepare func() (*Operation, error)) outcome {
			out, _ := r.cutWhile(prepare, "jobs", "work", "running", func() { r.eventually("the Job is gone", r.jobGone) })
			return out
		},
		"asked for": func(r *rig, prepare func() (*Operation, error)) outcome {
			r.client = r.as("blind", append(unwatched(), rule("", "events", "list"))...)
			op, err := prepare()
			if err != nil {
				r.t.Fatal(err)
			}
			return r.run(op, nil)
		},
	}
	for way, run := range ways {
		for _, exit := range []string{"1", "0"} {
			t.Run(way+" exit "+exit, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				chart := one(t, passingJob("300ms", exit), configMap("after", group("b", "a")))
				out := run(r, func() (*Operation, error) {
					return r.install("plain", use(chart, func(i *Install) { i.WaitForJobs = true }))
				})
				failed := out.state.Exit == 1 && strings.Contains(out.state.Message, "edge:a: Job/work") && (strings.Contains(out.state.Message, "backoff limit") || strings.Contains(out.state.Message, "container main ends with code 1"))
				if failed != (exit == "1") || !failed && out.err != nil {
					t.Errorf("exit %d: %v", out.state.Exit, out.err)
				}
				if got := r.configMaps(r.namespace); slices.Contains(got, "after") == failed {
					t.Errorf("there are ConfigMaps %v", got)
				}
				if out.says("R22", "how it ended") {
					t.Errorf("its end is said not to be known")
				}
				if !r.jobGone() && way != "seen" {
					t.Errorf("the Job is still there")
				}
			})
		}
	}
}

func (r *rig) jobGone() bool {
	r.t.Helper()
	_, err := r.cluster.BatchV1().Jobs(r.namespace).Get(r.t.Context(), "work", metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// TestJobWhoseEndNobodyKnows counts as complete, with a warning: nobody has
// seen it finish, and no Event tells.
func TestJobWhoseEndNobodyKnows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.client = r.as("blind", unwatched()...)
	op, err := r.install("plain", use(one(t, passingJob("60s", "0"), configMap("after", group("b", "a"))), func(i *Install) { i.WaitForJobs = true }))
	if err != nil {
		t.Fatal(err)
	}
	deleted, now := false, int64(0)
	policy := metav1.DeletePropagationBackground
	out := r.run(op, func(e event.Event) {
		if !deleted && e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" {
			deleted = true
			if err := r.cluster.BatchV1().Jobs(r.namespace).Delete(t.Context(), "work", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy}); err != nil {
				t.Error(err)
			}
		}
	})
	if !deleted || out.err != nil || !out.says("R22", "Job/work", "how it ended") {
		t.Errorf("deleted %v: %v, warnings %v", deleted, out.err, out.state.Warnings)
	}
}
