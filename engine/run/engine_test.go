package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

const sec = time.Second

func TestGroupsStartWhenTheirDependenciesAreReady(t *testing.T) { // R14
	fake := newFake(map[string]behaviour{"x": {ready: 1 * sec}, "y": {ready: 5 * sec}, "z": {ready: sec}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b: y", "c < a: z", "d < b c: w")}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace,
		"0.0s c:a running", "0.0s c:b running",
		"1.0s c:a ready", "1.0s c:c running",
		"2.0s c:c ready",
		"5.0s c:b ready", "5.0s c:d running", "5.0s c:d ready")
}

func TestGroupsThatAreNotAwaited(t *testing.T) { // R21
	fake := newFake(map[string]behaviour{"x": {ready: sec}, "y": {ready: 3 * sec}, "z": {ready: 9 * sec}})
	s := Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y")}, Await: func(g *plan.Group) bool { return g.Name == "a" }}
	trace, err := run(t, Options{}, s, fake, func(b *rig) { b.at(5 * sec) })
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "1.0s c:a ready", "1.0s c:b running", "1.0s c:b applied", "4.0s c:b ready")
}

func TestWavesFollowEachOther(t *testing.T) { // R15
	fake := newFake(map[string]behaviour{"x": {request: sec}, "y": {request: 2 * sec}, "z": {request: sec}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x y, z")}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "3.0s c:a ready")
}

func TestAWaveWaitsForEstablishedCRDs(t *testing.T) { // R17
	groups := groupsOf("a: crd, cr")
	groups[0].Waves[1].Established = []plan.Object{groups[0].Objects[0]}
	fake := newFake(map[string]behaviour{"crd": {ready: 2 * sec}, "cr": {ready: sec}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groups}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "3.0s c:a ready")
}

func TestAStaleStatusDoesNotCount(t *testing.T) { // R22
	fake := newFake(map[string]behaviour{"x": {stale: true, ready: 2 * sec}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "2.0s c:a ready")
}

func TestMaxRequests(t *testing.T) {
	fake := newFake(map[string]behaviour{"o1": {request: sec}, "o2": {request: sec}, "o3": {request: sec}, "o4": {request: sec}, "o5": {request: sec}})
	trace, err := run(t, Options{MaxRequests: 2}, Stage{Phase: event.Phase{Groups: groupsOf("a: o1 o2 o3", "b: o4 o5")}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fake.most != 2 {
		t.Errorf("%d requests at once, want 2", fake.most)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:b running", "2.0s c:a ready", "3.0s c:b ready")
}

func TestReadinessTimeoutIsPerObject(t *testing.T) { // R25
	fake := newFake(map[string]behaviour{"x": {never: true}, "y": {}})
	opts := Options{Diagnose: func(context.Context, plan.Object) Finding {
		return Finding{Cause: "image cannot be pulled", Details: event.Details{Notes: []string{"event"}}}
	}}
	trace, err := run(t, opts, Stage{ObjectTimeout: 10 * sec, Phase: event.Phase{Groups: groupsOf("a: x", "b: y", "c < a: z")}}, fake, nil)
	want(t, trace,
		"0.0s c:a running", "0.0s c:b running", "0.0s c:b ready",
		"5.0s diagnosis c:a Pod/x (image cannot be pulled)",
		"10.0s c:a failed (Pod/x: image cannot be pulled; gave up after 10s (--readiness-timeout))",
		"10.0s diagnosis c:a Pod/x (image cannot be pulled)",
		"10.0s c:c skipped (not started: c:a failed)")
	for _, part := range []string{"c:a: Pod/x:", "gave up after 10s", "image cannot be pulled", "never started: c:c"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

// TestDeclaredFailuresKeepTheirExpression: the readiness expression that declared a failure is the cause, or else the first
// evidence for it, even if the diagnosis no longer sees that state (R23).
func TestDeclaredFailuresKeepTheirExpression(t *testing.T) {
	const holds = "matches readiness-failure {.phase} == Broken"
	for _, tt := range []struct {
		found    Finding
		cause    string
		evidence []string
	}{
		{Finding{}, holds, nil},
		{Finding{Cause: "phase is Trying", Symptom: true}, holds, nil},
		{Finding{Cause: "image cannot be pulled", Evidence: []string{"not found"}}, "image cannot be pulled", []string{holds, "not found"}},
		{Finding{Cause: "no disk", Evidence: []string{holds}, Declared: true}, "no disk", []string{holds}},
	} {
		fake := newFake(map[string]behaviour{"x": {failed: holds, ready: sec, declared: true}})
		var evidence []string
		trace, _ := run(t, Options{Diagnose: func(context.Context, plan.Object) Finding { return tt.found }}, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
			b.at(2 * sec)
			for _, e := range b.feed.Events() {
				if e.Kind == event.KindDiagnosis {
					evidence = e.Evidence
				}
			}
		})
		want(t, trace, "0.0s c:a running", "1.0s c:a failed (Pod/x: "+tt.cause+")", "1.0s diagnosis c:a Pod/x ("+tt.cause+")")
		if !slices.Equal(evidence, tt.evidence) {
			t.Errorf("evidence %q, want %q", evidence, tt.evidence)
		}
	}
}

func TestObjectsThatAreNotReadyAreDiagnosed(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: 40 * sec}, "y": {ready: 3 * sec}})
	start := time.Now()
	opts := Options{Diagnose: func(_ context.Context, o plan.Object) Finding {
		if start.IsZero() || time.Since(start) < 20*sec {
			return Finding{Cause: "no node has room"}
		}
		return Finding{Cause: "image cannot be pulled"}
	}}
	trace, err := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b: y")}}, fake, func(b *rig) {
		start = time.Now()
		b.e.Command(event.Command{Name: event.Pause}) // diagnoses continue during a pause
	})
	if err != nil {
		t.Fatal(err)
	}
	var reported []string
	for _, line := range trace {
		if strings.Contains(line, "diagnosis") {
			reported = append(reported, line)
		}
	}
	want(t, reported, "5.0s diagnosis c:a Pod/x (no node has room)", "25.0s diagnosis c:a Pod/x (image cannot be pulled)")
}

func TestTimeoutEndsTheOperation(t *testing.T) { // R25
	fake := newFake(map[string]behaviour{"x": {never: true}})
	opts := Options{Operation: event.Operation{Timeout: 30 * sec}}
	trace, err := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y")}}, fake, nil)
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v, want a timeout", err)
	}
	want(t, trace, "0.0s c:a running",
		"30.0s c:a failed (Pod/x: 0 of 1 available; gave up after 30s (--timeout))",
		"30.0s c:b skipped (not started: c:a failed)")
}

// TestTimeoutHoldsARunThatHolds: a person who watches decides about this failure as about any other, and the run then has
// its timeout once more (R25, R44).
func TestTimeoutHoldsARunThatHolds(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {never: true}})
	opts := Options{Operation: event.Operation{Timeout: 30 * sec}, HoldOnFailure: true}
	var limits []time.Duration
	trace, err := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y")}}, fake, func(b *rig) {
		b.at(100 * sec)
		b.command(event.Retry, "")
		b.at(200 * sec)
		for _, e := range b.feed.Events() {
			if e.Kind == event.KindRun && e.Operation != nil {
				limits = append(limits, e.Operation.Timeout)
			}
		}
		b.command(event.GiveUp, "")
	})
	want(t, trace, "0.0s c:a running",
		"30.0s c:a failed (Pod/x: 0 of 1 available; gave up after 30s (--timeout))", "30.0s run held (c:a: Pod/x: 0 of 1 available; gave up after 30s (--timeout))",
		"100.0s run running", "100.0s c:a running", "100.0s retry accepted",
		"130.0s c:a failed (Pod/x: 0 of 1 available; gave up after 1m (--timeout))", "130.0s run held (c:a: Pod/x: 0 of 1 available; gave up after 1m (--timeout))",
		"200.0s run running", "200.0s give-up accepted", "200.0s c:b skipped (not started: c:a failed)")
	if errors.Is(err, ErrTimeout) || err == nil || !slices.Equal(limits, []time.Duration{60 * sec, 60 * sec, 90 * sec}) {
		t.Errorf("error %v, timeouts %v", err, limits)
	}
}

