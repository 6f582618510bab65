package stack

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
	"lockstep/kube/throwaway/auditlog"
)

// writesAfter returns the writes of lockstep to a release after somebody else created a record of it: to its records, and
// to objects of the given names. since is when the run started to be watched.
func (b stackRig) writesAfter(since time.Time, release string, objects ...string) (out []string) {
	b.T.Helper()
	var taken time.Time
	for _, e := range b.Audit() {
		record := strings.HasPrefix(e.Object.Name, "sh.helm.release.v1."+release+".v")
		switch {
		case !e.Received.After(since) || !e.Succeeded():
		case taken.IsZero() && record && e.Verb == "create" && !isLockstep(e):
			taken = e.At
		case !taken.IsZero() && e.Received.After(taken) && isLockstep(e) && (record || slices.Contains(objects, e.Object.Name)):
			out = append(out, e.Verb+" "+e.Object.Resource+"/"+e.Object.Name)
		}
	}
	if taken.IsZero() {
		b.T.Errorf("nobody else has created a revision of %s", release)
	}
	return out
}

func isLockstep(e auditlog.Event) bool {
	return e.UserAgent == "lockstep"
}

// helmsChart writes a chart like chart, with the same objects, that Helm can deploy.
func helmsChart(t *testing.T, name string) string {
	return rig.MakeDir(t, rig.Files{
		"Chart.yaml":         "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"templates/all.yaml": rig.ConfigMap(name, nil, "v: {{ .Values.data }}") + "\n---\n" + rig.Deployment(name, nil, "0s"),
	})
}

// result returns the result of a release in the closing event.
func result(s *event.State, id string) event.ReleaseResult {
	i := slices.IndexFunc(s.Results, func(r event.ReleaseResult) bool { return strings.HasSuffix(r.Release, "/"+id) })
	if i < 0 {
		return event.ReleaseResult{}
	}
	return s.Results[i]
}

// TestNewerRevisionIsLeft: Helm writes a revision of a release that the run has deployed, then another release fails. The
// rollback leaves Helm's revision alone and names it; it rolls back the others (R51b, S5).
func TestNewerRevisionIsLeft(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		for _, theirs := range []string{"upgrade", "reinstall"} {
			t.Run(map[bool]string{true: "install", false: "upgrade"}[first]+"/"+theirs, func(t *testing.T) {
				t.Parallel()
				b := newStackRig(t)
				dir := helmsChart(t, "a")
				stack := []release{{Name: "base", Dir: chart(t, "base")}, {Name: "a", Dir: chart(t, "a"), Needs: []string{"base"}}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}}
				if !first {
					b.mustUp(stack...)
				}
				for i := range stack {
					stack[i].Values = map[string]any{"data": "two"}
				}
				stack[2].Values = unpullable(stack[2].Values)
				start, once := time.Now(), sync.Once{}
				s, err := b.prepare(false, func(o *kube.StackOptions) {
					o.Common.RollbackOnFailure, o.Common.BreakOn = true, []string{"b/b:app"} // b fails only after Helm has written
				}, stack...)
				state, _ := b.run(s, err, func(e event.Event) {
					if e.Kind != event.KindRun || e.Status != event.Paused || e.Scope != "" {
						return
					}
					once.Do(func() {
						if theirs == "reinstall" {
							b.MustHelm("uninstall", "a", "--wait")
						}
						b.MustHelm("upgrade", "--install", "a", dir, "--set", "data=helm")
						s.Command(event.Command{Name: event.Resume})
					})
				})
				if state.Exit != 1 {
					t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
				}
				revision, record := 2, "a 2 deployed"
				switch {
				case theirs == "reinstall":
					revision, record = 1, "a 1 deployed"
				case !first:
					revision, record = 3, "a 3 deployed"
				}
				base := "base 3 deployed"
				if first {
					base = "base none"
				}
				if got := b.history("base", "a"); !slices.Equal(got, []string{base, record}) {
					t.Errorf("history %v, want [%s %s]", got, base, record)
				}
				if v := b.ConfigMapData("a")["v"]; v != "helm" {
					t.Errorf("a has %q, want what helm wrote", v)
				}
				got := result(state, "a")
				if got.Result != event.ChangedByOthers || got.Newer == nil || got.Newer.Revision != revision || got.Newer.Author != "helm" {
					t.Errorf("the result of a is %+v", got)
				}
				if !strings.Contains(state.Outcome, "/a has a newer revision ") || !strings.Contains(state.Outcome, " by helm: not rolled back") {
					t.Errorf("the outcome is %q", state.Outcome)
				}
				if wrote := b.writesAfter(start, "a", "a"); len(wrote) > 0 {
					t.Errorf("after helm's revision the run wrote %v", wrote)
				}
			})
		}
	}
}

