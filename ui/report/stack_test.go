package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestStackRunStatus expects in the status of a stack the group of a release that a step starts next, and the
// release whose failure is held (S6).
func TestStackRunStatus(t *testing.T) {
	groups := func(kind string, ids ...string) (out []*plan.Group) {
		for _, id := range ids {
			out = append(out, &plan.Group{ID: id, After: []string{}, Objects: []plan.Object{{Kind: kind, Name: id}}})
		}
		return out
	}
	var s event.State
	object := plan.Object{Kind: "Release", Name: "n/a"}
	for _, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: groups("Release", "n/a", "n/b")}}},
		{Kind: event.KindPlan, Scope: "n/a", Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups("Job", "a:one", "a:two")}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/a", Status: event.Running},
		{Kind: event.KindOperation, Scope: "n/a", Status: event.Running, Operation: &event.Operation{Name: "install", Release: "a"}},
		{Kind: event.KindRun, Scope: "n/a", Status: event.Paused},
		{Kind: event.KindRun, Status: event.Paused},
		{Kind: event.KindGroup, Scope: "n/a", Phase: "apply", Group: "a:one", Status: event.Ready},
		{Kind: event.KindObject, Phase: "releases", Group: "n/a", Object: &object, Status: event.Applying, Message: "1 of 2 groups done"},
	} {
		e.Time = time.Unix(1, 0)
		s.Apply(e)
	}
	expect := func(want ...string) {
		t.Helper()
		got := NewRunStatus(&s).text(Stream{Style: plain})
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q is missing:\n%s", w, got)
			}
		}
	}
	expect("up stack paused; next: n/a, group a:two; 0 of 2 releases ready", "‖ paused: 1 of 2 groups done")
	s.Apply(event.Event{Kind: event.KindGroup, Scope: "n/a", Phase: "apply", Group: "a:two", Status: event.Running})
	expect("up stack paused; a:two in progress; next: n/b; 0 of 2 releases ready")
	s.Apply(event.Event{Kind: event.KindRun, Scope: "n/a", Status: event.Held, Message: "a:two: Job/a:two: exit code 3"})
	s.Apply(event.Event{Kind: event.KindObject, Phase: "releases", Group: "n/a", Object: &object, Status: event.Applying, Message: "a:two failed; 1 of 2 groups done"})
	expect("up stack held: n/a: a:two: Job/a:two: exit code 3; 0 of 2 releases ready", "✗ held: a:two failed; 1 of 2 groups done")
}

// TestLogSaysThingsOnce: the log of a stack names a point of no return once, the object of a hook once in a line, the cause of
// a failure only where the hook fails and at the end, and the end of a failed release in one line.
func TestLogSaysThingsOnce(t *testing.T) {
	const reason, cause = "schema 37 cannot be read by 36", "container smoke exited with code 1"
	releases := []*plan.Group{{ID: "n/a", Objects: []plan.Object{{Kind: "Release", Name: "a"}}}}
	smoke, exit := plan.Object{Kind: "Pod", Name: "smoke"}, 1
	hooks := []event.Phase{{Name: "test", Kind: event.PhaseHooks, Groups: []*plan.Group{{ID: "test:Pod/smoke", Name: "Pod/smoke", Objects: []plan.Object{smoke}}}}}
	var out bytes.Buffer
	Replay([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: releases}}},
		{Kind: event.KindPlan, Scope: "n/a", Phases: hooks},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/a", Status: event.Running},
		{Kind: event.KindOperation, Scope: "n/a", Status: event.Running, Operation: &event.Operation{Name: "install", Release: "a"}},
		{Kind: event.KindNoReturn, Scope: "n/a", Phase: "test", Group: "a:migrate", Message: reason},
		{Kind: event.KindNoReturn, Message: reason},
		{Kind: event.KindNoReturn, Scope: "n/b", Message: reason},
		{Kind: event.KindGroup, Scope: "n/a", Phase: "test", Group: "test:Pod/smoke", Status: event.Running},
		{Kind: event.KindObject, Scope: "n/a", Phase: "test", Group: "test:Pod/smoke", Object: &smoke, Status: event.Failed, Cause: cause},
		{Kind: event.KindGroup, Scope: "n/a", Phase: "test", Group: "test:Pod/smoke", Object: &smoke, Status: event.Failed, Cause: cause},
		{Kind: event.KindOperation, Scope: "n/a", Status: event.Failed, Exit: &exit, Outcome: "release marked failed"},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/a", Object: &releases[0].Objects[0], Status: event.Failed, Cause: "test:Pod/smoke: " + cause},
		{Kind: event.KindOperation, Status: event.Failed},
	}, newTextLog(&out, &out, Options{Style: plain}))
	log := out.String()
	if n := strings.Count(log, reason); n != 1 {
		t.Errorf("the point of no return is named %d times", n)
	}
	if n := strings.Count(log, cause); n != 2 || strings.Contains(log, "Pod/smoke: Pod/smoke") || !strings.HasSuffix(log, "n/a: test:Pod/smoke: "+cause+"\n") {
		t.Errorf("the cause is %d times in\n%s", n, log)
	}
	if !strings.Contains(log, "✗ n/a failed after 0.0s: release marked failed\n") || strings.Contains(log, "install failed") {
		t.Errorf("the release does not end in one line:\n%s", log)
	}
}

