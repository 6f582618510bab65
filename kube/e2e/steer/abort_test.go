package steer

import (
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// TestAbortInTheMiddle aborts shop while its database starts (R43, R34).
func TestAbortInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, command := range []event.CommandName{event.Abort, event.Rollback} {
		t.Run(string(command), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			op := r.Must(r.Install("shop", func(i *kube.Deploy) {
				i.Values = rig.MergeValues(i.Values, map[string]any{"global": map[string]any{"speed": 1, "topicGroup": r.Namespace + ".example"}})
			}))
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == "shop/db:database" && e.Status == event.Running {
					op.Command(event.Command{Name: command})
				}
			})
			if out.State.Status != event.Aborted || out.State.Exit != 3 {
				t.Errorf("%s, exit %d", out.State.Status, out.State.Exit)
			}
			end := map[event.CommandName]string{event.Abort: "the release is marked failed", event.Rollback: "the release was uninstalled"}[command]
			if want := "aborted by you; " + end; out.State.Message != want {
				t.Errorf("the message is %q, want %q", out.State.Message, want)
			}
			if command == event.Rollback {
				if got := r.Status(); got != "" {
					t.Errorf("the release still exists: %s: %s", got, out.State.Message)
				}
				if got := r.Remaining(); len(got) != 0 {
					t.Errorf("not removed: %v", got)
				}
			} else if got := r.Status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed", got)
			}
			if got := r.WriteCount("deployments", "t-api"); got != 0 {
				t.Errorf("%d writes to an object of a group that never started", got)
			}
		})
	}
}

// TestAbortDeletesTheHook: an abort deletes the Job of an interrupted hook.
func TestAbortDeletesTheHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("hooks", func(i *kube.Deploy) { i.Values = map[string]any{"runDuration": "30s", "sleepyTime": "30"} }))
	aborted := ""
	out := r.Run(op, func(e event.Event) {
		if aborted == "" && e.Kind == event.KindObject && e.Object.Kind == "Job" && e.Status == event.InProgress {
			aborted = e.Object.Name
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if aborted == "" || out.State.Exit != 3 {
		t.Fatalf("aborted %q, exit %d: %v", aborted, out.State.Exit, out.Err)
	}
	if _, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), aborted, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the hook's Job %s was not deleted: %v", aborted, err)
	}
	if got := r.Status(); got != rcommon.StatusFailed {
		t.Errorf("the release is %q, want failed", got)
	}
}

// TestAbortBeforeTheFirstWrite: an abort before the first write leaves no object and no
// record.
func TestAbortBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("fanout", func(i *kube.Deploy) { i.Step = true }))
	op.Command(event.Command{Name: event.Abort})
	out := r.Run(op, nil)
	if out.State.Exit != 3 || out.State.Message != "aborted by you before anything was written" {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	if w := r.Writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}