// TestSuspendedStack suspends a run at its second release. A run from another machine takes over and succeeds. The first one
// wakes up and writes nothing to any release: its first one has a newer revision, and it lost the second one (R51a, R51b).
func TestSuspendedStack(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		t.Run(map[bool]string{true: "install", false: "upgrade"}[first], func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}}
			if !first {
				b.mustUp(stack...)
			}
			two, three := slices.Clone(stack), slices.Clone(stack)
			for i := range stack {
				two[i].Values, three[i].Values = map[string]any{"data": "two"}, map[string]any{"data": "three"}
			}
			two[1].Values["image"] = "example/no-such-image:1"
			out := b.suspend(childStack{
				layout: b.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: filepath.Join(t.TempDir(), "locks"), Releases: two,
				RollbackOnFailure: true, Lease: 3 * time.Second,
			}, func(e event.Event) bool { return e.Kind == event.KindObject && e.Group == "b:app" && e.Change != "" }, func() {
				s, err := b.prepare(false, func(o *kube.StackOptions) {
					o.Common.Lease = lease.Options{LockDir: filepath.Join(t.TempDir(), "locks")}
				}, three...)
				if state, _ := b.run(s, err, nil); state.Exit != 0 {
					t.Errorf("the second run: exit %d: %s", state.Exit, phrase.Reason(state))
				}
			})
			state := &event.State{}
			for _, e := range out.events {
				state.Apply(e)
			}
			if state.Exit != 1 {
				t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
			}
			want := []string{"a 2 deployed", "b 2 deployed"}
			if !first {
				want = []string{"a 3 deployed", "b 3 deployed"}
			}
			if got := b.history("a", "b"); !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
			for _, name := range []string{"a", "b"} {
				if v := b.ConfigMapData(name)["v"]; v != "three" {
					t.Errorf("%s has %q", name, v)
				}
				if got := result(state, name); got.Result != event.ChangedByOthers || got.Newer == nil || !strings.Contains(got.Newer.Author, " on ") {
					t.Errorf("the result of %s is %+v %+v", name, got, got.Newer)
				}
			}
			for _, e := range b.Audit() {
				if e.Received.After(out.woken) && isLockstep(e) && e.Object.Namespace == b.Namespace && e.Object.Resource != "leases" && e.Succeeded() {
					t.Errorf("after it woke up, the run wrote %s %s/%s", e.Verb, e.Object.Resource, e.Object.Name)
				}
			}
		})
	}
}

// suspended is a run in a child process that was suspended for a while.
type suspended struct {
	events []event.Event
	woken  time.Time // when it continued
}

// suspend runs a stack in a child process, suspends the process at an event, calls meanwhile and lets the process continue.
func (b stackRig) suspend(e childStack, at func(event.Event) bool, meanwhile func()) (out suspended) {
	b.T.Helper()
	child, stdout := b.startChild(e)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var ev event.Event
		if json.Unmarshal(lines.Bytes(), &ev) != nil {
			continue
		}
		out.events = append(out.events, ev)
		if out.woken.IsZero() && at(ev) {
			if err := suspend(child.Process); err != nil {
				b.T.Fatal(err)
			}
			meanwhile()
			out.woken = time.Now()
			if err := resume(child.Process); err != nil {
				b.T.Fatal(err)
			}
		}
	}
	_ = child.Wait() // its last event has the result
	if out.woken.IsZero() {
		b.T.Fatal("the run ended before it could be suspended")
	}
	return out
}

