package stack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway"
)

// TestSilentControllersAreCounted: the outcome of a stack counts the objects of all releases whose controllers said nothing,
// also of one that is unchanged, and is never shown as a full success (R22a).
func TestSilentControllersAreCounted(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	silent := func(name string, things ...string) release {
		api := name + "." + b.Namespace + ".example"
		docs := []string{rig.ConfigMap(name, nil, "v: {{ .Values.data }}")}
		for _, thing := range things {
			docs = append(docs, rig.Object(api+"/v1/Thing/"+thing, nil, "spec: {size: 1}"))
		}
		return release{Name: name, Dir: rig.MakeDir(t, rig.Files{"values.yaml": "data: one\n", "templates/all.yaml": strings.Join(docs, "\n---\n"),
			"crds/things.yaml": rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
				"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
				"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")})}
	}
	stack := []release{silent("a", "one"), silent("b", "two", "three")}
	for _, what := range []string{"an install", "nothing changed"} {
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.FirstStatusTimeout = time.Second }, stack...)
		state, _ := b.run(s, err, nil)
		if state.Exit != 0 || state.NoStatus != 3 || state.Ending() != event.Applied || !strings.Contains(state.Outcome, "3 objects whose controller said nothing") {
			t.Errorf("%s: exit %d, %d objects, shown as %s: %q", what, state.Exit, state.NoStatus, state.Ending(), state.Outcome)
		}
	}
}

// TestOrder deploys releases in the order of their needs (S2), skips unchanged ones (S4), and
// uninstalls in reverse (S9), according to the audit log.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	stack := []release{
		{Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}}, {Name: "a", Dir: chart(t, "a")},
		{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}},
	}
	start := time.Now()
	b.mustUp(stack...)
	if got := b.firstWrites(start, "create", "patch"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("written in the order %v", got)
	}
	ready := map[string]time.Time{}
	for _, e := range b.Audit().Writes() {
		switch {
		case e.Object.Resource == "deployments" && e.Verb != "delete" && e.Object.Subresource == "status":
			ready[e.Object.Name] = e.At // the controller's last status update
		case e.Object.Resource == "configmaps" && e.Object.Name == "b" && e.Verb != "delete" && ready["a"].IsZero():
			t.Error("b was written before a was ready")
		}
	}

	again := time.Now()
	b.mustUp(stack...)
	if got := b.WrittenSince(again); len(got) != 0 {
		t.Errorf("an up without changes wrote %v", got)
	}
	if got := b.history("a", "b", "c"); !slices.Equal(got, []string{"a 1 deployed", "b 1 deployed", "c 1 deployed"}) {
		t.Errorf("history %v", got)
	}

	stack[2].Values = map[string]any{"data": "two"}
	if err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planned := map[string]event.Operation{} // what will happen to each release, before it starts
	s, err := b.prepare(false, nil, stack...)
	b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindPlan && e.Scope != "" && e.Operation != nil {
			planned[e.Operation.Release] = *e.Operation
		}
	})
	if op := planned["b"]; len(planned) != 2 || op.Name != "upgrade" || op.PreviousChart != "b-1.0.0" || op.Chart != "b-1.0.0" {
		t.Errorf("announced: %+v", planned)
	}
	if got := b.history("a", "b", "c"); !slices.Equal(got, []string{"a 1 deployed", "b 2 deployed", "c 2 deployed"}) {
		t.Errorf("history after a change of b and without an object of c: %v", got)
	}

	down := time.Now()
	s, err = b.prepare(true, nil, stack...)
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Errorf("down: exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if got := b.firstWrites(down, "delete"); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("deleted in the order %v", got)
	}
	if left := b.objects(); len(left) != 0 {
		t.Errorf("objects left behind: %v", left)
	}
}

