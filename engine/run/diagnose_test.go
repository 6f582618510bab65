package run

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// stuckObject is a machine that waits for one object, on a clock of its own. The request that creates the object succeeds at once.
type stuckObject struct {
	machine  *machine
	group    *group
	diagnose func() Finding
	now      time.Time
	state    event.State
	events   []event.Event
}

func newStuckObject(kind string, others ...string) *stuckObject {
	opts := Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }, Heartbeat: time.Hour}
	s := &stuckObject{machine: newMachine(opts, epoch), now: epoch}
	phase := event.Phase{Name: "apply", Groups: groupsOf(append([]string{"a: x"}, others...)...)}
	phase.Groups[0].Objects[0].Kind = kind
	s.state.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{phase}})
	s.handle(stageStarted{Stage{Phase: phase}, &StageRun{}})
	s.group = s.machine.stage.groups[0]
	return s
}

func (s *stuckObject) handle(msg message) {
	for _, eff := range slices.Clone(s.machine.handle(s.now, msg)) {
		switch eff := eff.(type) {
		case sendRequest:
			s.handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
		case startDiagnosis:
			s.handle(diagnosed{eff.diagnosis, s.diagnose()})
		case publish:
			s.state.Apply(eff.event)
			s.events = append(s.events, eff.event)
		}
	}
}

func (s *stuckObject) observe(o Observation) {
	o.Object = s.group.objects[0].Object
	s.handle(observed{s.group, o})
}

func (s *stuckObject) wait(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(100 * time.Millisecond) {
		if w := s.machine.wake(); !w.IsZero() && !w.After(s.now) {
			s.handle(ticked{})
		}
	}
}

// TestTroubleIsDiagnosed: a stuck object is diagnosed at the first sign of trouble, and repeated
// signs cost at most 20 requests per minute.
func TestTroubleIsDiagnosed(t *testing.T) {
	const cost = 6
	s := newStuckObject("Pod")
	var diagnoses []time.Duration
	s.diagnose = func() Finding {
		diagnoses = append(diagnoses, s.now.Sub(epoch))
		return Finding{Cause: "exited with code 3", Requests: cost}
	}
	s.observe(Observation{Status: event.InProgress, Message: "0 of 1 available", Version: 2})
	s.wait(400 * time.Millisecond)
	for s.now.Before(epoch.Add(time.Minute)) {
		s.observe(Observation{Trouble: true})
		s.wait(100 * time.Millisecond)
	}
	if len(diagnoses) < 2 || diagnoses[0] > 500*time.Millisecond {
		t.Errorf("diagnosed at %v", diagnoses)
	}
	if n := len(diagnoses)*cost + cost; n > 20 {
		t.Errorf("%d requests in a minute: %v", n, diagnoses)
	}
	s.machine.timeouts.nextHeartbeat = 0
	s.handle(ticked{})
	if last := s.events[len(s.events)-1]; last.Kind != event.KindWaiting || !strings.Contains(last.Message, ": exited with code 3; 1m0s so far") {
		t.Errorf("the heartbeat drops the cause: %q", last.Message)
	}
}

// TestObjectsWithoutPodsAreDiagnosedSoon: nothing else shows that they are stuck.
func TestObjectsWithoutPodsAreDiagnosedSoon(t *testing.T) {
	for kind, want := range map[string]time.Duration{"Deployment": 5 * time.Second, "PersistentVolumeClaim": time.Second, "Topic": time.Second} {
		s := newStuckObject(kind)
		var diagnoses []time.Duration
		s.diagnose = func() Finding {
			diagnoses = append(diagnoses, s.now.Sub(epoch))
			return Finding{}
		}
		s.wait(10 * time.Second)
		if len(diagnoses) == 0 || diagnoses[0] != want {
			t.Errorf("%s is diagnosed after %s, want %s", kind, diagnoses, want)
		}
	}
}

// TestDiagnosedAfterItWasReady: while the run waits for another group, an object that does not stay ready is diagnosed, too.
func TestDiagnosedAfterItWasReady(t *testing.T) {
	s := newStuckObject("Deployment", "b: y")
	s.diagnose = func() Finding { return Finding{Cause: "exited with code 3"} }
	s.observe(Observation{Status: event.Ready, Version: 2})
	g := s.state.Find("apply", "c:a")
	if g.Status != event.Ready {
		t.Fatal(g.Status)
	}
	s.wait(10 * time.Second)
	if o := g.Objects[0]; o.Cause != "" {
		t.Errorf("ready, but %s", o.Cause)
	}
	progress := event.Progress{Wanted: 1, Word: "available"}
	s.observe(Observation{Status: event.InProgress, Message: "0 of 1 available", Progress: progress, Version: 3})
	s.wait(20 * time.Second)
	if o := g.Objects[0]; g.Status != event.Ready || o.Cause != "exited with code 3" || o.Progress != progress {
		t.Errorf("the group is %s, the cause is %q, %+v", g.Status, o.Cause, o.Progress)
	}
}

