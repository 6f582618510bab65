package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// database returns a StatefulSet of two pods, with annotations of its pods and more fields of their container.
func database(annotations, container string) string {
	return `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {` + annotations + `}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/app:1.0"` + container + `}]
`
}

const needsSecret = `, envFrom: [{secretRef: {name: missing}}]`

// TestWayBackOfStatefulSet rolls out a StatefulSet whose pod can never be ready, and then goes back. Kubernetes does not replace
// that pod, so lockstep deletes it, and says so before and after; only the pod that was never ready (R32).
func TestWayBackOfStatefulSet(t *testing.T) {
	for name, back := range map[string]func(*testing.T, *rig.Rig, string, string) rig.Outcome{
		"rollback": func(t *testing.T, r *rig.Rig, _, bad string) rig.Outcome {
			fail(r, bad)
			return r.MustRun(r.Rollback(1))
		},
		"upgrade": func(t *testing.T, r *rig.Rig, good, bad string) rig.Outcome {
			fail(r, bad)
			return r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, good), nil)))
		},
		"rollback on failure": func(t *testing.T, r *rig.Rig, _, bad string) rig.Outcome {
			op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, bad), func(u *kube.Deploy) { u.RollbackOnFailure, u.ReadinessTimeout = true, 4*time.Second })))
			out := r.Run(op, nil)
			if out.Err == nil {
				t.Error("the upgrade succeeded")
			}
			return out
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.TakesOver = []string{"pods/db-1"} // its controller made it
			good := database("", "")
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, good), nil))
			kept := podUID(r, "db-0")
			out := back(t, r, good, database("", needsSecret))
			if status := r.Status(); status != "deployed" {
				t.Fatalf("the release is %s: %s", status, out.State.Outcome)
			}
			deleted := slices.ContainsFunc(out.Events, func(e event.Event) bool {
				return e.Kind == event.KindObject && e.Object.Kind == "Pod" && e.Object.Name == "db-1" && e.Change == event.Deleted
			})
			said := slices.ContainsFunc(out.State.Warnings, func(w event.Event) bool {
				return strings.Contains(w.Message, "lockstep deleted Pod/db-1 of StatefulSet/db")
			})
			planned := slices.ContainsFunc(out.State.Warnings, func(w event.Event) bool {
				return strings.Contains(w.Message, "lockstep deletes it after it has applied the StatefulSet")
			})
			if !deleted || !said || planned != (name != "rollback on failure") {
				t.Errorf("deleted %v, said %v, planned %v", deleted, said, planned)
			}
			if podUID(r, "db-0") != kept {
				t.Error("the ready pod was replaced")
			}
		})
	}
}

// TestWayBackFromCrashes: a pod without a probe that crashes soon after each start was never ready, although it was Ready for
// a moment each time, so lockstep deletes it, too (R22c, R32).
func TestWayBackFromCrashes(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"pods/db-0"} // its controller made it
	chart := func(annotations string) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, strings.Replace(database(annotations, ""), "replicas: 2", "replicas: 1", 1)), func(u *kube.Deploy) {
			u.Settle, u.ReadinessTimeout = 8*time.Second, 10*time.Second
		})
	}
	r.Deploy("plain", nil)
	r.MustRun(r.Upgrade("plain", chart("")))
	op, err := r.Upgrade("plain", chart(`sandbox/run-duration: 500ms, sandbox/exit-code: "3"`))
	r.MustFail(op, err, "exited with code 3")
	r.Eventually("a long back-off", func() bool { // else it may be running, and so ready, for a moment
		p, err := r.Cluster.CoreV1().Pods(r.Namespace).Get(t.Context(), "db-0", metav1.GetOptions{})
		return err == nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount >= 4 && p.Status.ContainerStatuses[0].State.Waiting != nil
	})
	out := r.MustRun(r.Upgrade("plain", chart("")))
	if !out.HasWarning("R32", "lockstep deletes it after it has applied the StatefulSet") || !out.HasWarning("R32", "lockstep deleted Pod/db-0 of StatefulSet/db") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
}

// TestBrokenPodsAreKept: with --keep-broken-pods, and if the pod was ready before, the cause names its old template and the
// command that deletes it (R32).
func TestBrokenPodsAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		bad  string
		keep bool
	}{
		"flag":      {database("", needsSecret), true},
		"was ready": {database("sandbox/unready-after: 2500ms", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			good := rig.ChartOf(t, database("", ""))
			r.Deploy("plain", rig.UseChart(good, nil))
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, c.bad), func(u *kube.Deploy) {
				u.ReadinessTimeout, u.Settle = 5*time.Second, 5*time.Second // nothing is ready for so long
			}))
			r.MustFail(op, err, "StatefulSet/db")
			r.Eventually("a pod is not ready", func() bool {
				set, err := r.Cluster.AppsV1().StatefulSets(r.Namespace).Get(t.Context(), "db", metav1.GetOptions{})
				return err == nil && set.Status.ReadyReplicas < 2
			})
			op, err = r.Upgrade("plain", rig.UseChart(good, func(u *kube.Deploy) { u.KeepBrokenPods, u.ReadinessTimeout = c.keep, 8*time.Second }))
			out := r.MustFail(op, err, "still has the old template", "kubectl delete pod db-")
			if slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.Change == event.Deleted }) {
				t.Error("a pod was deleted")
			}
		})
	}
}

// fail deploys a chart that must fail.
func fail(r *rig.Rig, doc string) {
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, doc), func(u *kube.Deploy) { u.ReadinessTimeout = 8 * time.Second }))
	r.MustFail(op, err, `secret "missing" not found`)
}

func podUID(r *rig.Rig, name string) string {
	r.T.Helper()
	p, err := r.Cluster.CoreV1().Pods(r.Namespace).Get(r.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	return string(p.UID)
}
