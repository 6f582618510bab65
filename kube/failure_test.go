package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
)

// status is what Helm itself says of the test's release, "" where there is
// none.
func (r *rig) status() rcommon.Status {
	r.t.Helper()
	last, err := r.helm().Releases.Last("t")
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return ""
	}
	if err != nil {
		r.t.Fatal(err)
	}
	rel, err := asV1(last)
	if err != nil {
		r.t.Fatal(err)
	}
	return rel.Info.Status
}

// left lists the Deployments, ConfigMaps and Jobs that carry Helm's label in
// the namespace.
func (r *rig) left() []string {
	r.t.Helper()
	var out []string
	opts := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"}
	deployments, err := r.cluster.AppsV1().Deployments(r.namespace).List(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range deployments.Items {
		out = append(out, "Deployment/"+d.Name)
	}
	maps, err := r.cluster.CoreV1().ConfigMaps(r.namespace).List(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range maps.Items {
		out = append(out, "ConfigMap/"+m.Name)
	}
	jobs, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, j := range jobs.Items {
		out = append(out, "Job/"+j.Name)
	}
	return out
}

// TestFailingImage fails, names the object and its status, and leaves the
// release failed, or with --rollback-on-failure gone (R26, R33, R34).
func TestFailingImage(t *testing.T) {
	t.Parallel()
	for _, rollback := range []bool{false, true} {
		t.Run(map[bool]string{false: "keep", true: "rollback"}[rollback], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			op, err := r.install("fail-image", func(i *Install) {
				i.ReadinessTimeout, i.RollbackOnFailure = 4*time.Second, rollback
			})
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, nil)
			if out.state.Status != event.Failed || out.state.Exit != 1 {
				t.Errorf("%s, exit %d", out.state.Status, out.state.Exit)
			}
			for _, part := range []string{"Deployment/broken", "0 of 1", "no-such-image", "never started: fail-image:after"} {
				if !strings.Contains(out.state.Message, part) {
					t.Errorf("the message does not say %q: %s", part, out.state.Message)
				}
			}
			want, left := rcommon.StatusFailed, 2
			if rollback {
				want, left = "", 0
			}
			if got := r.status(); got != want {
				t.Errorf("the release is %q, want %q", got, want)
			}
			if got := r.left(); len(got) != left {
				t.Errorf("%d objects left, want %d: %v", len(got), left, got)
			}
		})
	}
}

// TestAbortInTheMiddle ends shop while its database comes up (R43, R34).
func TestAbortInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, command := range []event.CommandName{event.Abort, event.Rollback} {
		t.Run(string(command), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			op, err := r.install("shop", func(i *Install) {
				i.Values = with(i.Values, map[string]any{"global": map[string]any{"speed": 1, "topicGroup": r.namespace + ".example"}})
			})
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, func(e event.Event) {
				if e.Kind == event.KindGroup && e.Phase == phaseApply && e.Group == "shop/db:database" && e.Status == event.Running {
					op.Command(event.Command{Name: command})
				}
			})
			if out.state.Status != event.Aborted || out.state.Exit != 3 {
				t.Errorf("%s, exit %d", out.state.Status, out.state.Exit)
			}
			if !strings.Contains(out.state.Message, "never started: ") || !strings.Contains(out.state.Message, "shop/db:schema") {
				t.Errorf("the message does not say what never started: %s", out.state.Message)
			}
			if command == event.Rollback {
				if got := r.status(); got != "" {
					t.Errorf("the release is still there: %s: %s", got, out.state.Message)
				}
				if got := r.left(); len(got) != 0 {
					t.Errorf("left: %v", got)
				}
			} else if got := r.status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed", got)
			}
			if got := r.timelineOf("deployments", "t-api"); got != 0 {
				t.Errorf("a group that never started was written %d times", got)
			}
		})
	}
}

// timelineOf counts our writes to an object.
func (r *rig) timelineOf(resource, name string) int {
	n := 0
	for _, w := range r.writes() {
		if strings.HasSuffix(w, " "+resource+"/"+name) {
			n++
		}
	}
	return n
}

