package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestCleanupOnFail deletes the new objects of a failed upgrade and no others.
func TestCleanupOnFail(t *testing.T) {
	t.Parallel()
	for _, cleanup := range []bool{true, false} {
		t.Run(fmt.Sprint(cleanup), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", rig.Group("one")), rig.ConfigMap("gone", rig.Group("two", "one"))), nil))
			broken := strings.ReplaceAll(rig.Deployment("broken", rig.Group("three", "two"), "0s"), "example/app:1.0", "example/no-such-image:1")
			next := rig.ChartOf(t, rig.ConfigMap("old", rig.Group("one"), "v: new"), rig.ConfigMap("first", rig.Group("two", "one")), broken, rig.ConfigMap("never", rig.Group("four", "three")))
			op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.CleanupOnFail, u.ReadinessTimeout = cleanup, 2*time.Second }))
			out := r.MustFail(op, err, "Deployment/broken", "never started: edge:four")
			removal := slices.IndexFunc(out.Events, func(e event.Event) bool { return e.Change == event.Deleted })
			if removal < 0 == cleanup {
				t.Fatalf("the first deletion is event %d", removal)
			}
			if cleanup && slices.ContainsFunc(out.Events[removal:], func(e event.Event) bool { return e.Kind == event.KindObject && e.Phase == "apply" }) {
				t.Error("what the run deletes is reported in the phase that applied it")
			}
			r.AssertHistory("1 deployed", "2 failed")
			want := []string{"ConfigMap/gone", "ConfigMap/old"}
			if !cleanup {
				want = []string{"Deployment/broken", "ConfigMap/first", "ConfigMap/gone", "ConfigMap/old"}
			}
			if got := r.Remaining(); !slices.Equal(got, want) {
				t.Errorf("remaining: %v, want %v", got, want)
			}
			if got := r.ConfigMapData("old")["v"]; got != "new" {
				t.Errorf("old has v: %s, want new, the value of the failed upgrade", got)
			}
		})
	}
}

// TestCleanupAfterAFailedHook deletes the new objects, also one with a generateName, if a hook fails after all groups.
func TestCleanupAfterAFailedHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", nil)), nil))
	r.Create(rig.ConfigMap("locked", nil))
	hook := rig.ConfigMap("locked", map[string]string{"helm.sh/hook": "post-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"}, "is-not: it")
	hook = strings.Replace(hook, "is: locked", "is: different", 1)
	next := rig.ChartOf(t, rig.ConfigMap("old", nil), rig.ConfigMap("new", nil), rig.WithGenerateName(rig.ConfigMap("made-", nil)), hook)
	op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.CleanupOnFail, u.SkipPreflight = true, true }))
	r.MustFail(op, err, "post-upgrade:ConfigMap/locked")
	if got := r.Remaining(); !slices.Equal(got, []string{"ConfigMap/old"}) {
		t.Errorf("remaining: %v, want only ConfigMap/old", got)
	}
}

// TestCleanupAfterTheTimeout: after a timeout there is no cleanup, because nothing new is
// started, and the closing event names the remaining objects.
func TestCleanupAfterTheTimeout(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", nil)), nil))
	broken := strings.ReplaceAll(rig.Deployment("broken", rig.Group("one"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := rig.ChartOf(t, rig.ConfigMap("old", nil), broken, rig.ConfigMap("never", rig.Group("two", "one")))
	op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.CleanupOnFail, u.Timeout = true, 8*time.Second }))
	r.MustFail(op, err, "--timeout", "some new objects could not be deleted", "created by this run and not deleted: Deployment/broken")
	if got := r.Remaining(); !slices.Equal(got, []string{"Deployment/broken", "ConfigMap/old"}) {
		t.Errorf("not removed: %v", got)
	}
}

// TestCleanupInTurn deletes the new objects of a failed upgrade in the reverse order of the new plan: each group after the
// groups that wait for it are gone (R31).
func TestCleanupInTurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", rig.Group("one"))), nil))
	// second has a finalizer until the test removes it.
	secondDoc := strings.Replace(rig.ConfigMap("second", rig.Group("three", "two")), "metadata:\n", "metadata:\n  finalizers: [example.com/held]\n", 1)
	broken := strings.ReplaceAll(rig.Deployment("broken", rig.Group("four", "three"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := rig.ChartOf(t, rig.ConfigMap("old", rig.Group("one")), rig.WithGenerateName(rig.ConfigMap("made-", rig.Group("one"))), rig.ConfigMap("first", rig.Group("two", "one")), secondDoc, broken, rig.ConfigMap("never", rig.Group("five", "four")))
	op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.CleanupOnFail, u.ReadinessTimeout = true, 2*time.Second })))
	start := time.Now()
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "second" && strings.Contains(e.Message, "example.com/held") {
			r.PatchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "Deployment/broken") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	if got := r.Remaining(); !slices.Equal(got, []string{"ConfigMap/old"}) {
		t.Errorf("remaining: %v, want only ConfigMap/old", got)
	}
	tl := r.Timeline("lockstep").Since(start)
	gone, _ := tl.FirstDelete(t, []string{"Deployment/broken"})
	second, _ := tl.FirstDelete(t, []string{"ConfigMap/second"})
	first, _ := tl.FirstDelete(t, []string{"ConfigMap/first"})
	var released time.Time
	for _, e := range tl.Of(t, "ConfigMap/second") {
		if e.UserAgent == "test" {
			released = e.Received
		}
	}
	if !slices.IsSortedFunc([]time.Time{gone, second, released, first}, time.Time.Compare) || released.IsZero() {
		t.Errorf("broken was deleted at %s, second at %s, its finalizer removed at %s, first deleted at %s", rig.Clock(gone), rig.Clock(second), rig.Clock(released), rig.Clock(first))
	}
}

