package run

import (
	"context"
	"slices"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestStateFollowsTheFeed(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: sec}, "y": {failed: "exit code 2"}})
	var s event.State
	var halfway event.Counts
	_, err := run(t, Options{Operation: event.Operation{Name: "install", Release: "shop"}}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y", "c < b: z")}}, fake, func(b *rig) {
		r := b.feed.Reader()
		batch, _ := r.Next(context.Background())
		for _, e := range batch {
			s.Apply(e)
		}
		halfway = s.Count()
		b.at(2 * sec)
		batch, _ = r.Next(context.Background())
		for _, e := range batch {
			s.Apply(e)
		}
	})
	if err == nil {
		t.Fatal("no error")
	}
	if want := (event.Counts{Total: 3}); halfway != want {
		t.Errorf("halfway %+v, want %+v", halfway, want)
	}
	if want := (event.Counts{Total: 3, Done: 1}); s.Count() != want {
		t.Errorf("at the end %+v, want %+v", s.Count(), want)
	}
	a, c := s.Find("apply", "c:a"), s.Find("apply", "c:c")
	if a.Status != event.Ready || a.Done != 1 || a.Ended.Sub(a.Started) != sec || c.Status != event.Skipped || s.Operation.Release != "shop" {
		t.Errorf("a %+v, c %+v, operation %+v", a, c, s.Operation)
	}
}

// TestNothingRunsAfterTheEnd: a failure whose diagnosis is still running is published before
// the closing event, so that no unit is running after it (R48).
func TestNothingRunsAfterTheEnd(t *testing.T) {
	for _, rolledBack := range []bool{false, true} {
		m := newMachine(Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }}, epoch)
		var s event.State
		var handle func(message)
		handle = func(msg message) {
			for _, eff := range slices.Clone(m.handle(epoch, msg)) {
				switch eff := eff.(type) {
				case sendRequest:
					handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
				case publish:
					eff.event.Time = epoch
					s.Apply(eff.event)
				}
			}
		}
		groups := groupsOf("a: x", "b: y", "c < a: z")
		handle(announced{[]event.Phase{{Name: "apply", Groups: groups}}})
		handle(stageStarted{Stage{Phase: event.Phase{Name: "apply", Groups: groups}}, &StageRun{}})
		g := m.stage.groups[0]
		handle(observed{g, Observation{Object: g.objects[0].Object, Status: event.Failed, Message: "exit code 2", Version: 2}})
		if rolledBack {
			handle(transitionRequested{func(m *machine) error { return m.startRollback(event.Operation{Name: "uninstall"}, "") }, make(chan error, 1)})
		}
		handle(transitionRequested{func(m *machine) error { return m.finish(End{Status: event.Failed, Exit: 1}) }, make(chan error, 1)})
		for unit, want := range map[string]event.Status{"c:a": event.Failed, "c:b": event.Aborted, "c:c": event.Skipped} {
			if got := s.Find("apply", unit); got.Status != want {
				t.Errorf("rolled back %t: %s ended as %s, want %s", rolledBack, unit, got.Status, want)
			}
		}
		if s.FailedObject == nil || s.FailedObject.Name != "x" || s.Cause != "exit code 2" {
			t.Errorf("rolled back %t: the closing event names %v: %q", rolledBack, s.FailedObject, s.Cause)
		}
	}
}

// TestReadyBySaysTheRule: the events of an object say by which rule it is ready, and how far its spec lets it get,
// also if only one of these changes (R22).
func TestReadyBySaysTheRule(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: sec, never: true}})
	var got []string
	_, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
		b.at(2 * sec)
		for o, report := range fake.reports {
			report(Observation{Object: o, Status: event.InProgress, ReadyBy: event.ByKstatus, Version: 900})
			report(Observation{Object: o, Status: event.Ready, ReadyBy: event.ByFirstStatus, Version: 901})
			report(Observation{Object: o, Status: event.Ready, ReadyBy: event.ByKstatus, Version: 902})
			report(Observation{Object: o, Status: event.Ready, ReadyBy: event.ByKstatus, Note: "1 old pod", Version: 903})
		}
		b.at(3 * sec)
		batch, _ := b.feed.Reader().Next(context.Background())
		for _, e := range batch {
			if e.Kind == event.KindObject && e.Status != event.Applying {
				got = append(got, string(e.Status+" "+event.Status(e.ReadyBy)+event.Status(e.Note)))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, got, "applied ", "in-progress ", "in-progress ", "ready first-status", "ready kstatus", "ready kstatus1 old pod")
}

// TestStartedJobsAreCounted: the outcome counts Jobs that are ready because they have started, unless they complete before the
// end (R22).
func TestStartedJobsAreCounted(t *testing.T) {
	for _, c := range []struct {
		completes bool
		want      int
		outcome   string
	}{{false, 1, "1 Job started, not complete at the end"}, {true, 0, ""}} {
		fake := newFake(map[string]behaviour{"x": {never: true}, "y": {ready: 3 * sec}})
		var feed *event.Feed
		_, err := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y")}}, fake, func(b *rig) {
			b.at(2 * sec)
			for o, report := range fake.reports {
				if o.Name == "x" {
					report(Observation{Object: o, Status: event.Ready, ReadyBy: event.ByStart, Message: "running", Version: 901})
				}
			}
			b.at(3 * sec)
			for o, report := range fake.reports {
				if o.Name == "x" && c.completes {
					report(Observation{Object: o, Status: event.Ready, ReadyBy: event.ByBuiltIn, Message: "complete", Version: 902})
				}
			}
			feed = b.feed
		})
		if err != nil {
			t.Fatal(err)
		}
		events := feed.Events()
		if last := events[len(events)-1]; last.Started != c.want || last.Outcome != c.outcome || last.Message != c.outcome {
			t.Errorf("completes %v: %d, %q, %q", c.completes, last.Started, last.Outcome, last.Message)
		}
	}
}

// TestStartedJobsThatFail: a Job that was ready because it had started, and fails later, is diagnosed at once, like any object that
// fails; but its group, which was ready, holds nothing until the last look (R21).
func TestStartedJobsThatFail(t *testing.T) {
	const cause = "container main exited with code 3"
	fake := newFake(map[string]behaviour{"x": {never: true}, "y": {ready: 9 * sec}})
	diagnose := func(_ context.Context, o plan.Object) Finding {
		if o.Name != "x" {
			return Finding{}
		}
		return Finding{Cause: cause, Degraded: true}
	}
	trace, err := run(t, Options{Diagnose: diagnose}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y")}}, fake, func(b *rig) {
		report := func(status event.Status, version uint64) {
			for o, report := range fake.reports {
				if o.Name == "x" {
					report(Observation{Object: o, Status: status, ReadyBy: event.ByStart, Message: "BackoffLimitExceeded", Version: version})
				}
			}
		}
		b.at(2 * sec)
		report(event.Ready, 901)
		b.at(3 * sec)
		report(event.Failed, 902)
	})
	if err != nil {
		t.Error(err)
	}
	want(t, trace, "0.0s c:a running", "2.0s c:a ready", "2.0s c:b running", "3.0s diagnosis c:a Pod/x ("+cause+")", "11.0s c:b ready")
}
