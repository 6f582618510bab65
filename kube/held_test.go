package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
)

// patchDeployment changes a Deployment as somebody with kubectl would.
func (r *rig) patchDeployment(name, patch string) {
	r.t.Helper()
	if _, err := r.cluster.AppsV1().Deployments(r.namespace).Patch(context.Background(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-set"}); err != nil {
		r.t.Error(err)
	}
}

// mend gives a Deployment one pod, with an image that can be pulled.
func (r *rig) mend(name string) {
	r.t.Helper()
	r.patchDeployment(name, `{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"main","image":"example/app:1.0"}]}}}}`)
}

// unpullable is a Deployment whose image cannot be pulled.
func unpullable(name string, annotations map[string]string) string {
	return strings.Replace(deployment(name, annotations, "0s"), "example/app:1.0", "example/no-such-image:1", 1)
}

// failingJob is a Job that fails as soon as it runs.
func failingJob(name string, annotations map[string]string) string {
	return strings.Replace(job(name, annotations, "100ms", "  backoffLimit: 0"), "{sandbox/", `{sandbox/exit-code: "1", sandbox/`, 1)
}

// TestAcceptAfterAMendByHand takes over what somebody has mended in the cluster
// while the run is held, without any write of our own (R44).
func TestAcceptAfterAMendByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("fail-image", func(i *Install) { i.HoldOnFailure, i.ReadinessTimeout = true, 8*time.Second })
	if err != nil {
		t.Fatal(err)
	}
	var mended time.Time
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind != event.KindRun || e.Status != event.Held:
		case mended.IsZero():
			mended = time.Now()
			r.mend("broken")
			op.Command(event.Command{Name: event.Accept})
		default:
			t.Errorf("held again: %s", e.Message)
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if mended.IsZero() || out.err != nil || out.state.Exit != 0 {
		t.Fatalf("mended at %s, exit %d: %v", mended, out.state.Exit, out.err)
	}
	if g := out.state.Find(helmclient.PhaseApply, "fail-image:broken"); g.Status != event.Ready {
		t.Errorf("the accepted group is %s", g.Status)
	}
	writes := r.writesOf(mended)
	if slices.ContainsFunc(writes, func(w string) bool { return strings.HasSuffix(w, "/broken") }) {
		t.Errorf("what was accepted was written again: %v", writes)
	}
	if !slices.ContainsFunc(writes, func(w string) bool { return strings.HasSuffix(w, "configmaps/after") }) {
		t.Errorf("what waited for the accepted group was not written: %v", writes)
	}
	r.assertDeployed("t")
}

// TestGiveUpFinishesTheRest leaves what failed as it is: what waits for it is
// skipped, and the rest is finished (R44, R26).
func TestGiveUpFinishesTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, failingJob("bad", group("bad")), configMap("needs-bad", group("needs-bad", "bad")),
		unpullable("slow", group("slow")), configMap("needs-slow", group("needs-slow", "slow"))),
		func(i *Install) { i.HoldOnFailure, i.WaitForJobs = true, true }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Held {
			op.Command(event.Command{Name: event.GiveUp})
			r.mend("slow")
		}
	})
	if out.state.Status != event.Failed || out.state.Exit != 1 {
		t.Errorf("%s, exit %d: %s", out.state.Status, out.state.Exit, out.state.Message)
	}
	for id, want := range map[string]event.Status{"edge:bad": event.Failed, "edge:needs-bad": event.Skipped, "edge:slow": event.Ready, "edge:needs-slow": event.Skipped} {
		if g := out.state.Find(helmclient.PhaseApply, id); g.Status != want {
			t.Errorf("%s is %s (%s), want %s", id, g.Status, g.Message, want)
		}
	}
	if got := r.configMaps(r.namespace); len(got) > 0 {
		t.Errorf("written were %v", got)
	}
	if got := r.status(); got != rcommon.StatusFailed {
		t.Errorf("the release is %q, want failed", got)
	}
}

// TestTwoFailuresAreBothRetried starts what waited for the first of two groups
// that failed, although the second one failed while the run was held (R44).
func TestTwoFailuresAreBothRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Neither can become ready: a fails at once, b as soon as it has two pods.
	failing := func(name, unavailable string) string {
		annotations := group(name)
		annotations[plan.AnnotationReadinessSuccess], annotations[plan.AnnotationReadinessFailure] = `["{.readyReplicas} == 1"]`, `["{.unavailableReplicas} == `+unavailable+`"]`
		return unpullable(name, annotations)
	}
	op, err := r.install("plain", use(one(t, failing("a", "1"), failing("b", "2"), configMap("c", group("c", "a")), configMap("d", group("d", "b"))),
		func(i *Install) { i.HoldOnFailure = true }))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Failed {
			failed = append(failed, e.Group)
		}
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		switch len(failed) {
		case 1:
			r.eventually("b is there", func() bool {
				_, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), "b", metav1.GetOptions{})
				return err == nil
			})
			r.patchDeployment("b", `{"spec":{"replicas":2}}`)
		case 2:
			for _, name := range []string{"b", "a"} {
				r.mend(name)
				r.eventually(name+" is available", func() bool {
					d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
					return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas == 1 && d.Status.UnavailableReplicas == 0
				})
				op.Command(event.Command{Name: event.Retry, Group: "edge:" + name})
			}
		default:
			if len(failed) > 2 {
				op.Command(event.Command{Name: event.Abort})
			}
		}
	})
	if !slices.Equal(failed, []string{"edge:a", "edge:b"}) || out.err != nil || out.state.Exit != 0 {
		t.Errorf("failed %v, exit %d: %v", failed, out.state.Exit, out.err)
	}
	for _, g := range out.state.Phases[0].Groups {
		if g.Status != event.Ready {
			t.Errorf("%s is %s: %s", g.ID, g.Status, g.Message)
		}
	}
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("written were %v, want [c d]", got)
	}
	r.assertDeployed("t")
}

