package steer

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
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// patchDeployment patches a Deployment with another field manager.
func patchDeployment(r *rig.Rig, name, patch string) {
	r.T.Helper()
	if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(context.Background(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-set"}); err != nil {
		r.T.Error(err)
	}
}

// fixDeployment fixes a Deployment: one pod, with an image that can be pulled.
func fixDeployment(r *rig.Rig, name string) {
	r.T.Helper()
	patchDeployment(r, name, `{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"main","image":"example/app:1.0"}]}}}}`)
}

// failingJob returns a Job that fails at once.
func failingJob(name string, annotations map[string]string) string {
	return strings.Replace(rig.Job(name, annotations, "100ms", "  backoffLimit: 0"), "{sandbox/", `{sandbox/exit-code: "1", sandbox/`, 1)
}

// TestAcceptAfterAManualFix accepts an object that somebody has fixed while the run is held. lockstep does not write it
// again (R44).
func TestAcceptAfterAManualFix(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Meddles = "the test fixes objects by hand"
	op := r.Must(r.Install("fail-image", func(i *kube.Deploy) { i.HoldOnFailure, i.ReadinessTimeout = true, 8*time.Second }))
	var fixed time.Time
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind != event.KindRun || e.Status != event.Held:
		case fixed.IsZero():
			fixed = time.Now()
			fixDeployment(r, "broken")
			op.Command(event.Command{Name: event.Accept})
		default:
			t.Errorf("held again: %s", e.Message)
			op.Command(event.Command{Name: event.Abort})
		}
	})
	if fixed.IsZero() || out.Err != nil || out.State.Exit != 0 {
		t.Fatalf("fixed at %s, exit %d: %v", fixed, out.State.Exit, out.Err)
	}
	if g := out.State.Find(helmclient.PhaseApply, "fail-image:broken"); g.Status != event.Ready {
		t.Errorf("the accepted group is %s", g.Status)
	}
	writes := r.WritesSince(fixed)
	if slices.ContainsFunc(writes, func(w string) bool { return strings.HasSuffix(w, "/broken") }) {
		t.Errorf("the accepted object was written again: %v", writes)
	}
	if !slices.ContainsFunc(writes, func(w string) bool { return strings.HasSuffix(w, "configmaps/after") }) {
		t.Errorf("the group that waits for the accepted one was not applied: %v", writes)
	}
	r.AssertDeployed("t")
}

// TestStopHere: after a failure the run stops: running groups finish, and groups that have not started are skipped (R44,
// R26).
func TestStopHere(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, failingJob("bad", rig.Group("bad")), rig.ConfigMap("needs-bad", rig.Group("needs-bad", "bad")),
		rig.UnpullableDeployment("slow", rig.Group("slow")), rig.ConfigMap("needs-slow", rig.Group("needs-slow", "slow"))),
		func(i *kube.Deploy) { i.HoldOnFailure, i.WaitForJobs = true, kube.AllJobs }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Held {
			op.Command(event.Command{Name: event.GiveUp})
			fixDeployment(r, "slow")
		}
	})
	if out.State.Status != event.Failed || out.State.Exit != 1 {
		t.Errorf("%s, exit %d: %s", out.State.Status, out.State.Exit, out.State.Message)
	}
	for id, want := range map[string]event.Status{"edge:bad": event.Failed, "edge:needs-bad": event.Skipped, "edge:slow": event.Ready, "edge:needs-slow": event.Skipped} {
		if g := out.State.Find(helmclient.PhaseApply, id); g.Status != want {
			t.Errorf("%s is %s (%s), want %s", id, g.Status, g.Message, want)
		}
	}
	if got := r.ConfigMaps(r.Namespace); len(got) > 0 {
		t.Errorf("wrote %v", got)
	}
	if got := r.Status(); got != rcommon.StatusFailed {
		t.Errorf("the release is %q, want failed", got)
	}
}