// TestRollback fails each release in turn, in an upgrade and in the first install. The changes of the run are rolled back
// in reverse (S5).
func TestRollback(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	for n, failing := range names {
		if !rig.Long && failing != "b" {
			continue
		}
		for _, first := range []bool{true, false} {
			t.Run(failing+map[bool]string{true: "/install", false: "/upgrade"}[first], func(t *testing.T) {
				t.Parallel()
				b := newLayoutRig(t)
				var good, bad []release
				for i, name := range names {
					r := release{Name: name, Dir: chart(t, name)}
					if i > 0 {
						r.Needs = names[i-1 : i]
					}
					good = append(good, r)
					r.Values = map[string]any{"data": "two"}
					if name == failing {
						r.Values = unpullable(r.Values)
					}
					bad = append(bad, r)
				}
				if !first {
					b.mustUp(good...)
				}
				before := b.history(names...)
				start := time.Now()
				s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure = true }, bad...)
				state, _ := b.run(s, err, nil)
				if state.Exit != 1 {
					t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
				}
				for i, name := range names {
					if !first && b.in(name).ConfigMapData(name)["v"] != "one" {
						t.Errorf("%s has %v", name, b.in(name).ConfigMapData(name))
					}
					if g := state.Find("releases", b.id(name)); i > n && g.Status != event.Skipped {
						t.Errorf("%s needs a failed release; status %s, want skipped", name, g.Status)
					}
				}
				if left := b.objects(); first && len(left) != 0 {
					t.Errorf("objects left behind: %v", left)
				}
				after := b.history(names...)
				for i := range names {
					if first && after[i] != names[i]+" none" || i > n && after[i] != before[i] || !strings.HasSuffix(after[i], "deployed") && !first {
						t.Errorf("history %v, before %v", after, before)
					}
				}
				want := slices.Clone(names[:n+1])
				slices.Reverse(want)
				if got := b.firstWrites(start, "delete"); first && !slices.Equal(got, want) {
					t.Errorf("rolled back in the order %v, want %v; the run: %s", got, want, phrase.Reason(state))
				}
			})
		}
	}
}

// TestKilled kills a run while a release is being deployed or removed. The same command then completes (S7).
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"b", "a", "c"} {
		if !rig.Long && at != "b" {
			continue
		}
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			b := newLayoutRig(t)
			stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}}}
			for _, down := range []bool{false, true} {
				b.kill(childStack{layout: b.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: rig.LockDir(), Down: down, Releases: stack}, func(e event.Event) bool {
					return e.Scope == b.id(at) && e.Kind == event.KindObject && e.Change != ""
				})
				s, err := b.prepare(down, nil, stack...)
				if state, _ := b.run(s, err, nil); state.Exit != 0 {
					t.Fatalf("down %v: exit %d: %s", down, state.Exit, phrase.Reason(state))
				}
				want := []string{"a none", "b none", "c none"}
				if !down {
					for i, name := range []string{"a", "b", "c"} {
						want[i] = name + " 1 deployed"
					}
				}
				for i, got := range b.history("a", "b", "c") {
					if down && got != want[i] || !down && !strings.HasSuffix(got, " deployed") {
						t.Errorf("down %v: %s, want %s", down, got, want[i])
					}
				}
			}
			if left := b.objects(); len(left) != 0 {
				t.Errorf("objects left behind: %v", left)
			}
		})
	}
}

// startChild starts a stack in a child process and returns it with its output, the events.
func (b stackRig) startChild(e childStack) (*exec.Cmd, io.Reader) {
	b.T.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		b.T.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childStackVar+"="+string(text))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		b.T.Fatal(err)
	}
	return child, out
}

// kill runs a stack in a child process and kills the process at an event.
func (b stackRig) kill(e childStack, at func(event.Event) bool) {
	b.T.Helper()
	child, out := b.startChild(e)
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var ev event.Event
		if json.Unmarshal(lines.Bytes(), &ev) == nil && at(ev) {
			killed = child.Process.Kill() == nil
			break
		}
	}
	_ = child.Wait() // fails, because the process was killed
	if !killed {
		b.T.Fatal("the run ended before it could be killed")
	}
}