// TestTimeoutNamesTheCause: if the time of the operation ends, the group whose cause is known is the reason and holds the run, not
// one that could not even apply its objects in that time.
func TestTimeoutNamesTheCause(t *testing.T) {
	fake := newFake(map[string]behaviour{"broken": {never: true}, "slow": {never: true}, "late": {hang: true}})
	diagnose := func(_ context.Context, o plan.Object) Finding {
		if o.Name == "broken" {
			return Finding{Cause: "image cannot be pulled", Degraded: true}
		}
		return Finding{}
	}
	const broken = "Pod/broken: image cannot be pulled; gave up after 30s (--timeout)"
	for _, hold := range []bool{false, true} {
		opts := Options{Operation: event.Operation{Timeout: 30 * sec}, Diagnose: diagnose, HoldOnFailure: hold}
		var held string
		trace, _ := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: late", "b: slow", "c: broken", "d < c: y")}}, fake, func(b *rig) {
			b.at(40 * sec)
			for _, e := range b.feed.Events() {
				if e.Kind == event.KindRun && e.Status == event.Held {
					held = e.Message
				}
			}
			if hold {
				b.command(event.GiveUp, "")
			}
		})
		want := "c:d skipped (not started: c:c failed)"
		if !slices.ContainsFunc(trace, func(l string) bool { return strings.HasSuffix(l, want) }) || held != map[bool]string{true: "c:c: " + broken}[hold] {
			t.Errorf("hold %t: held by %q, %q", hold, held, trace)
		}
		first := slices.IndexFunc(trace, func(l string) bool { return strings.Contains(l, " failed (") })
		if first < 0 || !strings.Contains(trace[first], "c:c failed ("+broken) {
			t.Errorf("hold %t: the first failure is not the known cause: %q", hold, trace)
		}
	}
}

