package hooks

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

const keepFinalizer = "example.com/keep"

// withFinalizer adds keepFinalizer to a document.
func withFinalizer(doc string) string {
	return strings.Replace(doc, "metadata:\n", "metadata:\n  finalizers: ["+keepFinalizer+"]\n", 1)
}

// removeFinalizer removes the finalizers of Job/work.
func removeFinalizer(r *rig.Rig) {
	noFinalizers := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := r.Cluster.BatchV1().Jobs(r.Namespace).Patch(context.Background(), "work", types.MergePatchType, noFinalizers, metav1.PatchOptions{}); err != nil {
		r.T.Error(err)
	}
}

// isBlocked reports whether an event says that Job/work waits for the finalizer of the previous Job.
func isBlocked(e event.Event) bool {
	return e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" &&
		slices.Equal(e.Finalizers, []string{keepFinalizer}) && strings.Contains(e.Message, keepFinalizer)
}

// TestPreviousHookObject upgrades a release whose hook's previous object has a finalizer. The wait for its end is an event of
// the hook with the finalizer. If it takes longer than the timeout, the hook has failed because of that; once the
// finalizer is removed, the hook runs (R30).
func TestPreviousHookObject(t *testing.T) {
	for name, scope := range map[string]string{"alone": "", "around its subchart": plan.HookScopeSubchart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			annotations := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}
			if scope != "" {
				annotations[plan.AnnotationHookScope] = scope
			}
			chart := rig.MakeChart(t, rig.Files{
				"Chart.yaml":                   "apiVersion: v2\nname: edge\nversion: 1.0.0\n",
				"charts/db/Chart.yaml":         "apiVersion: v2\nname: db\nversion: 1.0.0\n",
				"charts/db/templates/all.yaml": withFinalizer(rig.Job("work", annotations, "10ms")) + "\n---\n" + rig.ConfigMap("a", nil),
			})
			r.MustRun(r.Install("plain", rig.UseChart(chart, nil)))
			upgrade := func(timeout time.Duration) (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UpgradeTo(chart, func(u *kube.Upgrade) { u.Timeout, u.ReadinessTimeout = timeout, timeout }))
			}
			op, err := upgrade(3 * time.Second)
			out := r.MustFail(op, err, keepFinalizer)
			failed := out.State.FailedObject
			if failed == nil || failed.Name != "work" || !strings.Contains(out.State.Cause, "being deleted") || !strings.Contains(out.State.Cause, keepFinalizer) {
				t.Errorf("failed at %v: %q", failed, out.State.Cause)
			}
			if !slices.ContainsFunc(out.Events, isBlocked) {
				t.Error("no event says what the hook waits for")
			}
			const hook = "pre-upgrade:Job/work"
			if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
				return e.Kind == event.KindGroup && e.Group == hook && e.Status == event.Failed
			}) {
				t.Errorf("%s has not failed", hook)
			}

			if op, err = upgrade(time.Minute); err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			out = r.Run(op, func(e event.Event) {
				if isBlocked(e) {
					once.Do(func() { removeFinalizer(r) })
				}
			})
			if out.Err != nil {
				t.Errorf("after the finalizer was removed: %v", out.Err)
			}
			removeFinalizer(r)
		})
	}
}

// TestPreviousJobOfARetry retries a failed Job that has a finalizer: the wait for its end is shown, and once the finalizer
// is removed, the Job is created again (R30, R44).
func TestPreviousJobOfARetry(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	job := strings.Replace(withFinalizer(rig.Job("work", rig.Group("a"), "10ms", "  backoffLimit: 0")), "{sandbox/run-duration: 10ms}", `{sandbox/run-duration: 10ms, sandbox/exit-code: "1"}`, 1)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, job, rig.ConfigMap("b", rig.Group("b", "a"))), func(i *kube.Install) {
		i.HoldOnFailure, i.WaitForJobs = true, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	failures, blocked := 0, 0
	out := r.Run(op, func(e event.Event) {
		switch {
		case isBlocked(e):
			if blocked++; blocked == 1 {
				removeFinalizer(r)
			}
		case e.Kind == event.KindRun && e.Status == event.Held:
			if failures++; failures == 1 {
				op.Command(event.Command{Name: event.Retry, Group: "edge:a"})
			} else {
				op.Command(event.Command{Name: event.GiveUp, Group: "edge:a"})
			}
		}
	})
	if failures != 2 || blocked == 0 || out.State.Exit != event.ExitFailed {
		t.Errorf("%d failures, %d events about the finalizer, exit %d: %s", failures, blocked, out.State.Exit, out.State.Message)
	}
	removeFinalizer(r)
}

// TestDeletedHookObject installs a release whose hook deletes its object after success, which takes until somebody removes a
// finalizer: an event of the hook says what it waits for (R30).
func TestDeletedHookObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"}
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, withFinalizer(rig.Job("work", hook, "10ms")), rig.ConfigMap("a", nil)), nil))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindWaiting && e.Group == "pre-install:Job/work" && slices.Equal(e.Finalizers, []string{keepFinalizer}) {
			if shown++; shown == 1 {
				removeFinalizer(r)
			}
		}
	})
	if out.Err != nil || shown == 0 {
		t.Errorf("%d events about the finalizer, %v", shown, out.Err)
	}
}