// TestUnchangedMustBeReady: a release that is not ready does not count as unchanged. The run waits for it, fails with its
// cause, starts nothing that needs it and writes no revision of it (S4).
func TestUnchangedMustBeReady(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	b.failPods("a")
	stack[1].Values = map[string]any{"data": "two"}
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.ReadinessTimeout = 4 * time.Second }, stack...)
	state, _ := b.run(s, err, nil)
	if state.Exit != event.ExitNothingWritten || !strings.Contains(phrase.Reason(state), "Deployment/a") {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if got, want := b.history("a", "b"), []string{"a 1 deployed", "b 1 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
	if got := result(state, "a"); got.Result != event.NotReady {
		t.Errorf("the result of a is %+v", got)
	}
	if got := result(state, "b"); got.Result != event.NotStarted {
		t.Errorf("the result of b is %+v", got)
	}
}

// TestUnchangedMustSettle: a workload without a probe whose container crashes again and again is no release that is ready,
// although it is ready for some seconds after each start (S4, R22c).
func TestUnchangedMustSettle(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	b.annotatePods("a", `"sandbox/run-duration":"4s","sandbox/exit-code":"3"`)
	b.Eventually("a has crashed and started again", func() bool {
		pods, err := b.Cluster.CoreV1().Pods(b.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=a"})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Status.ContainerStatuses[0].RestartCount > 0
	})
	stack[1].Values = map[string]any{"data": "two"}
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Common.ReadinessTimeout, o.Common.Settle = 12*time.Second, 12*time.Second
	}, stack...)
	state, _ := b.run(s, err, nil)
	if state.Exit != event.ExitNothingWritten || !strings.Contains(phrase.Reason(state), "Deployment/a") {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if got := result(state, "a"); got.Result != event.NotReady {
		t.Errorf("the result of a is %+v", got)
	}
	if got := result(state, "b"); got.Result != event.NotStarted {
		t.Errorf("the result of b is %+v", got)
	}
}

// failPods makes the readiness probes of an app's running pods fail, and waits until none is available.
func (b stackRig) failPods(app string) {
	b.T.Helper()
	b.annotatePods(app, `"sandbox/fail":"never-ready"`)
	b.Eventually(app+" is not ready", func() bool {
		d, err := b.Cluster.AppsV1().Deployments(b.Namespace).Get(b.T.Context(), app, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 0
	})
}

// annotatePods changes how the running pods of an app behave, which changes none of the release's objects.
func (b stackRig) annotatePods(app, annotations string) {
	b.T.Helper()
	pods := b.Cluster.CoreV1().Pods(b.Namespace)
	list, err := pods.List(b.T.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil || len(list.Items) == 0 {
		b.T.Fatalf("%d pods of %s: %v", len(list.Items), app, err)
	}
	for _, pod := range list.Items {
		patch := []byte(`{"metadata":{"annotations":{` + annotations + `}}}`)
		if _, err := pods.Patch(b.T.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			b.T.Fatal(err)
		}
	}
}

// TestUnchangedIsLookedAtAgain: while the run upgrades a, Helm changes or uninstalls b, which was unchanged. The run fails
// and names who changed b, at its end and before anything that needs b starts (S4, R51b).
func TestUnchangedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{true, false} {
		for _, theirs := range []string{"upgrade", "uninstall", "object"} {
			t.Run(map[bool]string{true: "needed", false: "end"}[needed]+"/"+theirs, func(t *testing.T) {
				t.Parallel()
				b := newStackRig(t)
				dir := helmsChart(t, "b")
				stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b")}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}}}
				if needed {
					stack[2].Needs = []string{"a", "b"}
				}
				b.mustUp(stack...)
				stack[0].Values = map[string]any{"data": "two"}
				if needed {
					stack[2].Values = map[string]any{"data": "two"}
				}
				s, err := b.prepare(false, nil, stack...)
				state, _ := b.run(s, err, func(e event.Event) {
					if e.Kind != event.KindGroup || e.Group != "a:config" || e.Status != event.Ready {
						return
					}
					s.Command(event.Command{Name: event.Pause})
					switch theirs {
					case "upgrade":
						b.MustHelm("upgrade", "b", dir, "--set", "data=helm", "--wait")
					case "uninstall":
						b.MustHelm("uninstall", "b")
					case "object":
						b.PatchConfigMap("b", `{"data":{"v":"edited"}}`)
					}
					s.Command(event.Command{Name: event.Resume})
				})
				if state.Exit != 1 {
					t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
				}
				want, newer := "a 2 deployed", event.NewerRevision{Revision: 2, Status: "deployed", Author: "helm"}
				got := result(state, "b")
				switch theirs {
				case "uninstall":
					newer = event.NewerRevision{Status: event.NoRelease}
					fallthrough
				case "upgrade":
					if got.Result != event.ChangedByOthers || got.Newer == nil || *got.Newer != newer {
						t.Errorf("the result of b is %+v %+v, want %+v", got, got.Newer, newer)
					}
				case "object":
					if got.Result != event.ChangedByOthers || strings.Count(phrase.Reason(state), "ConfigMap/b") != 1 || strings.Contains(phrase.Reason(state), event.NothingWritten) {
						t.Errorf("the result of b is %+v: %s", got, phrase.Reason(state))
					}
				}
				if h := b.history("a", "c"); h[0] != want || h[1] != "c 1 deployed" {
					t.Errorf("history %v", h)
				}
				if v := b.ConfigMapData("c")["v"]; v != "one" {
					t.Errorf("c was started although it needs b: %q", v)
				}
			})
		}
	}
}

// TestCountedByRecords: the outcome counts a release by its record. One that rolled itself back is not deployed, although its
// record says so. One whose cluster went away may be pending, and the outcome says what to do.
func TestCountedByRecords(t *testing.T) {
	t.Parallel()
	t.Run("rolled back", func(t *testing.T) {
		t.Parallel()
		b := newStackRig(t)
		stack := []release{{Name: "a", Dir: chart(t, "a")}}
		b.mustUp(stack...)
		stack[0].Values = unpullable(nil)
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.File.Releases[0].RollbackOnFailure = true }, stack...)
		state, _ := b.run(s, err, nil)
		if got := result(state, "a"); state.Exit != 1 || got.Result != event.RolledBack || got.Revision != 3 || state.Outcome != "releases: 1 rolled back" {
			t.Errorf("exit %d, result %+v, outcome %q", state.Exit, got, state.Outcome)
		}
	})
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		b := newStackRig(t)
		link := rig.NewProxy(t)
		b.connect = func(string) (*kube.Client, error) { return link.Client(t, b.Namespace), nil }
		s, err := b.prepare(false, func(o *kube.StackOptions) {
			o.Common.Timeout, o.Common.ReadinessTimeout = 10*time.Second, 10*time.Second
		},
			release{Name: "a", Dir: chart(t, "a")})
		state, _ := b.run(s, err, func(e event.Event) {
			if e.Kind == event.KindGroup && e.Group == "a:config" && e.Status == event.Ready {
				link.Set(rig.LinkCut)
			}
		})
		got := result(state, "a")
		if state.Exit != 1 || got.Result != event.UnknownResult || got.Status != "pending-install" ||
			!strings.Contains(state.Outcome, "may still be pending-install; run the same command again") {
			t.Errorf("exit %d, result %+v, outcome %q", state.Exit, got, state.Outcome)
		}
	})
}

// TestInstalledMeanwhile: a release that down did not find is installed by Helm while down removes another one. The outcome does
// not say that it is not installed (R51b).
func TestInstalledMeanwhile(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "helm installs a release during the run"
	dir := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	b.mustUp(release{Name: "a", Dir: dir})
	s, err := b.prepare(true, func(o *kube.StackOptions) { o.Common.Step = true }, release{Name: "a", Dir: dir}, release{Name: "b", Dir: dir})
	once := sync.Once{}
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
			once.Do(func() {
				b.MustHelm("install", "b", dir)
				s.Command(event.Command{Name: event.Resume})
			})
		}
	})
	if got := result(state, "b").Result; state.Exit != 1 || got != event.ChangedByOthers {
		t.Errorf("exit %d, %s: %s", state.Exit, got, state.Outcome)
	}
}