// TestCleanupAfterItWasReady deletes the new objects if one of them breaks after its group was ready (R21).
func TestCleanupAfterItWasReady(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", nil)), nil))
	next := rig.ChartOf(t, rig.ConfigMap("old", nil), rig.Deployment("web", rig.Group("a"), "0s"), rig.ConfigMap("last", rig.Group("b", "a")))
	op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) {
		u.CleanupOnFail, u.ReadinessTimeout, u.BreakOn = true, 12*time.Second, []string{"edge:b"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	broken := false
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused && !broken:
			broken = true
			patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/no-such-image:1"}]}}}}`
			if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		case broken && e.Kind == event.KindObject && e.Object.Name == "web" && e.Status == event.InProgress,
			e.Kind == event.KindRun && e.Status == event.Paused: // before the removal of edge:b
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "no-such-image") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	if got := r.Remaining(); !slices.Equal(got, []string{"ConfigMap/old"}) {
		t.Errorf("remaining: %v, want only ConfigMap/old", got)
	}
	r.AssertHistory("1 deployed", "2 failed")
}

// TestKeptAfterAFailure: somebody replaces a new object of an upgrade that fails. A rollback or cleanup keeps it, and the outcome
// says why (R31a).
func TestKeptAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(*kube.Deploy){
		"rollback": func(u *kube.Deploy) { u.RollbackOnFailure = true },
		"cleanup":  func(u *kube.Deploy) { u.CleanupOnFail = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("old", nil)), nil))
			next := rig.ChartOf(t, rig.ConfigMap("new", rig.Group("one")), rig.FailingJob(rig.Group("two", "one")), rig.ConfigMap("never", rig.Group("three", "two")))
			op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.BreakOn = []string{"edge:two"}; undo(u) })))
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused {
					maps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
					if err := maps.Delete(t.Context(), "new", metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					r.Create(rig.ConfigMap("new", nil))
					op.Command(event.Command{Name: event.Resume})
				}
			})
			if want := "ConfigMap/new is kept: not owned by this release"; out.State.Exit != 1 || !strings.Contains(out.State.Outcome, want) {
				t.Errorf("exit %d, %q, want %q", out.State.Exit, out.State.Outcome, want)
			}
		})
	}
}

// TestOutcomeNamesWhatARollbackLeaves: somebody gives an object that an upgrade has changed to another release. The rollback leaves
// it, and the outcome says why (R31a).
func TestOutcomeNamesWhatARollbackLeaves(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Meddles = "somebody gives an object of the release away"
	chart := func(v string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("given", rig.Group("one"), "v: "+v), rig.FailingJob(rig.Group("two", "one")))
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("given", nil, "v: a")), nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(chart("b"), func(u *kube.Deploy) { u.RollbackOnFailure, u.BreakOn = true, []string{"edge:two"} })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused {
			r.PatchConfigMap("given", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if want := "ConfigMap/given is kept: it belongs to release other in namespace " + r.Namespace + " now"; out.State.Exit != 1 || !strings.HasSuffix(out.State.Outcome, want) {
		t.Errorf("exit %d, %q, want %q", out.State.Exit, out.State.Outcome, want)
	}
}

// TestRollbackLeavesWhatWasRefused: the API server refuses an object, because somebody else has changed a field of it, and another one
// is unchanged when somebody changes it. The upgrade has changed nothing of them, so its rollback neither writes to them nor fails (R33).
func TestRollbackLeavesWhatWasRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Meddles = "somebody changes an object of the release"
	chart := func(v string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "v: v"+v), rig.ConfigMap("same", rig.Group("a"), "v: v"), rig.ConfigMap("c", rig.Group("b", "a"), "v: v"+v))
	}
	r.Deploy("plain", rig.UseChart(chart("1"), nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(chart("2"), func(u *kube.Deploy) { u.RollbackOnFailure, u.BreakOn = true, []string{"edge:b"} })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused {
			for _, name := range []string{"c", "same"} {
				r.PatchConfigMap(name, `{"data":{"v":"theirs"}}`)
			}
			op.Command(event.Command{Name: event.Resume})
		}
	})
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
	got := r.ConfigMapData("a")["v"] + r.ConfigMapData("c")["v"] + r.ConfigMapData("same")["v"]
	if got != "v1theirstheirs" || out.State.Exit != 1 {
		t.Errorf("exit %d, the values are %s: %s", out.State.Exit, got, out.State.Outcome)
	}
}
