package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

// TestNoHeartbeatBeforeTimeout expects no heartbeat in the last second of a readiness timeout, because the
// line about the failure says the same.
func TestNoHeartbeatBeforeTimeout(t *testing.T) {
	events := record(t, run.Options{Heartbeat: 10 * sec}, func(b *bench) {
		groups := readPlan("c:a: Job/a")
		b.Announce(apply(groups))
		finish(b, b.Run(run.Stage{Phase: apply(groups), ObjectTimeout: install.ReadinessTimeout, Cluster: newFake(map[string]behaviour{"a": {never: true}})}))
	})
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	if n := strings.Count(out.String(), "◐ waiting for Job/a"); n != 5 || !strings.Contains(out.String(), "50s so far\n  1m00s ✗ c:a failed") {
		t.Errorf("%d heartbeats in\n%s", n, out.String())
	}
}

// TestHeartbeatShowsTheNewestState: a cause that is only an earlier state of the object is not repeated beside it.
func TestHeartbeatShowsTheNewestState(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	phase := apply(readPlan("c:a: Job/a"))
	job := &phase.Groups[0].Objects[0]
	in := func(kind event.Kind, n int, status event.Status, message, cause string) event.Event {
		return event.Event{Time: start.Add(time.Duration(n) * sec), Kind: kind, Phase: phase.Name, Group: "c:a", Object: job, Status: status, Message: message, Cause: cause, OnlyState: cause != ""}
	}
	const earlier, later = "running · 0 of 1 complete", "running 10 s · 0 of 1 complete"
	waiting := in(event.KindWaiting, 10, event.InProgress, "", earlier)
	waiting.Wait = &event.Wait{State: later, For: 10 * sec}
	var out bytes.Buffer
	Replay([]event.Event{
		{Time: start, Kind: event.KindOperation, Status: event.Running, Operation: &install},
		{Time: start, Kind: event.KindPlan, Phases: []event.Phase{phase}},
		{Time: start, Kind: event.KindGroup, Phase: phase.Name, Group: "c:a", Status: event.Running},
		in(event.KindObject, 0, event.InProgress, earlier, ""),
		in(event.KindDiagnosis, 5, "", earlier, earlier),
		in(event.KindObject, 10, event.InProgress, later, ""),
		waiting,
		in(event.KindGroup, 12, event.Failed, "Job/a: "+later+"; gave up after 12s (--timeout)", later),
		in(event.KindDiagnosis, 12, "", later, later),
	}, newTextLog(&out, &out, Options{Style: plain}))
	for text, times := range map[string]int{
		"10.0s ◐ waiting for Job/a in c:a: running 10 s · 0 of 1 complete; 10s so far\n": 1,
		"12.0s ✗": 1,
	} {
		if strings.Count(out.String(), text) != times {
			t.Errorf("want %d times %q in\n%s", times, text, out.String())
		}
	}
}

// TestHeartbeatHasTimeLeft expects the time of the last run in heartbeats, and one line about a group that is
// slower than last time.
func TestHeartbeatHasTimeLeft(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * sec) }
	phase := apply(readPlan("c:a: Job/a", "c:b < c:a: Job/b"))
	phase.Usual = map[string]time.Duration{"c:a": 8 * sec, "c:b": 4 * sec}
	beat := func(n int) event.Event {
		return event.Event{Time: at(n), Kind: event.KindWaiting, Phase: phase.Name, Group: "c:a", Object: &phase.Groups[0].Objects[0], Message: "in-progress"}
	}
	var out bytes.Buffer
	Replay([]event.Event{
		{Time: at(0), Kind: event.KindOperation, Status: event.Running, Operation: &install},
		{Time: at(0), Kind: event.KindPlan, Phases: []event.Phase{phase}},
		{Time: at(0), Kind: event.KindGroup, Phase: phase.Name, Group: "c:a", Status: event.Running},
		beat(5), beat(15), beat(25),
	}, newTextLog(&out, &out, Options{Style: plain}))
	for text, times := range map[string]int{
		"5.0s ◐ waiting for Job/a in c:a: in-progress; about 7s left in this run\n": 1,
		"15.0s ! c:a slower than last time: 15s so far, last time 8s\n":             1,
		"slower than last time": 1,
		"25.0s ◐ waiting for Job/a in c:a: in-progress; about 4s left in this run\n": 1,
	} {
		if strings.Count(out.String(), text) != times {
			t.Errorf("want %d times %q in\n%s", times, text, out.String())
		}
	}
}

// TestHeartbeatOfAnOldRecord: a record without the facts of a wait has the state of the object, and since when it was sent.
func TestHeartbeatOfAnOldRecord(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	phase := apply(readPlan("c:a: Job/a"))
	at := func(n int, kind event.Kind, status event.Status, message, cause string) event.Event {
		return event.Event{Time: start.Add(time.Duration(n) * sec), Kind: kind, Phase: phase.Name, Group: "c:a", Object: &phase.Groups[0].Objects[0], Status: status, Message: message, Cause: cause}
	}
	var out bytes.Buffer
	Replay([]event.Event{
		{Time: start, Kind: event.KindOperation, Status: event.Running, Operation: &install},
		{Time: start, Kind: event.KindPlan, Phases: []event.Phase{phase}},
		at(0, event.KindObject, event.InProgress, "0 of 1 complete", ""),
		at(1, event.KindDiagnosis, "", "no room", "no room"),
		at(10, event.KindWaiting, event.InProgress, "in-progress, 0 of 1 complete: no room; 10s so far", "no room"),
	}, newTextLog(&out, &out, Options{Style: plain}))
	if want := "waiting for Job/a in c:a: no room (0 of 1 complete; 10s so far)\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// TestHeartbeatOfARestart: a workload that waits until its container has run for a while again says once how the container ended.
func TestHeartbeatOfARestart(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	phase := apply(readPlan("c:a: Deployment/a"))
	const ended, cause = "container main exited with code 3", "container main exited with code 3 (2 restarts): FATAL: no relation users"
	at := func(n int, kind event.Kind, message, cause string, wait *event.Wait) event.Event {
		return event.Event{Time: start.Add(time.Duration(n) * sec), Kind: kind, Phase: phase.Name, Group: "c:a", Object: &phase.Groups[0].Objects[0], Status: event.InProgress, Message: message, Cause: cause, Wait: wait}
	}
	const held = ended + "; ready once it has run for 10s again"
	var out bytes.Buffer
	Replay([]event.Event{
		{Time: start, Kind: event.KindOperation, Status: event.Running, Operation: &install},
		{Time: start, Kind: event.KindPlan, Phases: []event.Phase{phase}},
		at(0, event.KindObject, held, "", nil),
		at(1, event.KindDiagnosis, cause, cause, nil),
		at(10, event.KindWaiting, "", "", &event.Wait{State: held, For: 10 * sec, Goal: event.Ready}),
	}, newTextLog(&out, &out, Options{Style: plain}))
	if want := "waiting for Deployment/a in c:a: " + cause + " (ready once it has run for 10s again; 10s so far)\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}