func TestTimeoutsIgnorePausedTime(t *testing.T) { // R25
	fake := newFake(map[string]behaviour{"x": {never: true}})
	opts := Options{Operation: event.Operation{Timeout: 60 * sec}}
	trace, _ := run(t, opts, Stage{ObjectTimeout: 10 * sec, Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
		b.at(4 * sec)
		b.command(event.Pause, "")
		b.at(104 * sec)
		b.command(event.Resume, "")
	})
	want(t, trace, "0.0s c:a running",
		"4.0s run paused", "4.0s pause accepted", "104.0s run running", "104.0s resume accepted",
		"110.0s c:a failed (Pod/x: 0 of 1 available; gave up after 10s (--readiness-timeout))")
}

func TestRunningGroupsFinishAfterAFailure(t *testing.T) { // R26
	fake := newFake(map[string]behaviour{"x": {failed: "exit code 2", ready: sec}, "y": {ready: 5 * sec}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b: y", "c < a: z", "d < b: w")}}, fake, nil)
	want(t, trace,
		"0.0s c:a running", "0.0s c:b running",
		"1.0s c:a failed (Pod/x: exit code 2)",
		"5.0s c:b ready",
		"5.0s c:c skipped (not started: c:a failed)",
		"5.0s c:d skipped (not started: the operation failed)")
	var stage *StageError
	if !errors.As(err, &stage) || len(stage.Skipped) != 2 || stage.Failures[0].Object.Name != "x" {
		t.Errorf("error %#v", err)
	}
}

func TestARefusedApplyFailsTheGroup(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {err: errDenied}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x, y")}}, fake, nil)
	want(t, trace, "0.0s c:a running", "0.0s c:a failed (Pod/x: "+errDenied.Error()+")")
	if err == nil || fake.calls["y"] != 0 {
		t.Errorf("error %v, later wave sent %d times", err, fake.calls["y"])
	}
}

func TestHeartbeatNamesTheObjectThatWaitsLongest(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: 30 * sec}, "y": {ready: 15 * sec, request: sec}})
	trace, err := run(t, Options{Heartbeat: 10 * sec}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b: y")}}, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:b running",
		"10.0s waiting c:a Pod/x (applied; 10s so far; 1 more object is not ready)",
		"16.0s c:b ready",
		"26.0s waiting c:a Pod/x (applied; 26s so far)",
		"30.0s c:a ready")
}

// TestHeartbeatOfABlockedObject: the heartbeat says the cause once, and how long the run has waited in all, although the
// request was sent again in the meantime.
func TestHeartbeatOfABlockedObject(t *testing.T) {
	const cause = "being deleted: waiting for finalizer example.com/held"
	fake := newFake(map[string]behaviour{"x": {blocked: 4 * sec, blocks: 10}})
	opts := Options{Heartbeat: 10 * sec, Operation: event.Operation{Timeout: 30 * sec}, Diagnose: func(context.Context, plan.Object) Finding { return Finding{Cause: cause} }}
	trace, _ := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, nil)
	if got := strings.Join(trace, "\n"); !strings.Contains(got, "10.0s waiting c:a Pod/x ("+cause+"; 10s so far)") {
		t.Error(got)
	}
}

func TestRemovalWaitsUntilGone(t *testing.T) { // R31
	fake := newFake(map[string]behaviour{"x": {gone: 3 * sec}, "y": {outcome: event.Kept}, "z": {outcome: event.Absent}})
	s := Stage{Phase: event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: groupsOf("a: x", "b: y z", "c < a b: w")}}
	trace, err := run(t, Options{}, s, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:b running", "0.0s c:b gone", "3.0s c:a gone", "3.0s c:c running", "3.0s c:c gone")
}