// TestTimeoutDuringRequest: if the request that applies an object is still in flight, the timeout gives the reason of its
// last retry, not the state of the object before (R25).
func TestTimeoutDuringRequest(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {hang: true}})
	opts := Options{Operation: event.Operation{Timeout: 30 * sec}, Diagnose: func(context.Context, plan.Object) Finding {
		return Finding{Cause: "the selector of the old object matches no pods"}
	}}
	trace, _ := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) {
		b.at(5 * sec)
		fake.mu.Lock()
		defer fake.mu.Unlock()
		for o, report := range fake.reports {
			report(Observation{Object: o, Status: event.Applying, Trouble: true, Message: "no answer."})
		}
	})
	want(t, trace, "0.0s c:a running", "30.0s c:a failed (Pod/x: no answer; gave up after 30s (--timeout))")
}

// TestHeartbeatOfARetriedRequest: a request that is retried is something that the run waits for, and the heartbeat says why (R53).
func TestHeartbeatOfARetriedRequest(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {hang: true}})
	opts := Options{Heartbeat: 10 * sec, Operation: event.Operation{Timeout: 30 * sec}}
	trace, _ := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x, y")}}, fake, func(b *rig) {
		b.at(5 * sec)
		fake.mu.Lock()
		defer fake.mu.Unlock()
		for o, report := range fake.reports {
			report(Observation{Object: o, Status: event.Applying, Trouble: true, Message: "the webhook does not answer"})
		}
	})
	if got := strings.Join(trace, "\n"); !strings.Contains(got, "10.0s waiting c:a Pod/x (applying, retrying: the webhook does not answer; 10s so far)") {
		t.Error(got)
	}
}

// TestCauseIsDropped: a cause that the pods contradict is dropped at once, and the object is diagnosed again.
func TestCauseIsDropped(t *testing.T) {
	unready, quota := Finding{Cause: "not ready: 503", OfPods: true, Requests: 1}, Finding{Cause: "2 of 3 pods cannot be created", Lacks: 3, Requests: 1}
	for _, tt := range []struct {
		name  string
		found []Finding
		pods  Pods
		want  []string
	}{
		{"all pods are ready", []Finding{unready, quota}, Pods{Ready: 1}, []string{"not ready: 503", "", "2 of 3 pods cannot be created"}},
		{"a container has just started again", []Finding{unready}, Pods{Ready: 1, Restart: "container app exited with code 3", Restarted: epoch.Add(5 * time.Second)}, []string{"not ready: 503"}},
		{"a pod is not ready", []Finding{unready}, Pods{Ready: 1, Unready: 1}, []string{"not ready: 503"}},
		{"the pods exist", []Finding{quota, unready}, Pods{Ready: 1, Unready: 2}, []string{"2 of 3 pods cannot be created", "", "not ready: 503"}},
		{"a pod is missing", []Finding{quota}, Pods{Ready: 2}, []string{"2 of 3 pods cannot be created"}},
		{"it is not about pods", []Finding{{Cause: "no such class", Requests: 1}}, Pods{Ready: 1}, []string{"no such class"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStuckObject("Pod")
			s.diagnose = func() Finding {
				found := tt.found[0]
				tt.found = tt.found[min(1, len(tt.found)-1):]
				return found
			}
			s.observe(Observation{Status: event.InProgress, Message: "0 of 3 available", Version: 2})
			s.observe(Observation{Pods: &Pods{Unready: 1}})
			s.wait(6 * time.Second)
			s.observe(Observation{Pods: &tt.pods})
			if o := s.state.Find("apply", s.group.Group).Find(s.group.objects[0].Object); len(tt.want) > 1 && o.Cause != "" {
				t.Errorf("the state keeps %q", o.Cause)
			}
			s.wait(2 * time.Second)
			var reported []string
			for _, e := range s.events {
				if e.Kind == event.KindDiagnosis {
					reported = append(reported, e.Cause)
				}
			}
			if !slices.Equal(reported, tt.want) {
				t.Errorf("reported %q, want %q", reported, tt.want)
			}
		})
	}
}

// TestCauseOfEarlierObject: once the name of a blocked object is free, the cause of the earlier object is dropped, and the new
// one is diagnosed as early as any other.
func TestCauseOfEarlierObject(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {blocked: 60 * sec, never: true}})
	var start time.Time
	opts := Options{Operation: event.Operation{Timeout: 90 * sec}, Diagnose: func(context.Context, plan.Object) Finding {
		if time.Since(start) < 60*sec {
			return Finding{Cause: "finalizer example.com/x"}
		}
		return Finding{Cause: "0 of 1 ready", Symptom: true}
	}}
	trace, _ := run(t, opts, Stage{Phase: event.Phase{Groups: groupsOf("a: x")}}, fake, func(b *rig) { start = time.Now() })
	want(t, trace, "0.0s c:a running", "5.0s diagnosis c:a Pod/x (finalizer example.com/x)", "65.0s diagnosis c:a Pod/x (0 of 1 ready)",
		"90.0s c:a failed (Pod/x: 0 of 1 ready; gave up after 1m30s (--timeout))", "90.0s diagnosis c:a Pod/x (0 of 1 ready)")
}