// TestResumeDoesNotEndAHold refuses to go on while a failure is held, says what
// there is instead, and starts nothing (R44, R45).
func TestResumeDoesNotEndAHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, failingJob("bad", group("bad")), configMap("needs-bad", group("needs-bad", "bad")), unpullable("slow", group("slow")), configMap("needs-slow", group("needs-slow", "slow"))),
		func(i *Install) { i.HoldOnFailure, i.WaitForJobs = true, true }))
	if err != nil {
		t.Fatal(err)
	}
	held, could, asked, answer := false, false, false, ""
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun:
			if held = e.Status == event.Held; held && !could {
				r.mend("slow")
			}
		case e.Kind == event.KindGroup && e.Group == "edge:slow" && e.Status == event.Ready:
			could = true // needs-slow could start now
		case e.Kind == event.KindCommand && e.Command == event.Resume:
			answer = string(e.Status) + ": " + e.Message
			if !held {
				t.Error("the run is held no longer")
			}
			op.Command(event.Command{Name: event.Abort})
		}
		if held && could && !asked {
			asked = true
			op.Command(event.Command{Name: event.Resume})
		}
	})
	for _, part := range []string{"refused: ", "accept", "retry", "give it up", "abort"} {
		if !strings.Contains(answer, part) {
			t.Errorf("the answer does not say %q: %s", part, answer)
		}
	}
	if got := r.configMaps(r.namespace); out.state.Exit != 3 || len(got) > 0 {
		t.Errorf("exit %d, written were %v", out.state.Exit, got)
	}
}

// TestHeldRollback holds a rollback on failure that fails itself, and goes on
// with it once that has been mended (R33, R44).
func TestHeldRollback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", group("a"), "version: v1")), nil))
	op, err := r.upgrade("plain", useUp(one(t, configMap("a", group("a"), "version: v2"), failingJob("bad", group("bad", "a"))),
		func(u *Upgrade) {
			u.HoldOnFailure, u.RollbackOnFailure, u.WaitForJobs = true, true, true
		}))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Failed {
			failed = append(failed, e.Phase+" "+e.Group)
		}
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		switch len(failed) {
		case 1:
			r.patchConfigMap("a", `{"immutable":true}`)
			op.Command(event.Command{Name: event.GiveUp})
		case 2:
			if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(context.Background(), "a", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			op.Command(event.Command{Name: event.Retry})
		default:
			op.Command(event.Command{Name: event.Abort})
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if want := []string{"apply edge:bad", event.RollbackPrefix + "apply edge:a"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	if out.state.Exit != 1 || !strings.Contains(out.state.Message, "back at revision 1") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	r.assertHistory("1 superseded", "2 failed", "3 deployed")
	if got := r.data("a")["version"]; got != "v1" {
		t.Errorf("ConfigMap/a has version %q", got)
	}
}

// TestBreakpointOnARemoval stops before a removal although a group of the same
// id has been applied before, and there only (R42).
func TestBreakpointOnARemoval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, deployment("slow", group("g"), "0s"), configMap("leaves", group("g"))), nil))
	op, err := r.upgrade("plain", useUp(one(t, deployment("slow", group("g"), "1s"), configMap("comes", group("g"))), nil))
	if err != nil {
		t.Fatal(err)
	}
	stops := 0
	var before []string
	out := r.run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == "edge:g" && e.Status == event.Running:
			op.Command(event.Command{Name: event.Break, Phase: helmclient.PhaseRemove, Group: "edge:g"})
		case e.Kind == event.KindRun && e.Status == event.Paused:
			stops++
			before = r.configMaps(r.namespace)
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if stops != 1 || !slices.Equal(before, []string{"comes", "leaves"}) {
		t.Errorf("stopped %d times, with %v there, want once with both", stops, before)
	}
	if got := r.configMaps(r.namespace); out.err != nil || out.state.Exit != 0 || !slices.Equal(got, []string{"comes"}) {
		t.Errorf("exit %d, %v, left are %v", out.state.Exit, out.err, got)
	}
}