// TestProvided plans a release that needs the kinds of an earlier one (S3). Its templates, which check for the kinds, are
// rendered again once they exist.
func TestProvided(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	api := b.Namespace + ".example.com"
	kind := rig.LateKinds(api)[0]
	crds := rig.MakeDir(t, rig.Files{"templates/crd.yaml": kind.CRD(rig.Group("kinds"))})
	users := rig.MakeDir(t, rig.Files{
		"templates/object.yaml": kind.Object(rig.Group("objects")),
		"templates/asks.yaml":   "{{ if .Capabilities.APIVersions.Has \"" + api + "/v1\" }}\n" + rig.ConfigMap("asked", nil) + "\n{{ end }}",
	})
	if _, err := b.prepare(false, nil, release{Name: "users", Dir: users}); err == nil || !strings.Contains(err.Error(), "install its CRD first") {
		t.Errorf("without the release that defines the kind: %v", err)
	}
	if _, err := b.prepare(false, nil, release{Name: "one", Dir: crds}, release{Name: "two", Dir: crds}); err == nil || !strings.Contains(err.Error(), "both have CustomResourceDefinition/") {
		t.Errorf("two releases with the same object: %v", err)
	}
	b.mustUp(release{Name: "users", Dir: users, Needs: []string{"crds"}}, release{Name: "crds", Dir: crds})
	if !slices.Contains(b.ConfigMaps(b.Namespace), "asked") {
		t.Error("the templates were not rendered again with the new kind")
	}
}

// TestPlannedAgainAfterOthers (R51b): Helm changes a release between its plan and its turn. The run fails without writing to it,
// although it would be planned again because an earlier release adds kinds.
func TestPlannedAgainAfterOthers(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"upgrade", "install", "uninstall"} {
		t.Run(theirs, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			b.Meddles = "helm changes a release during the run"
			kind := rig.LateKinds(b.Namespace + ".example.com")[0]
			dir := rig.MakeDir(t, rig.Files{
				"Chart.yaml":         "apiVersion: v2\nname: b\nversion: 1.0.0\n",
				"templates/all.yaml": "{{ if .Capabilities.APIVersions.Has \"none/v1\" }}{{ end }}" + rig.ConfigMap("b", nil, "v: {{ .Values.v }}"),
			})
			first := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: dir, Needs: []string{"a"}, Values: map[string]any{"v": "one"}}}
			if theirs != "install" {
				b.mustUp(first...)
			}
			kinds := rig.MakeDir(t, rig.Files{"templates/crd.yaml": kind.CRD(rig.Group("kinds"))})
			s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.Step = true },
				release{Name: "kinds", Dir: kinds}, release{Name: "b", Dir: dir, Needs: []string{"kinds"}, Values: map[string]any{"v": "two"}})
			once := sync.Once{}
			state, _ := b.run(s, err, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
					once.Do(func() {
						if theirs == "uninstall" {
							b.MustHelm("uninstall", "b")
						} else {
							b.MustHelm("upgrade", "--install", "b", dir, "--set", "v=helm")
						}
						s.Command(event.Command{Name: event.Resume})
					})
				}
			})
			want := map[string]string{"upgrade": "b 2 deployed", "install": "b 1 deployed", "uninstall": "b none"}[theirs]
			if got := b.history("b"); state.Exit != 1 || got[0] != want || result(state, "b").Result != event.ChangedByOthers {
				t.Errorf("exit %d, %v, want %s: %s; %s", state.Exit, got, want, state.Outcome, phrase.Reason(state))
			}
		})
	}
}