func TestRemovalWithoutAwait(t *testing.T) { // R27
	fake := newFake(map[string]behaviour{"x": {gone: 3 * sec}, "y": {outcome: event.Kept, request: sec}, "z": {outcome: event.Absent}})
	s := Stage{Phase: event.Phase{Name: "remove", Kind: event.PhaseRemove, Groups: groupsOf("a: x", "b: y z")}, Await: func(*plan.Group) bool { return false }}
	trace, err := run(t, Options{}, s, fake, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:b running", "0.0s c:a applied", "1.0s c:b applied", "1.0s c:b gone")
}

func TestAdmitDelaysWorkOutsideAStage(t *testing.T) { // R40, R41
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		b := &rig{t: t, feed: feed, from: time.Now()}
		b.e = New(Options{Feed: feed, Paused: true})
		hook := groupsOf("hook: x")[0]
		phase := event.Phase{Name: "pre-install", Kind: event.PhaseHooks, Groups: []*plan.Group{hook}}
		b.e.Announce(phase)
		admitted := make(chan error, 1)
		go func() { admitted <- b.e.Admit("pre-install", hook) }()
		b.at(sec)
		b.command(event.Step, "")
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		b.at(2 * sec)
		r := b.e.Start(Stage{Phase: phase, Cluster: newFake(map[string]behaviour{"x": {request: sec, ready: 2 * sec}})})
		if err := r.WaitApplied(); err != nil || time.Since(b.from) != 3*sec {
			t.Errorf("applied after %s: %v", time.Since(b.from), err)
		}
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
		b.e.Finish(End{Status: event.Succeeded})
		want(t, b.trace(), "0.0s run paused (before the first group)",
			"1.0s step accepted", "1.0s c:hook running", "5.0s c:hook ready")
		synctest.Wait()
	})
}

// TestUnitWithoutStage: if a unit was admitted but its stage never starts, it is reported as skipped.
func TestUnitWithoutStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		e := New(Options{Feed: feed})
		group := groupsOf("a: x")[0]
		e.Announce(event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{group}})
		if err := e.Admit("apply", group); err != nil {
			t.Fatal(err)
		}
		e.Finish(End{Status: event.Failed})
		synctest.Wait()
		var last event.Event
		for _, ev := range feed.Events() {
			if ev.Kind == event.KindGroup {
				last = ev
			}
		}
		if last.Status != event.Skipped || last.Message != "no request was sent: the operation failed" {
			t.Errorf("%s: %s", last.Status, last.Message)
		}
	})
}

func TestRollbackHasItsOwnClockAndAbort(t *testing.T) { // R33, R43
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		b := &rig{t: t, feed: feed, from: time.Now()}
		b.e = New(Options{Feed: feed, HoldOnFailure: true, Operation: event.Operation{Timeout: 10 * sec}, Breakpoints: []string{"c:a"}})
		apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}
		b.e.Announce(apply)
		b.e.Command(event.Command{Name: event.Rollback, Via: "lockstep ctl", By: "ann"})
		err := b.e.Run(Stage{Phase: apply, Cluster: newFake(nil)})
		if c := b.e.EndingCommand(); !errors.Is(err, ErrAborted) || !strings.HasPrefix(err.Error(), "aborted by lockstep ctl (ann); ") || c == nil || c.Name != event.Rollback {
			t.Fatalf("error %v, ended by %+v", err, c)
		}
		b.at(20 * sec)
		b.e.StartRollback(event.Operation{Name: "uninstall", Timeout: 10 * sec}, "aborted")
		fake := newFake(map[string]behaviour{"x": {gone: 5 * sec}})
		err = b.e.Run(Stage{Phase: event.Phase{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: groupsOf("a: x")}, Cluster: fake})
		if err != nil {
			t.Error(err)
		}
		b.e.Finish(End{Status: event.Aborted, Exit: 3})
		want(t, b.trace(), "0.0s breakpoint c:a set",
			"0.0s run aborting (by lockstep ctl)", "0.0s rollback accepted", "0.0s c:a skipped (not started: the run was aborted)",
			"20.0s breakpoint c:a cleared", "20.0s c:a running", "25.0s c:a gone")
		synctest.Wait()
	})
}

func TestUnreachableServerCannotBlockAnAbort(t *testing.T) { // R34
	fake := newFake(map[string]behaviour{"x": {hang: true}})
	trace, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
		b.at(sec)
		b.command(event.Abort, "")
	})
	if !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
	if got := trace[len(trace)-1]; got != "11.0s c:a aborted (aborted)" {
		t.Errorf("ended with %q, want the request cancelled 10s after the abort", got)
	}
	if stage := (*StageError)(nil); !errors.As(err, &stage) || stage.Cancelled != 1 || len(stage.Failures) > 0 {
		t.Errorf("a cancelled request counts as a failure: %+v", stage)
	}
}