// TestTwoFailuresAreBothRetried: a second group fails while the run is held. After a retry of both, the groups that wait
// for them start (R44).
func TestTwoFailuresAreBothRetried(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Meddles = "the test fixes objects by hand"
	// Group a fails at once, b as soon as it has two pods.
	failing := func(name, unavailable string) string {
		annotations := rig.Group(name)
		annotations[plan.AnnotationReadinessSuccess], annotations[plan.AnnotationReadinessFailure] = `["{.readyReplicas} == 1"]`, `["{.unavailableReplicas} == `+unavailable+`"]`
		return rig.UnpullableDeployment(name, annotations)
	}
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, failing("a", "1"), failing("b", "2"), rig.ConfigMap("c", rig.Group("c", "a")), rig.ConfigMap("d", rig.Group("d", "b"))),
		func(i *kube.Deploy) { i.HoldOnFailure = true }))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Failed {
			failed = append(failed, e.Group)
		}
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		switch len(failed) {
		case 1:
			r.Eventually("b exists", func() bool {
				_, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "b", metav1.GetOptions{})
				return err == nil
			})
			patchDeployment(r, "b", `{"spec":{"replicas":2}}`)
		case 2:
			for _, name := range []string{"b", "a"} {
				fixDeployment(r, name)
				r.Eventually(name+" is available", func() bool {
					d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), name, metav1.GetOptions{})
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
	if !slices.Equal(failed, []string{"edge:a", "edge:b"}) || out.Err != nil || out.State.Exit != 0 {
		t.Errorf("failed %v, exit %d: %v", failed, out.State.Exit, out.Err)
	}
	for _, g := range out.State.Phases[0].Groups {
		if g.Status != event.Ready {
			t.Errorf("%s is %s: %s", g.ID, g.Status, g.Message)
		}
	}
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("wrote %v, want [c d]", got)
	}
	r.AssertDeployed("t")
}

// TestResumeDoesNotEndAHold: resume is refused while a failure is held, with a hint to the
// valid commands, and starts nothing (R44, R45).
func TestResumeDoesNotEndAHold(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, failingJob("bad", rig.Group("bad")), rig.ConfigMap("needs-bad", rig.Group("needs-bad", "bad")), rig.UnpullableDeployment("slow", rig.Group("slow")), rig.ConfigMap("needs-slow", rig.Group("needs-slow", "slow"))),
		func(i *kube.Deploy) { i.HoldOnFailure, i.WaitForJobs = true, kube.AllJobs }))
	if err != nil {
		t.Fatal(err)
	}
	held, could, asked, answer := false, false, false, ""
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun:
			if held = e.Status == event.Held; held && !could {
				fixDeployment(r, "slow")
			}
		case e.Kind == event.KindGroup && e.Group == "edge:slow" && e.Status == event.Ready:
			could = true // needs-slow could start now
		case e.Kind == event.KindCommand && e.Command == event.Resume:
			answer = string(e.Status) + ": " + e.Message
			if !held {
				t.Error("resume ended the hold")
			}
			op.Command(event.Command{Name: event.Abort})
		}
		if held && could && !asked {
			asked = true
			op.Command(event.Command{Name: event.Resume})
		}
	})
	for _, part := range []string{"refused: ", "accept", "retry", "give-up", "abort"} {
		if !strings.Contains(answer, part) {
			t.Errorf("the answer lacks %q: %s", part, answer)
		}
	}
	if got := r.ConfigMaps(r.Namespace); out.State.Exit != 3 || len(got) > 0 {
		t.Errorf("exit %d, wrote %v", out.State.Exit, got)
	}
}

// TestHeldRollback: a rollback on failure fails too and is held. It continues after a fix (R33, R44).
func TestHeldRollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "version: v1")), nil))
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "version: v2"), failingJob("bad", rig.Group("bad", "a"))),
		func(u *kube.Deploy) {
			u.HoldOnFailure, u.RollbackOnFailure, u.WaitForJobs = true, true, kube.AllJobs
		}))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Status == event.Failed {
			failed = append(failed, e.Phase+" "+e.Group)
		}
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		switch len(failed) {
		case 1:
			r.PatchConfigMap("a", `{"immutable":true}`)
			op.Command(event.Command{Name: event.GiveUp})
		case 2:
			if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(context.Background(), "a", metav1.DeleteOptions{}); err != nil {
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
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
	if got := r.ConfigMapData("a")["version"]; got != "v1" {
		t.Errorf("ConfigMap/a has version %q", got)
	}
}

// TestBreakpointOnARemoval stops before a removal, but not before the apply group with the
// same id (R42).
func TestBreakpointOnARemoval(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("g"), "0s"), rig.ConfigMap("leaves", rig.Group("g"))), nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("slow", rig.Group("g"), "1s"), rig.ConfigMap("comes", rig.Group("g"))), nil)))
	stops := 0
	var before []string
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == "edge:g" && e.Status == event.Running:
			op.Command(event.Command{Name: event.Break, Phase: helmclient.PhaseRemove, Group: "edge:g"})
		case e.Kind == event.KindRun && e.Status == event.Paused:
			stops++
			before = r.ConfigMaps(r.Namespace)
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if stops != 1 || !slices.Equal(before, []string{"comes", "leaves"}) {
		t.Errorf("paused %d times, with ConfigMaps %v; want once, with both", stops, before)
	}
	if got := r.ConfigMaps(r.Namespace); out.Err != nil || out.State.Exit != 0 || !slices.Equal(got, []string{"comes"}) {
		t.Errorf("exit %d, %v, remaining: %v", out.State.Exit, out.Err, got)
	}
}