// TestStepPassesUnchanged: a step over releases that are unchanged starts the first group of the next one that is not (S4, S6, R41).
func TestStepPassesUnchanged(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}}}
	s, err := b.prepare(false, nil, stack...)
	b.run(s, err, nil)
	stack[2].Values = map[string]any{"data": "two"}
	s, err = b.prepare(false, func(o *kube.StackOptions) { o.Common.Step = true }, stack...)
	var started []string
	steps, checked := 0, map[string]bool{} // a check that takes longer shows its groups
	state, _ := b.run(s, err, func(e event.Event) {
		switch {
		case e.Kind == event.KindOperation && e.Status == event.Running:
			checked[e.Scope] = e.Operation.Name == "check"
		case e.Kind == event.KindGroup && e.Status == event.Running && e.Scope != "" && !checked[e.Scope] && !strings.HasPrefix(e.Group, "namespace:"):
			started = append(started, e.Group)
		case e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" && steps == 0:
			steps++
			s.Command(event.Command{Name: event.Step})
		case e.Kind == event.KindGroup && e.Status == event.Ready && e.Group == "c:config":
			if len(started) != 1 {
				t.Errorf("one step started %v", started)
			}
			s.Command(event.Command{Name: event.Resume})
		}
	})
	if state.Exit != 0 || !slices.Equal(started, []string{"c:config", "c:app"}) {
		t.Errorf("exit %d, started %v: %s", state.Exit, started, phrase.Reason(state))
	}
}

// TestSteered pauses, steps and stops at breakpoints across all releases (S6).
func TestSteered(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}}}
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.Step, o.Common.BreakOn = true, []string{"b/b:app"} }, stack...)
	var started, stopped []string
	steps := 0
	state, _ := b.run(s, err, func(e event.Event) {
		switch {
		case e.Kind == event.KindGroup && e.Status == event.Running && e.Scope != "" && !strings.HasPrefix(e.Group, "namespace:"):
			started = append(started, e.Group)
		case e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" && steps == 0:
			steps++
			s.Command(event.Command{Name: event.Step})
		case e.Kind == event.KindGroup && e.Status == event.Ready && e.Group == "a:config":
			if len(started) != 1 {
				t.Errorf("one step started %v", started)
			}
			// Breakpoints in releases that have not started.
			s.Command(event.Command{Name: event.Break, Group: "b:config"})
			s.Command(event.Command{Name: event.Break, Group: "c:config"})
			s.Command(event.Command{Name: event.Disable, Group: "c:config"})
			s.Command(event.Command{Name: event.Resume})
		case e.Kind == event.KindRun && e.Status == event.Paused && strings.Contains(e.Message, "breakpoint") && e.Scope == "":
			stopped = append(stopped, e.Message)
			s.Command(event.Command{Name: event.Resume})
		}
	})
	if state.Exit != 0 {
		t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if !slices.Equal(started, []string{"a:config", "a:app", "b:config", "b:app", "c:config", "c:app"}) {
		t.Errorf("started %v", started)
	}
	if len(stopped) != 2 || !strings.Contains(stopped[0], "b:config") || !strings.Contains(stopped[1], "b:app") {
		t.Errorf("the run was paused: %q", stopped)
	}
	if enabled, known := state.Scopes[b.id("c")].Breakpoints[event.Unit{Phase: "apply", Group: "c:config"}]; enabled || !known {
		t.Errorf("the disabled breakpoint is enabled %t, known %t", enabled, known)
	}
	if _, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.BreakOn = []string{"nothing"} }, release{Name: "z", Dir: chart(t, "z")}); err == nil || !strings.Contains(err.Error(), "--break-on nothing: no such release, and no such group in a release that changes; list both with: lockstep plan -f ") {
		t.Errorf("a breakpoint on an unknown group: %v", err)
	}
}

