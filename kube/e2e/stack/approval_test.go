package stack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmfile"
	kuberelease "lockstep/kube/release"
)

// TestApprovalsOfReleases (R42a, S6): a release whose entry in the file asks for an approval, and a group of another release,
// pause the whole stack. Nothing of them is written before, by the audit log. Unchanged releases ask for nothing.
func TestApprovalsOfReleases(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	group := release{Name: "c", Needs: []string{"b"}, Dir: rig.DirOf(t, rig.ConfigMap("c", map[string]string{"lockstep/approve": "switches over"}))}
	releases := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}, Approve: "a new database"}, group}
	s, err := b.prepare(false, nil, releases...)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	written := map[string][]string{"b": {"a"}, "c": {"a", "b"}} // before the approval of b and c
	asked := []string{}
	resume := func(scope string) {
		if got := b.firstWrites(start, "create", "patch"); !slices.Equal(got, written[scope]) {
			t.Errorf("before the approval of %s: %v", scope, got)
		}
		asked = append(asked, scope)
		s.Command(event.Command{Name: event.Resume, ID: "refused"})
		s.Command(event.Command{Name: event.Approve, By: "ann"})
	}
	state, all := b.run(s, nil, func(e event.Event) {
		switch {
		case e.Kind != event.KindGroup || e.Code != event.Unapproved:
		case e.Scope == "":
			resume("b")
		default:
			resume("c")
		}
	})
	refused := 0
	for _, e := range all {
		if e.Kind == event.KindCommand && e.Answers == "refused" && e.Status == event.Refused {
			refused++
		}
	}
	if state.Exit != 0 || !slices.Equal(asked, []string{"b", "c"}) || refused != 2 {
		t.Errorf("exit %d, asked %v, %d of 2 attempts to resume refused", state.Exit, asked, refused)
	}
	if got := state.Scopes[b.id("c")].Approvals; len(got) != 1 || got[0].By != "ann" || got[0].Reason != "switches over" {
		t.Errorf("approvals of c: %+v", got)
	}
	b.mustUp(releases...) // nothing changes, so nobody is asked
}

// TestApprovedBeforehand (R42a, S6): a release, and a group of it, are approved in the cluster before the run starts: neither
// approval is lost, and the record of the release has both.
func TestApprovedBeforehand(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	s, err := b.prepare(false, nil, release{Name: "a", Dir: chart(t, "a")},
		release{Name: "b", Needs: []string{"a"}, Approve: "a new database", Dir: rig.DirOf(t, rig.ConfigMap("b", map[string]string{"lockstep/approve": "switches over"}))})
	if err != nil {
		t.Fatal(err)
	}
	end, err := s.ProveApprovals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	at, asks, err := b.Client.FindApprovals(t.Context(), b.Namespace, "b")
	if err == nil {
		_, err = b.Client.Approve(t.Context(), *at, asks)
	}
	if err != nil || len(asks) != 2 {
		t.Fatalf("asks for %v, %v", asks, err)
	}
	time.Sleep(time.Second) // so that the watch usually tells the stack before it starts
	defer time.AfterFunc(30*time.Second, func() { s.Command(event.Command{Name: event.Abort}) }).Stop()
	state, _ := b.run(s, nil, nil)
	last, err := b.Helm().Releases.Last("b")
	if err != nil || state.Exit != 0 {
		t.Fatalf("exit %d, %v", state.Exit, err)
	}
	var reasons []string
	for _, a := range kuberelease.CourseOf(last.(*rel1.Release)).Approvals {
		reasons = append(reasons, a.Reason)
	}
	if !slices.Equal(reasons, []string{"a new database", "switches over"}) {
		t.Errorf("the record has the approvals %q", reasons)
	}
}

// TestAGroupIsApprovedBeforeItsReleaseRuns (R42a): a command approves a group of a release that waits for another one.
func TestAGroupIsApprovedBeforeItsReleaseRuns(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.Step = true }, release{Name: "a", Dir: chart(t, "a")},
		release{Name: "b", Needs: []string{"a"}, Dir: rig.DirOf(t, rig.ConfigMap("b", map[string]string{"lockstep/approve": "switches over"}))})
	if err != nil {
		t.Fatal(err)
	}
	group := s.Releases()[1].Operation.Approvals()[0].Of
	replies, asked := map[string]event.Status{}, false
	state, _ := b.run(s, nil, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Code == event.Unapproved:
			asked = true
			s.Command(event.Command{Name: event.Approve})
		case e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "":
			for id, group := range map[string]string{"unknown": "a/config", "given": "b/" + group} {
				s.Command(event.Command{Name: event.Approve, Group: group, ID: id, By: "ann"})
			}
			s.Command(event.Command{Name: event.Approve, Group: "b/" + group, ID: "again", By: "ann"})
			s.Command(event.Command{Name: event.Resume})
		case e.Kind == event.KindCommand && e.Answers != event.InternalID && e.Answers != "":
			replies[e.Answers] = e.Status
		}
	})
	given := state.Scopes[b.id("b")].Approvals
	if state.Exit != 0 || asked || replies["given"] != event.Accepted || replies["again"] != event.Refused || replies["unknown"] != event.Refused || len(given) != 1 || given[0].By != "ann" {
		t.Errorf("exit %d, asked %t, replies %v, approvals %+v", state.Exit, asked, replies, given)
	}
}