// TestSummaryOfARollback: the line that counts what a failed stack rolled back is no success.
func TestSummaryOfARollback(t *testing.T) {
	release, exit := plan.Object{Kind: "Release", Name: "a"}, 1
	groups := []*plan.Group{{ID: "n/a", Objects: []plan.Object{release}}}
	var s event.State
	for _, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: groups}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/a", Status: event.Ready},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: event.RollbackPrefix + "releases", Kind: event.PhaseApply, Groups: groups}}},
		{Kind: event.KindObject, Phase: event.RollbackPrefix + "releases", Group: "n/a", Object: &release, Status: event.Ready, Change: event.Configured, Message: "rolled back to revision 1"},
		{Kind: event.KindGroup, Phase: event.RollbackPrefix + "releases", Group: "n/a", Status: event.Ready},
		{Kind: event.KindOperation, Status: event.Failed, Exit: &exit, Message: "rolled back 1 release"},
	} {
		e.Time = time.Unix(1, 0)
		s.Apply(e)
	}
	var out bytes.Buffer
	Summary(&out, &s, Options{Style: plain})
	if !strings.Contains(out.String(), "↩ releases: 1 rolled back") {
		t.Errorf("%s", out.String())
	}
}

// TestStackFailureNamesNamespace expects a failed release with its namespace, once.
func TestStackFailureNamesNamespace(t *testing.T) {
	var s event.State
	release, exit := plan.Object{Kind: "Release", Name: "b"}, 1
	for n, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "n/b", Objects: []plan.Object{release}}}}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/b", Status: event.Running},
		{Kind: event.KindObject, Phase: "releases", Group: "n/b", Object: &release, Status: event.Failed, Cause: "c:mig: Job/mig: exited with code 3"},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/b", Status: event.Failed, Object: &release, Cause: "c:mig: Job/mig: exited with code 3"},
		{Kind: event.KindOperation, Status: event.Failed, Exit: &exit},
	} {
		e.Time = time.Unix(int64(n), 0)
		s.Apply(e)
	}
	var out bytes.Buffer
	Summary(&out, &s, Options{Style: plain})
	if want := "\n✗ n/b: c:mig: Job/mig: exited with code 3\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the last line is not %q:\n%s", want, out.String())
	}
}

// TestAbortedReleaseOfStack expects the failure of an aborted release, or no reason, but not the status again.
func TestAbortedReleaseOfStack(t *testing.T) {
	var s event.State
	job, exit := plan.Object{Kind: "Job", Name: "mig"}, 3
	group := func(id string) *plan.Group {
		return &plan.Group{ID: id, Objects: []plan.Object{{Kind: "Release", Name: id}}}
	}
	for n, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{group("n/a"), group("n/b")}}}},
		{Kind: event.KindPlan, Scope: "n/b", Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:mig", Objects: []plan.Object{job}}}}}},
		{Kind: event.KindObject, Scope: "n/b", Phase: "apply", Group: "c:mig", Object: &job, Status: event.Failed, Cause: "exited with code 3"},
		{Kind: event.KindGroup, Scope: "n/b", Phase: "apply", Group: "c:mig", Status: event.Failed, Object: &job, Cause: "exited with code 3"},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/a", Status: event.Aborted, Skip: &event.Skip{By: event.SkippedByAbort}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/b", Status: event.Aborted, Skip: &event.Skip{By: event.SkippedByAbort}},
		{Kind: event.KindOperation, Status: event.Aborted, Exit: &exit},
	} {
		e.Time = time.Unix(int64(n), 0)
		s.Apply(e)
	}
	var out bytes.Buffer
	Summary(&out, &s, Options{Style: plain})
	if want := "✗ aborted  n/a\n  ✗ aborted  n/b  c:mig: Job/mig: exited with code 3\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing:\n%s", want, out.String())
	}
}

// TestLogOfAHeldStack: a stack is only paused while one of its releases is held, but the log says what to decide.
func TestLogOfAHeldStack(t *testing.T) {
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "s"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "n/b"}}}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/b", Status: event.Running},
		{Scope: "n/b", Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "b", Namespace: "n"}},
		{Scope: "n/b", Kind: event.KindRun, Status: event.Held, Message: "c:a: Pod/x: it is broken"},
		{Kind: event.KindRun, Status: event.Paused},
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain, Steer: "lockstep ctl s"}))
	for _, want := range []string{" held on failure: n/b\n", " control it with: lockstep ctl s retry|accept|give-up|abort\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestLogOfAStackThatWaitsForAnApproval (R42a): the log names the commands that are not refused while a release waits for an approval.
func TestLogOfAStackThatWaitsForAnApproval(t *testing.T) {
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "s"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "releases", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "n/b"}}}}},
		{Kind: event.KindGroup, Phase: "releases", Group: "n/b", Status: event.Running},
		{Scope: "n/b", Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "b", Namespace: "n"}},
		{Scope: "n/b", Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:a"}}}}},
		{Scope: "n/b", Kind: event.KindGroup, Phase: "apply", Group: "c:a", Status: event.AtBreakpoint, Code: event.Unapproved},
		{Scope: "n/b", Kind: event.KindRun, Status: event.Paused, Code: event.Unapproved},
		{Kind: event.KindRun, Status: event.Paused},
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain, Steer: "lockstep ctl s"}))
	if want := " control it with: lockstep ctl s approve|abort\n"; !strings.Contains(out.String(), want) || strings.Contains(out.String(), "step|resume") {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// TestInstalledAgain: a release that no revision had deployed is installed by a later one, whose number is said.
func TestInstalledAgain(t *testing.T) {
	for message, want := range map[string]string{"revision 1": "", "revision 2": "revision 2"} {
		g := &event.GroupState{Objects: []*event.ObjectState{{Change: event.Created, Message: message}}}
		if verb, detail := releaseOutcome(g); verb != "installed" || detail != want {
			t.Errorf("%s: %s (%s)", message, verb, detail)
		}
	}
}