// TestHeldRelease: a decision about a held failure may name the release instead of the group (R44).
func TestHeldRelease(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}, Values: map[string]any{"image": "example/no-such-image:1"}}}
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.HoldOnFailure, o.Common.ReadinessTimeout = true, 20*time.Second }, stack...)
	var replies []string
	state, _ := b.run(s, err, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Held && e.Scope == b.id("b"):
			s.Command(event.Command{Name: event.GiveUp, Group: b.id("a")})
			s.Command(event.Command{Name: event.GiveUp, Group: b.id("b")})
		case e.Kind == event.KindCommand && e.Command == event.GiveUp:
			replies = append(replies, strings.TrimSpace(string(e.Status)+" "+e.Message))
		}
	})
	if want := []string{"refused release " + b.Namespace + "/a is not held on a failure", "accepted"}; !slices.Equal(replies, want) {
		t.Errorf("replies %q, want %q", replies, want)
	}
	if state.Exit != 1 {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
}

// TestAborted: an abort ends the running release and starts no other one. A rollback also rolls back the others.
func TestAborted(t *testing.T) {
	t.Parallel()
	for _, name := range []event.CommandName{event.Abort, event.Rollback} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			b := newLayoutRig(t)
			slow := chart(t, "b")
			stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: slow, Needs: []string{"a"}, Values: map[string]any{"image": "example/no-such-image:1"}}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}}}
			s, err := b.prepare(false, nil, stack...)
			state, _ := b.run(s, err, func(e event.Event) {
				if e.Kind == event.KindGroup && e.Group == "b:app" && e.Status == event.Running {
					s.Command(event.Command{Name: name})
				}
			})
			if state.Exit != 3 || state.Status != event.Aborted {
				t.Errorf("exit %d, %s: %s", state.Exit, state.Status, phrase.Reason(state))
			}
			for g := range state.GroupStates() {
				if want := map[string]event.Status{"b": event.Aborted, "c": event.Skipped}[g.Group.Name]; want != "" && g.Phase == "releases" && (g.Status != want || g.Group.Name == "c" && g.Message != "not started: the run was aborted") {
					t.Errorf("%s is %s: %s", g.ID, g.Status, g.Message)
				}
			}
			want := []string{"a 1 deployed", "b 1 failed", "c none"}
			if name == event.Rollback {
				want = []string{"a none", "b none", "c none"}
				if state.Outcome != "rolled back; 2 releases uninstalled" {
					t.Errorf("the outcome is %q", state.Outcome)
				}
				if g := state.Find("rollback/remove", b.id("a")); g == nil || g.Status != event.Gone {
					t.Errorf("the rollback of a is %+v", g)
				}
			}
			if got := b.history("a", "b", "c"); !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
		})
	}
}

// TestInterruptedRollback: the first interrupt of a rollback changes nothing, the second one stops it (R43).
func TestInterruptedRollback(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 2} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			t.Parallel()
			b := newLayoutRig(t)
			stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}, Values: unpullable(nil)}}
			s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure = true }, stack...)
			state, events := b.run(s, err, func(e event.Event) {
				if e.Kind == event.KindOperation && e.Status == event.Running && e.Operation.Name == "uninstall" && e.Operation.Release == "a" {
					for range times {
						s.Command(event.Command{Name: event.Abort})
					}
				}
			})
			exit, rolledBack := 1, times == 1
			if !rolledBack {
				exit = 3
			}
			if got := b.history("a", "b"); state.Exit != exit || (got[0] == "a none") != rolledBack || got[1] != "b none" {
				t.Errorf("exit %d, history %v; want exit %d, a rolled back: %t; %s", state.Exit, got, exit, rolledBack, phrase.Reason(state))
			}
			if n := slices.IndexFunc(events, func(e event.Event) bool { return e.Code == event.RollbackInProgress }); n < 0 || events[n].Status != event.Refused {
				t.Error("no reply says that a rollback is in progress")
			}
		})
	}
}

