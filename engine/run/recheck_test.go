package run

import (
	"context"
	"errors"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestARecheckWaitsForRequestsInFlight: until the API server has answered, an observation may be
// older than the apply (R44, R22).
func TestARecheckWaitsForRequestsInFlight(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {failed: "broken"}, "y": {request: 5 * sec, ready: sec}})
	trace, err := run(t, Options{HoldOnFailure: true}, Stage{Phase: event.Phase{Groups: groupsOf("a: x y")}}, fake, func(b *rig) {
		b.at(sec)
		b.command(event.Accept, "")
		for o, report := range fake.reports {
			report(Observation{Object: o, Status: event.Ready, Version: map[string]uint64{"x": 900, "y": 50}[o.Name]})
		}
	})
	if err != nil {
		t.Error(err)
	}
	want(t, trace, "0.0s c:a running", "0.0s c:a failed (Pod/x: broken)", "0.0s run held (c:a: Pod/x: broken)",
		"1.0s run running", "1.0s c:a running (re-checking)", "1.0s accept accepted", "6.0s c:a ready")
}

// TestARecheckCountsEarlierApplies: the first attempt applied y, which became ready during a
// retry that failed before applying y again; the re-check counts that (R44, R22).
func TestARecheckCountsEarlierApplies(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: 2 * sec, failed: "broken"}, "y": {ready: 4 * sec}})
	stage := Stage{Phase: event.Phase{Groups: groupsOf("a: x y")}, ObjectTimeout: 10 * sec}
	trace, err := run(t, Options{HoldOnFailure: true, MaxRequests: 1}, stage, fake, func(b *rig) {
		b.at(3 * sec)
		fake.mu.Lock()
		fake.script["x"] = behaviour{request: 2 * sec, err: errors.New("refused")}
		fake.mu.Unlock()
		b.command(event.Retry, "")
		b.at(6 * sec)
		b.command(event.Accept, "")
		for o, report := range fake.reports {
			if o.Name == "x" {
				report(Observation{Object: o, Status: event.Ready, Version: 900})
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	want(t, trace, "0.0s c:a running", "2.0s c:a failed (Pod/x: broken)", "2.0s run held (c:a: Pod/x: broken)",
		"3.0s run running", "3.0s c:a running", "3.0s retry accepted", "5.0s c:a failed (Pod/x: refused)", "5.0s run held (c:a: Pod/x: refused)",
		"6.0s run running", "6.0s c:a running (re-checking)", "6.0s accept accepted", "6.0s c:a ready")
}

// TestARecheckForgetsTheCause: somebody may have removed the cause before the re-check, so the object is diagnosed again (R44).
func TestARecheckForgetsTheCause(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {never: true}})
	found := Finding{Cause: "no such class"}
	opts := Options{HoldOnFailure: true, Diagnose: func(context.Context, plan.Object) Finding { return found }}
	stage := Stage{Phase: event.Phase{Groups: groupsOf("a: x")}, ObjectTimeout: 20 * sec}
	trace, _ := run(t, opts, stage, fake, func(b *rig) {
		b.at(25 * sec)
		found = Finding{Cause: "no volume yet", Symptom: true}
		b.command(event.Accept, "")
		b.at(50 * sec)
		b.command(event.GiveUp, "")
	})
	want(t, trace[4:], "20.0s diagnosis c:a Pod/x (no such class)", "25.0s run running", "25.0s c:a running (re-checking)", "25.0s diagnosis c:a Pod/x",
		"25.0s accept accepted", "25.0s diagnosis c:a Pod/x (no volume yet)",
		"45.0s c:a failed (Pod/x: no volume yet; gave up after 20s (--readiness-timeout))",
		"45.0s run held (c:a: Pod/x: no volume yet; gave up after 20s (--readiness-timeout))",
		"45.0s diagnosis c:a Pod/x (no volume yet)", "50.0s run running", "50.0s give-up accepted")
}
