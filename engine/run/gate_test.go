package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// change is a change of an object from outside the release.
type change struct {
	at     time.Duration
	name   string
	status event.Status
}

// outsideOf returns a Stage.WatchOutside that reports changes; an object without one at the start does not exist.
func outsideOf(changes ...change) func(context.Context, *plan.Group, func(Observation)) {
	return func(ctx context.Context, g *plan.Group, report func(Observation)) {
		for _, o := range g.WaitFor {
			status := event.Gone
			for _, c := range changes {
				switch {
				case c.name != o.Name:
				case c.at == 0:
					status = c.status
				default:
					time.AfterFunc(c.at, func() {
						if ctx.Err() == nil {
							report(Observation{Object: o, Status: c.status, Message: "as told"})
						}
					})
				}
			}
			report(Observation{Object: o, Status: status})
		}
	}
}

// gatedStage is a stage of groups; waits has the names of the Secrets outside the release, by group.
func gatedStage(timeout time.Duration, waits map[string]string, groups []*plan.Group, changes ...change) Stage {
	for _, g := range groups {
		for name := range strings.FieldsSeq(waits[g.Name]) {
			g.WaitFor = append(g.WaitFor, plan.Object{Kind: "Secret", Namespace: "n", Name: name})
		}
	}
	return Stage{Phase: event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}, ObjectTimeout: timeout, WatchOutside: outsideOf(changes...)}
}

// outsideTrace adds the events about objects outside the release to a trace.
func outsideTrace(b *rig) (lines []string) {
	for _, e := range b.feed.Events() {
		if e.Kind == event.KindObject && e.Outside {
			lines = append(lines, fmt.Sprintf("%.1fs %s %s %s %s", e.Time.Sub(b.from).Seconds(), e.Group, e.Object, e.Status, e.Message))
		}
	}
	return lines
}

// TestGateHoldsItsGroupAlone: a group with objects outside the release starts when they are ready, after its dependencies;
// others do not wait (R22d).
func TestGateHoldsItsGroupAlone(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: time.Second}})
	s := gatedStage(time.Minute, map[string]string{"b": "tls ca"}, groupsOf("a: x", "b < a: y", "c < a: z"),
		change{5 * time.Second, "tls", event.Ready}, change{2 * time.Second, "ca", event.InProgress}, change{9 * time.Second, "ca", event.Ready})
	var outside []string
	trace, err := run(t, Options{}, s, fake, func(b *rig) {
		b.at(time.Hour)
		outside = outsideTrace(b)
	})
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s c:a running", "1.0s c:a ready", "1.0s c:c running", "1.0s c:c ready", "10.0s c:b running", "10.0s c:b ready")
	want(t, outside, "1.0s c:b Secret/tls in-progress ", "1.0s c:b Secret/ca in-progress ", "1.0s c:b Secret/tls in-progress not in the cluster",
		"1.0s c:b Secret/ca in-progress not in the cluster", "3.0s c:b Secret/ca in-progress as told", "6.0s c:b Secret/tls ready as told", "10.0s c:b Secret/ca ready as told")
}

// TestGateTimesOut: the readiness timeout of an object outside the release counts from the start of the wait and fails the
// group that waits; a hold, a retry and a re-check lead back to the wait, and only then to the first request (R22d, R25, R44).
func TestGateTimesOut(t *testing.T) {
	for _, command := range []event.CommandName{event.Retry, event.Accept} {
		fake := newFake(nil)
		s := gatedStage(10*time.Second, map[string]string{"a": "tls"}, groupsOf("a: x", "b < a: y"), change{25 * time.Second, "tls", event.Ready})
		trace, err := run(t, Options{HoldOnFailure: true}, s, fake, func(b *rig) {
			b.at(20 * time.Second)
			b.command(command, "c:a")
			if len(fake.calls) > 0 {
				t.Errorf("%s: requests %v before the object is ready", command, fake.calls)
			}
		})
		if err != nil {
			t.Errorf("%s: error %v", command, err)
		}
		failure := "Secret/tls: not in the cluster; gave up after 10s (--readiness-timeout)"
		want(t, trace, "10.0s c:a failed ("+failure+")", "10.0s run held (c:a: "+failure+")", "20.0s run running", "20.0s c:a waiting",
			"20.0s "+string(command)+" accepted", "25.0s c:a running", "25.0s c:a ready", "25.0s c:b running", "25.0s c:b ready")
		if fake.calls["x"] != 1 {
			t.Errorf("%s: %d requests", command, fake.calls["x"])
		}
	}
}

// TestGateFailsWithItsObject: an object outside the release that has failed fails the group at once, and what waits for the
// group is skipped (R22d, R26).
func TestGateFailsWithItsObject(t *testing.T) {
	s := gatedStage(time.Minute, map[string]string{"a": "tls"}, groupsOf("a: x", "b < a: y"), change{2 * time.Second, "tls", event.Failed})
	trace, err := run(t, Options{}, s, newFake(nil), nil)
	if err == nil || !strings.Contains(err.Error(), "c:a: Secret/tls: as told") {
		t.Errorf("error %v", err)
	}
	want(t, trace, "2.0s c:a failed (Secret/tls: as told)", "2.0s c:b skipped (not started: c:a failed)")
}