// TestRollbackAfterAFailure sends a rollback while one release is running and another one has already failed. Both are
// rolled back (S5, S6).
func TestRollbackAfterAFailure(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b")}}
	b.mustUp(stack[0])
	for i := range stack {
		stack[i].Values = map[string]any{"image": "example/no-such-image:1", "data": "two"}
	}
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.File.Releases[0].Timeout, o.Common.ReadinessTimeout = 20*time.Second, 50*time.Second
	}, stack...)
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Scope == "" && e.Status == event.Failed {
			s.Command(event.Command{Name: event.Rollback})
		}
	})
	if state.Exit != 3 || state.Outcome != "rolled back 2 releases" {
		t.Errorf("exit %d: %s (%s)", state.Exit, phrase.Reason(state), state.Outcome)
	}
	if got, want := b.history("a", "b"), []string{"a 3 deployed", "b none"}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestContexts deploys to two clusters. Releases need releases in the other one (S8).
func TestContexts(t *testing.T) {
	t.Parallel()
	far, err := throwaway.Start(t.Context(), throwaway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
	b := newStackRig(t)
	b.Meddles = "one of the contexts is another cluster"
	stack := []release{
		{Name: "b", Dir: chart(t, "b"), Needs: []string{"far/" + b.Namespace + "/a"}},
		{Name: "a", Dir: chart(t, "a"), Context: "far"},
		{Name: "c", Dir: chart(t, "c"), Context: "far", Needs: []string{b.Namespace + "/b"}},
	}
	b.connect = func(name string) (*kube.Client, error) {
		s := cli.New()
		s.KubeConfig = rig.Sandbox.Kubeconfig
		if name == "far" {
			s.KubeConfig = far.Kubeconfig
		}
		s.SetNamespace(b.Namespace)
		return kube.Connect(s, nil, nil)
	}
	s, err := b.prepare(false, nil, stack...)
	var order []string
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Scope == "" && e.Status == event.Ready {
			order = append(order, e.Group)
		}
	})
	if want := []string{"far/" + b.Namespace + "/a", b.Namespace + "/b", "far/" + b.Namespace + "/c"}; state.Exit != 0 || !slices.Equal(order, want) {
		t.Errorf("exit %d: %s; ready in the order %v, want %v", state.Exit, phrase.Reason(state), order, want)
	}
	if got := b.ConfigMaps(b.Namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the first cluster has %v", got)
	}
}

// TestDownDeletesNamespaces: without needs, down uninstalls the release that contains a namespace after the release in it, so that
// the namespace is deleted. A need the other way round decides: the namespace stays, and a warning says so (S9, R31a).
func TestDownDeletesNamespaces(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{false, true} {
		t.Run(fmt.Sprintf("needed %t", needed), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			b.OtherNamespace = b.Namespace + "-extra" // that of b
			owner := release{Name: "a", Dir: rig.DirOf(t, rig.Object("v1/Namespace/"+b.OtherNamespace, nil))}
			inside := release{Name: "b", Dir: rig.MakeDir(t, rig.Files{
				"templates/all.yaml":  rig.ConfigMap("b", nil),
				"templates/hook.yaml": rig.Job("slow", map[string]string{"helm.sh/hook": "pre-delete"}, "2s"),
			}), Needs: []string{"a"}}
			b.mustUp(owner, inside)
			if inside.Needs = nil; needed {
				owner.Needs = []string{"b"}
			}
			s, err := b.prepare(true, func(o *kube.StackOptions) { o.Common.Timeout, o.Common.ReadinessTimeout = 2*time.Minute, time.Minute }, owner, inside) // the namespace controller is slow
			state, _ := b.run(s, err, nil)
			if state.Exit != 0 {
				t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
			}
			if says := slices.ContainsFunc(state.Warnings, func(e event.Event) bool {
				return e.Rule == "S9" && strings.Contains(e.Message, "kubectl delete namespace "+b.OtherNamespace)
			}); says != needed {
				t.Errorf("a warning says that the namespace stays: %t", says)
			}
			ns, err := b.Cluster.CoreV1().Namespaces().Get(t.Context(), b.OtherNamespace, metav1.GetOptions{})
			if stays := err == nil && ns.DeletionTimestamp == nil; stays != needed {
				t.Errorf("the namespace stays: %t (%v)", stays, err)
			}
		})
	}
}