func TestUnitsThatNeverStartAreReported(t *testing.T) { // R26
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		b := &rig{t: t, feed: feed, from: time.Now()}
		b.e = New(Options{Feed: feed})
		apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}
		b.e.Announce(apply, event.Phase{Name: "post-install", Kind: event.PhaseHooks, Groups: groupsOf("hook: h")})
		if err := b.e.Run(Stage{Phase: apply, Cluster: newFake(map[string]behaviour{"x": {err: errDenied}})}); err == nil {
			t.Error("no error")
		}
		b.e.Finish(End{Status: event.Failed, Exit: 1})
		want(t, b.trace(), "0.0s c:a running", "0.0s c:a failed (Pod/x: "+errDenied.Error()+")",
			"0.0s c:hook skipped (not started: c:a failed)")
		synctest.Wait()
	})
}

func TestARollbackIgnoresObservationsOfEarlierStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		e := New(Options{Feed: feed})
		fake := newFake(nil)
		apply := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x")}
		e.Announce(apply)
		if err := e.Run(Stage{Phase: apply, Cluster: fake}); err != nil {
			t.Fatal(err)
		}
		seen := fake.reports[apply.Groups[0].Objects[0]]
		e.StartRollback(event.Operation{Name: "uninstall"}, "")
		seen(Observation{Object: apply.Groups[0].Objects[0], Status: event.Gone, Version: 999})
		e.Finish(End{Status: event.Failed, Exit: 1})
		var s event.State
		for _, ev := range feed.Events() {
			s.Apply(ev)
		}
		if g := s.Find("apply", "c:a"); g.Done != 1 || g.Objects[0].Status != event.Ready {
			t.Errorf("after the rollback: %+v", g.Objects[0])
		}
		synctest.Wait()
	})
}

// TestSymptomsDoNotReplaceACause: a failure keeps its cause, even if later diagnoses find only
// symptoms.
func TestSymptomsDoNotReplaceACause(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {never: true}})
	asked := 0
	opts := Options{Diagnose: func(context.Context, plan.Object) Finding {
		if asked++; asked == 1 {
			return Finding{Cause: "exited with code 3", Evidence: []string{"FATAL"}}
		}
		return Finding{Cause: "0 of 1 available", Symptom: true, Details: event.Details{Notes: []string{"new"}}}
	}}
	var events []event.Event
	_, err := run(t, opts, Stage{ObjectTimeout: 20 * sec, Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
		b.at(25 * sec)
		b.e.Close(End{Status: event.Failed, Exit: 1})
		events = b.feed.Events()
	})
	var stage *StageError
	if !errors.As(err, &stage) {
		t.Fatal(err)
	}
	var s event.State
	reported := map[event.Kind]event.Event{}
	for _, e := range events {
		s.Apply(e)
		reported[e.Kind] = e
	}
	for _, kind := range []event.Kind{event.KindDiagnosis, event.KindGroup, event.KindOperation} {
		if e := reported[kind]; e.Cause != "exited with code 3" || len(e.Evidence) != 1 || e.Object == nil || e.Object.Name != "x" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	g := s.Find("apply", "c:a")
	if o := g.Objects[0]; o.Cause != "exited with code 3" || len(o.Diagnosis) != 1 || s.Cause != o.Cause || g.Cause != o.Cause || s.FailedObject == nil {
		t.Errorf("%+v %+v", o, s)
	}
}

// TestStageError: the message names the group and the object, but a hook, whose group is called after it, only once.
func TestStageError(t *testing.T) {
	job := plan.Object{Kind: "Job", Name: "migrate"}
	err := &StageError{
		Failures: []Failure{{Group: "c:db", Object: job, Message: "one"}, {Group: "pre-install:Job/migrate", Object: job, Message: "two"}},
		Skipped:  []string{"c:web"},
	}
	if got, want := err.Error(), "c:db: Job/migrate: one; pre-install:Job/migrate: two; never started: c:web"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	remove := removal("a: x", "b < a: y")
	remove.Lenient = false
	if _, err := run(t, Options{}, remove, newFake(map[string]behaviour{"x": {stuck: true}}), nil); err == nil || !strings.HasSuffix(err.Error(), "; not removed: c:b") {
		t.Errorf("the error of a removal is %v", err)
	}
}