// TestAbortedHookDoesNotRunOn deletes the Job of a hook that an abort has cut
// short.
func TestAbortedHookDoesNotRunOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("hooks", func(i *Install) { i.Values = map[string]any{"runDuration": "30s", "sleepyTime": "30"} })
	if err != nil {
		t.Fatal(err)
	}
	aborted := ""
	out := r.run(op, func(e event.Event) {
		if aborted == "" && e.Kind == event.KindObject && e.Object.Kind == "Job" && e.Status == event.InProgress {
			aborted = e.Object.Name
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if aborted == "" || out.state.Exit != 3 {
		t.Fatalf("aborted %q, exit %d: %v", aborted, out.state.Exit, out.err)
	}
	if _, err := r.cluster.BatchV1().Jobs(r.namespace).Get(t.Context(), aborted, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the hook's Job %s is still there: %v", aborted, err)
	}
	if got := r.status(); got != rcommon.StatusFailed {
		t.Errorf("the release is %q, want failed", got)
	}
}

// TestFailingHook fails the release and names the hook.
func TestFailingHook(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"pre-install", "post-install"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			op, err := r.install("fail-hook", func(i *Install) { i.Values = map[string]any{"hook": event} })
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, nil)
			if out.state.Exit != 1 || !strings.Contains(out.state.Message, event+":Job/") {
				t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
			}
			if got := r.status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed", got)
			}
		})
	}
}

// TestStepStopsBeforeTheFirstWrite starts paused and steps once: exactly one
// unit runs (R41); the abort then finds nothing but what that unit wrote.
func TestStepStopsBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fanout", func(i *Install) { i.Step = true })
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused:
			if w := r.writes(); len(w) > 0 {
				t.Errorf("written before the first step: %v", w)
			}
			op.Command(event.Command{Name: event.Step})
		case e.Kind == event.KindGroup && e.Status == event.Running:
			started++
		case e.Kind == event.KindGroup && (e.Status == event.Ready || e.Status == event.Applied):
			op.Command(event.Command{Name: event.Rollback})
		}
	})
	if started != 2 { // the unit, and its removal
		t.Errorf("%d units started, want the one and its removal", started)
	}
	if out.state.Exit != 3 || r.status() != "" || len(r.left()) > 0 {
		t.Errorf("exit %d, release %q, left %v", out.state.Exit, r.status(), r.left())
	}
}

// TestAbortBeforeTheFirstWrite leaves nothing, not even a record.
func TestAbortBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fanout", func(i *Install) { i.Step = true })
	if err != nil {
		t.Fatal(err)
	}
	op.Command(event.Command{Name: event.Abort})
	out := r.run(op, nil)
	if out.state.Exit != 3 || !strings.Contains(out.state.Message, "nothing was written") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

// TestRetryAfterAChangeByHand mends the object that failed with another field
// manager while the run is held: the retry takes it as it is, with a warning, or
// with --force-conflicts as the chart has it (R44).
func TestRetryAfterAChangeByHand(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint(force), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			op, err := r.install("fail-image", func(i *Install) {
				i.HoldOnFailure, i.ReadinessTimeout, i.ForceConflicts = true, 2*time.Second, force
			})
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			out := r.run(op, func(e event.Event) {
				if e.Kind != event.KindRun || e.Status != event.Held {
					return
				}
				if held++; held > 1 {
					op.Command(event.Command{Name: event.Abort})
					return
				}
				patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/app:1.0"}]}}}}`)
				if _, err := r.cluster.AppsV1().Deployments(r.namespace).Patch(t.Context(), "broken", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-set"}); err != nil {
					t.Error(err)
				}
				op.Command(event.Command{Name: event.Retry})
			})
			if force {
				if held != 2 || out.state.Exit != 3 || strings.Contains(out.state.Message, "conflict") {
					t.Errorf("held %d times, exit %d: %s", held, out.state.Exit, out.state.Message)
				}
				return
			}
			if out.err != nil || out.state.Exit != 0 || !out.says("R44", "Deployment/broken", "kubectl-set") {
				t.Errorf("exit %d, %v, warnings %v", out.state.Exit, out.err, out.state.Warnings)
			}
			r.assertDeployed("t")
		})
	}
}

// TestRetryAfterHold fixes the cluster while the run is held (R44).
func TestRetryAfterHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fail-image", func(i *Install) { i.HoldOnFailure, i.ReadinessTimeout = true, 3*time.Second })
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	out := r.run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		if held++; held > 1 {
			t.Errorf("held again: %s", e.Message)
			op.Command(event.Command{Name: event.Abort})
			return
		}
		// The pods may start now: the image's name is what the sandbox goes by.
		d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), "broken", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		d.Spec.Paused = true
		if _, err := r.cluster.AppsV1().Deployments(r.namespace).Update(t.Context(), d, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		op.Command(event.Command{Name: event.Retry})
	})
	if out.err != nil || out.state.Exit != 0 {
		t.Errorf("exit %d: %v", out.state.Exit, out.err)
	}
	r.assertDeployed("t")
}
