package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

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
				i.HoldOnFailure, i.ReadinessTimeout, i.ForceConflicts = true, 6*time.Second, force
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
				r.mend("broken")
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
	op, err := r.install("fail-image", func(i *Install) { i.HoldOnFailure, i.ReadinessTimeout = true, 8*time.Second })
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
