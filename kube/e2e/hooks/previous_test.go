package hooks

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
				return r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Timeout, u.ReadinessTimeout = timeout, timeout }))
			}
			op, err := upgrade(8 * time.Second)
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
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, job, rig.ConfigMap("b", rig.Group("b", "a"))), func(i *kube.Deploy) {
		i.HoldOnFailure, i.WaitForJobs = true, kube.AllJobs
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
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, withFinalizer(rig.Job("work", hook, "10ms")), rig.ConfigMap("a", nil)), nil)))
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

// TestHookCreatedMeanwhile: somebody else creates a hook's object after the previous one was deleted. It is not the hook's, so
// the hook has failed, and nothing is written to it. An object of which only the response was lost is the hook's (R31a, R53).
func TestHookCreatedMeanwhile(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{false: "by somebody else", true: "by the hook"}[lost], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "another hook"
			hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Job("work", hook, "10ms"), rig.ConfigMap("a", nil)), nil))
			var once sync.Once
			r.Client = r.ConnectThrough(rig.Interceptor{
				Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
					if !lost && req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/jobs/work") && !req.URL.Query().Has("dryRun") {
						once.Do(func() {
							if _, err := r.Cluster.BatchV1().Jobs(r.Namespace).Create(t.Context(), otherHook(r.Namespace), metav1.CreateOptions{FieldManager: "helm"}); err != nil {
								t.Error(err)
							}
						})
					}
					return false
				},
				ModifyResponse: func(resp *http.Response) (err error) {
					if lost && resp.Request.Method == http.MethodPatch && strings.HasSuffix(resp.Request.URL.Path, "/jobs/work") && !resp.Request.URL.Query().Has("dryRun") {
						once.Do(func() { err = errors.New("the response is lost") })
					}
					return err
				},
			}, "")
			op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Job("work", hook, "20ms"), rig.ConfigMap("a", nil)), nil)))
			out := r.Run(op, nil)
			job, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), "work", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			others := job.Labels["whose"] == "other"
			switch {
			case lost && (out.Err != nil || others):
				t.Errorf("%v, of another hook %t", out.Err, others)
			case !lost && (out.Err == nil || !strings.Contains(out.Err.Error(), "somebody else created Job/work") || !others || len(job.ManagedFields) > 2):
				t.Errorf("%v, of another hook %t, fields of %v", out.Err, others, job.ManagedFields)
			}
		})
	}
}

// otherHook returns Job/work as a hook of another release.
func otherHook(namespace string) *batchv1.Job {
	about := metav1.ObjectMeta{Name: "work", Namespace: namespace, Labels: map[string]string{"whose": "other"}, Annotations: map[string]string{"helm.sh/hook": "pre-install"}}
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "example/app:1.0"}}}
	return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
}

// TestNamespaceOfAHookWithObjectsOfOthers: the namespace that a hook creates is not deleted before the hook runs again while it contains
// anything from outside the release: the hook is applied over it, and a warning says so (R31a).
func TestNamespaceOfAHookWithObjectsOfOthers(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	extra := r.Namespace + "-hook"
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Object("v1/Namespace/"+extra, map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}))
	r.Deploy("plain", rig.UseChart(chart, nil))
	precious := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "precious"}}
	if _, err := r.Cluster.CoreV1().ConfigMaps(extra).Create(t.Context(), precious, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	op, err := r.Upgrade("plain", rig.UseChart(chart, nil))
	if out := r.MustRun(op, err); !out.HasWarning("R31a", "the previous Namespace/"+extra+" stays", "ConfigMap/precious") {
		t.Errorf("warnings: %v", out.State.Warnings)
	}
	if cm, err := r.Cluster.CoreV1().ConfigMaps(extra).Get(t.Context(), "precious", metav1.GetOptions{}); err != nil || cm.DeletionTimestamp != nil {
		t.Errorf("the object of somebody else is gone: %v", err)
	}
}