// TestGateAndSteering: a pause stops the clock of the wait, a step waits until the group really starts, and a breakpoint
// pauses before the first request, after the wait. An object that breaks before the group starts closes the gate (R22d).
func TestGateAndSteering(t *testing.T) {
	fake := newFake(nil)
	s := gatedStage(10*time.Second, map[string]string{"a": "tls"}, groupsOf("a: x", "b < a: y"), change{30 * time.Second, "tls", event.Ready},
		change{40 * time.Second, "tls", event.InProgress}, change{45 * time.Second, "tls", event.Ready})
	trace, err := run(t, Options{Breakpoints: []string{"c:a"}}, s, fake, func(b *rig) {
		b.at(5 * time.Second)
		b.command(event.Pause, "")
		b.command(event.Step, "c:a")
		b.at(29 * time.Second)
		b.command(event.Resume, "")
		b.at(41 * time.Second)
		b.command(event.Step, "c:a")
		b.command(event.Step, "")
		b.at(50 * time.Second)
		b.command(event.Resume, "")
	})
	if err != nil {
		t.Errorf("error %v", err)
	}
	want(t, trace, "0.0s breakpoint c:a set", "5.0s run paused", "5.0s pause accepted", "5.0s step refused (c:a is waiting for Secret/tls)",
		"29.0s run running", "29.0s resume accepted", "30.0s c:a held (breakpoint)", "30.0s run paused (breakpoint c:a)",
		"41.0s step refused (c:a is waiting for Secret/tls)", "41.0s step accepted", "41.0s run paused (step pending: starts the next group as soon as one can start)",
		"45.0s c:a running", "45.0s c:a ready", "50.0s run running", "50.0s resume accepted", "50.0s c:b running", "50.0s c:b ready")
}

// TestGateAtTheTimeoutOfTheOperation: the group fails with what it waits for (R22d, R25).
func TestGateAtTheTimeoutOfTheOperation(t *testing.T) {
	s := gatedStage(0, map[string]string{"a": "tls"}, groupsOf("a: x"))
	_, err := run(t, Options{Operation: event.Operation{Name: "install", Timeout: 5 * time.Second}}, s, newFake(nil), nil)
	if err == nil || !strings.Contains(err.Error(), "c:a: Secret/tls: not in the cluster; gave up after 5s (--timeout)") {
		t.Errorf("error %v", err)
	}
}

// TestGateOfAnAdmittedGroup: the first group of an operation is admitted before its stage starts. Its gate holds it all the same,
// a step for it counts, and its breakpoint pauses once (R22d, R41, R42).
func TestGateOfAnAdmittedGroup(t *testing.T) {
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake, feed := newFake(nil), &event.Feed{}
			s := gatedStage(time.Minute, map[string]string{"a": "tls"}, groupsOf("a: x"), change{10 * time.Second, "tls", event.Ready})
			s.Phase.Name, s.Cluster = "apply", fake
			b := &rig{t: t, fake: fake, feed: feed, from: time.Now()}
			opts := Options{Feed: feed, Paused: paused}
			if !paused {
				opts.Breakpoints = []string{"c:a"}
			}
			b.e = New(opts)
			b.e.Announce(s.Phase)
			admitted := make(chan error, 1)
			go func() { admitted <- b.e.Admit("apply", s.Phase.Groups[0]) }()
			synctest.Wait()
			command := event.Step
			if !paused {
				command = event.Resume
			}
			b.command(command, "")
			if err := <-admitted; err != nil {
				t.Error(err)
			}
			if err := b.e.Run(s); err != nil {
				t.Error(err)
			}
			_ = b.e.Finish(End{Status: event.Succeeded})
			trace := b.trace()
			want(t, trace[len(trace)-2:], "10.0s c:a running", "10.0s c:a ready")
			if pauses := strings.Count(strings.Join(trace, "\n"), "run paused"); pauses > 1 {
				t.Errorf("paused %d times: %q", pauses, trace)
			}
		})
	}
}

// TestPauseAtTheGateOfAnAdmittedGroup: a pause stops an admitted group that still waits for objects outside the release (R22d, R40).
func TestPauseAtTheGateOfAnAdmittedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, feed := newFake(nil), &event.Feed{}
		s := gatedStage(time.Minute, map[string]string{"a": "tls"}, groupsOf("a: x"), change{10 * time.Second, "tls", event.Ready})
		s.Phase.Name, s.Cluster = "apply", fake
		b := &rig{t: t, fake: fake, feed: feed, from: time.Now(), e: New(Options{Feed: feed})}
		b.e.Announce(s.Phase)
		if err := b.e.Admit("apply", s.Phase.Groups[0]); err != nil {
			t.Error(err)
		}
		go func() {
			b.at(5 * time.Second)
			b.command(event.Pause, "")
			b.at(20 * time.Second)
			b.command(event.Resume, "")
		}()
		if err := b.e.Run(s); err != nil {
			t.Error(err)
		}
		_ = b.e.Finish(End{Status: event.Succeeded})
		want(t, b.trace(), "5.0s run paused", "5.0s pause accepted", "20.0s run running", "20.0s resume accepted", "20.0s c:a running", "20.0s c:a ready")
	})
}