// TestTheNextPodAsksForAReleaseAgain (R42a, S13): the pod of a Job was replaced after a release was approved. The next one starts the
// release, unless somebody has changed since what it is about to overwrite.
func TestTheNextPodAsksForAReleaseAgain(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		b := newStackRig(t)
		releases := func(v string) []release {
			return []release{{Name: "a", Approve: "a new database", Dir: rig.DirOf(t, rig.ConfigMap("a", nil, "v: "+v))}}
		}
		s, err := b.prepare(false, nil, releases("one")...)
		b.run(s, err, func(e event.Event) {
			if e.Code == event.Unapproved && e.Kind == event.KindGroup {
				s.Command(event.Command{Name: event.Approve})
			}
		})
		store := &memory{}
		pod := func(watch func(*kube.Stack, event.Event)) *event.State {
			j := rig.OpenJournal(t, store)
			s, err := b.prepare(false, func(o *kube.StackOptions) {
				load := o.Load
				o.Load = func(ctx context.Context, r helmfile.Release) (kube.ChartOptions, error) {
					c, err := load(ctx, r)
					c.ForceConflicts = true
					return c, err
				}
				o.Journal, o.Common.Job, o.Common.Step = j, b.Namespace+"/job", true
			}, releases("two")...)
			state, _ := b.run(s, err, func(e event.Event) { watch(s, e) })
			return state
		}
		var kept []byte
		pod(func(s *kube.Stack, e event.Event) {
			switch {
			case e.Kind == event.KindRun && e.Status == event.Paused:
				s.Command(event.Command{Name: event.Approve, Group: "a", By: "ann"})
			case e.Kind == event.KindApproval:
				kept = store.data // the pod is killed here
				s.Command(event.Command{Name: event.Abort})
			}
		})
		store.data = kept
		if changed {
			b.PatchConfigMap("a", `{"data":{"v":"hotfix"}}`)
		}
		asked := false
		state := pod(func(s *kube.Stack, e event.Event) {
			switch {
			case e.Kind == event.KindRun && e.Code == event.Unapproved:
				asked = true
				s.Command(event.Command{Name: event.Approve, By: "bob"})
			case e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "":
				s.Command(event.Command{Name: event.Resume})
			}
		})
		if state.Exit != 0 || asked != changed || len(state.Approvals) != 1 || b.ConfigMapData("a")["v"] != "two" {
			t.Errorf("changed %t: asked %t, exit %d, approvals %+v", changed, asked, state.Exit, state.Approvals)
		}
	}
}

// TestRollbackOfAStackAsksNobody (R42a, S5): a release that asks for approvals is rolled back, with the groups of its earlier
// revision that ask for them, after another release has failed.
func TestRollbackOfAStackAsksNobody(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	asks := func(v string) release {
		doc := rig.ConfigMap("a", map[string]string{"lockstep/approve": "switches over"}, "v: "+v)
		return release{Name: "a", Approve: "a new database", Dir: rig.DirOf(t, doc)}
	}
	failing := func(fails string) release {
		doc := rig.Job("migrate-"+fails, nil, `10ms, sandbox/exit-code: "`+fails+`"`, "  backoffLimit: 0")
		return release{Name: "b", Needs: []string{"a"}, Dir: rig.DirOf(t, doc)}
	}
	up := func(releases ...release) (asked int, state *event.State) {
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure, o.Common.WaitForJobs = true, kube.AllJobs }, releases...)
		state, _ = b.run(s, err, func(e event.Event) {
			if e.Kind == event.KindGroup && e.Code == event.Unapproved {
				asked++
				s.Command(event.Command{Name: event.Approve})
			}
		})
		return asked, state
	}
	if asked, state := up(asks("one"), failing("0")); state.Exit != 0 || asked != 2 {
		t.Fatalf("install: exit %d, asked %d times", state.Exit, asked)
	}
	if asked, state := up(asks("two"), failing("1")); state.Exit == 0 || asked != 2 || b.ConfigMapData("a")["v"] != "one" {
		t.Errorf("upgrade: exit %d, asked %d times, a has %v", state.Exit, asked, b.ConfigMapData("a"))
	}
}

// TestAStackAsksBeforeAReplacement: with --replace=ask the whole stack pauses before the group whose object has to be replaced
// (R30b, S6). A --replace that names no object of any release is a warning.
func TestAStackAsksBeforeAReplacement(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	with := func(v string) []release {
		doc := rig.ConfigMap("fixed", nil, "v: "+v) + "\nimmutable: true\n"
		return []release{{Name: "a", Dir: rig.DirOf(t, doc)}}
	}
	b.mustUp(with("one")...)
	asked := 0
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.ReplaceObjects = []string{"ask"} }, with("two")...)
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindRun && e.Scope == "" && e.Status == event.Paused {
			asked++
			if want := b.id("a") + ": before ConfigMap/fixed is replaced"; e.Message != want {
				t.Errorf("paused: %q, want %q", e.Message, want)
			}
			if d := b.ConfigMapData("fixed"); d["v"] != "one" {
				t.Errorf("replaced before the answer: %v", d)
			}
			s.Command(event.Command{Name: event.Resume})
		}
	})
	if d := b.ConfigMapData("fixed"); state.Exit != 0 || asked != 1 || d["v"] != "two" {
		t.Errorf("exit %d, asked %d times, data %v", state.Exit, asked, d)
	}
	s, err = b.prepare(false, func(o *kube.StackOptions) { o.Common.ReplaceObjects = []string{"ConfigMap/fixed", "Job/other"} }, with("two")...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if w := s.OwnWarnings(); len(w) != 1 || !strings.Contains(w[0].Message, "--replace Job/other names no object") {
		t.Errorf("warnings: %v", w)
	}
}
