package kube

import (
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/helmclient"
)

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
				if e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == "shop/db:database" && e.Status == event.Running {
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