// TestPauseAfterAStepToTheGate: a step lets an admitted group start as soon as its gate opens, but only during that pause (R22d, R41).
func TestPauseAfterAStepToTheGate(t *testing.T) {
	for again, starts := range map[bool]string{false: "11.0s c:a running", true: "30.0s c:a running"} {
		synctest.Test(t, func(t *testing.T) {
			fake, feed := newFake(nil), &event.Feed{}
			s := gatedStage(time.Minute, map[string]string{"a": "tls"}, groupsOf("a: x"), change{10 * time.Second, "tls", event.Ready})
			s.Phase.Name, s.Cluster = "apply", fake
			b := &rig{t: t, fake: fake, feed: feed, from: time.Now(), e: New(Options{Feed: feed, Paused: true})}
			b.e.Announce(s.Phase)
			go func() {
				b.at(time.Second)
				b.command(event.Step, "")
				b.at(5 * time.Second)
				if again {
					b.command(event.Resume, "")
					b.command(event.Pause, "")
					b.at(30 * time.Second)
					b.command(event.Resume, "")
				}
			}()
			if err := b.e.Admit("apply", s.Phase.Groups[0]); err != nil {
				t.Error(err)
			}
			if err := b.e.Run(s); err != nil {
				t.Error(err)
			}
			_ = b.e.Finish(End{Status: event.Succeeded})
			if trace := b.trace(); !slices.Contains(trace, starts) {
				t.Errorf("paused again %t: %q has no %q", again, trace, starts)
			}
		})
	}
}

// TestCommandAfterAFailureAtTheGate: a command for a group that has failed at its gate does not say that it has started (R22d, R45).
func TestCommandAfterAFailureAtTheGate(t *testing.T) {
	s := gatedStage(time.Minute, map[string]string{"a": "tls"}, groupsOf("a: x"), change{2 * time.Second, "tls", event.Failed})
	trace, _ := run(t, Options{HoldOnFailure: true, Breakpoints: []string{"c:a"}, Paused: true}, s, newFake(nil), func(b *rig) {
		b.at(5 * time.Second)
		b.command(event.Break, "c:a")
		b.command(event.GiveUp, "")
	})
	if !slices.Contains(trace, "5.0s break refused (c:a has failed)") {
		t.Errorf("%q", trace)
	}
}

// TestFailureAtTheGateIsNoStart: a group that has failed at its gate during a pause does not start in the next process during that
// pause (R22d, S13).
func TestFailureAtTheGateIsNoStart(t *testing.T) {
	var kept Steering
	s := gatedStage(time.Minute, map[string]string{"b": "tls"}, groupsOf("a: x", "b: y"), change{2 * time.Second, "tls", event.Failed})
	keep := func(now Steering) error { kept = now; return nil }
	_, _ = run(t, Options{HoldOnFailure: true, Keep: keep}, s, newFake(map[string]behaviour{"x": {ready: time.Minute}}), func(b *rig) {
		b.at(time.Second)
		b.command(event.Pause, "")
		b.at(5 * time.Second)
		b.command(event.GiveUp, "")
	})
	if len(kept.Passed) != 1 || kept.Passed[0].Group != "c:a" || len(kept.GivenUp) != 1 {
		t.Errorf("%+v", kept)
	}
}

// TestGateObservesTheOperatorsTimeout: what the operator says of the time of an object counts for one outside the release, too
// (R22d, R22b).
func TestGateObservesTheOperatorsTimeout(t *testing.T) {
	s := gatedStage(10*time.Second, map[string]string{"a": "tls ca"}, groupsOf("a: x"), change{20 * time.Second, "ca", event.Ready})
	s.Phase.Groups[0].WaitOutside(func(plan.Object) plan.Wait { return plan.Wait{Timeout: 30 * time.Second, Source: "the operator"} })
	trace, _ := run(t, Options{}, s, newFake(nil), nil)
	want(t, trace, "30.0s c:a failed (Secret/tls: not in the cluster; gave up after 30s (the operator))")
}

// TestObjectFailsAtAnOpenGate: an object that fails before its group starts fails the group at once (R22d, R26).
func TestObjectFailsAtAnOpenGate(t *testing.T) {
	s := gatedStage(time.Minute, map[string]string{"b": "tls"}, groupsOf("b: x"), change{0, "tls", event.Ready}, change{5 * time.Second, "tls", event.Failed})
	trace, _ := run(t, Options{Paused: true}, s, newFake(nil), func(b *rig) { b.at(10 * time.Second) })
	want(t, trace, "0.0s run paused (before the first group)", "5.0s c:b failed (Secret/tls: as told)")
}
