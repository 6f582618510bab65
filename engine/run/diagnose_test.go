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

// TestTroubleIsDiagnosed: a stuck object is diagnosed at the first sign of trouble, and repeated
// signs cost at most 20 requests per minute.
func TestTroubleIsDiagnosed(t *testing.T) {
	const cost = 6
	now := epoch
	m := newMachine(Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }, Heartbeat: time.Hour}, now)
	var diagnoses []time.Duration
	var reported []string
	var handle func(message)
	handle = func(msg message) {
		for _, eff := range append([]effect(nil), m.handle(now, msg)...) {
			switch eff := eff.(type) {
			case sendRequest:
				handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
			case startDiagnosis:
				diagnoses = append(diagnoses, now.Sub(epoch))
				handle(diagnosed{eff.diagnosis, Finding{Cause: "exited with code 3", Requests: cost}})
			case publish:
				if eff.event.Kind == event.KindWaiting {
					reported = append(reported, eff.event.Message)
				}
			}
		}
	}
	handle(stageStarted{Stage{Phase: event.Phase{Name: "apply", Groups: groupsOf("a: x")}}, &StageRun{}})
	g := m.stage.groups[0]
	handle(observed{g, Observation{Object: g.objects[0].Object, Status: event.InProgress, Message: "0 of 1 available", Version: 2}})
	for end := epoch.Add(time.Minute); now.Before(end); now = now.Add(100 * time.Millisecond) {
		if now.Sub(epoch) > 300*time.Millisecond {
			handle(observed{g, Observation{Object: g.objects[0].Object, Trouble: true}})
		}
		if w := m.wake(); !w.IsZero() && !w.After(now) {
			handle(ticked{})
		}
	}
	if len(diagnoses) < 2 || diagnoses[0] > 500*time.Millisecond {
		t.Errorf("diagnosed at %v", diagnoses)
	}
	if n := len(diagnoses)*cost + cost; n > 20 {
		t.Errorf("%d requests in a minute: %v", n, diagnoses)
	}
	m.timeouts.nextHeartbeat = 0
	handle(ticked{})
	if len(reported) != 1 || !strings.Contains(reported[0], ": exited with code 3; 1m0s so far") {
		t.Errorf("the heartbeat drops the cause: %q", reported)
	}
}

// TestObjectsWithoutPodsAreDiagnosedSoon: nothing else shows that they are stuck.
func TestObjectsWithoutPodsAreDiagnosedSoon(t *testing.T) {
	for kind, want := range map[string]time.Duration{"Deployment": 5 * time.Second, "PersistentVolumeClaim": time.Second, "Topic": time.Second} {
		now := epoch
		m := newMachine(Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }, Heartbeat: time.Hour}, now)
		diagnosedAt := time.Duration(-1)
		var handle func(message)
		handle = func(msg message) {
			for _, eff := range append([]effect(nil), m.handle(now, msg)...) {
				switch eff := eff.(type) {
				case sendRequest:
					handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
				case startDiagnosis:
					diagnosedAt = now.Sub(epoch)
				}
			}
		}
		groups := groupsOf("a: x")
		groups[0].Objects[0].Kind = kind
		handle(stageStarted{Stage{Phase: event.Phase{Name: "apply", Groups: groups}}, &StageRun{}})
		for end := epoch.Add(10 * time.Second); now.Before(end) && diagnosedAt < 0; now = now.Add(100 * time.Millisecond) {
			if w := m.wake(); !w.IsZero() && !w.After(now) {
				handle(ticked{})
			}
		}
		if diagnosedAt != want {
			t.Errorf("%s is diagnosed after %s, want %s", kind, diagnosedAt, want)
		}
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
		{"a pod is not ready", []Finding{unready}, Pods{Ready: 1, Unready: 1}, []string{"not ready: 503"}},
		{"the pods exist", []Finding{quota, unready}, Pods{Ready: 1, Unready: 2}, []string{"2 of 3 pods cannot be created", "", "not ready: 503"}},
		{"a pod is missing", []Finding{quota}, Pods{Ready: 2}, []string{"2 of 3 pods cannot be created"}},
		{"it is not about pods", []Finding{{Cause: "no such class", Requests: 1}}, Pods{Ready: 1}, []string{"no such class"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := epoch
			m := newMachine(Options{Diagnose: func(context.Context, plan.Object) Finding { return Finding{} }, Heartbeat: time.Hour}, now)
			var reported []string
			var state event.State
			var handle func(message)
			handle = func(msg message) {
				for _, eff := range append([]effect(nil), m.handle(now, msg)...) {
					switch eff := eff.(type) {
					case sendRequest:
						handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
					case startDiagnosis:
						found := tt.found[0]
						tt.found = tt.found[min(1, len(tt.found)-1):]
						handle(diagnosed{eff.diagnosis, found})
					case publish:
						state.Apply(eff.event)
						if eff.event.Kind == event.KindDiagnosis {
							reported = append(reported, eff.event.Cause)
						}
					}
				}
			}
			wait := func(d time.Duration) {
				for end := now.Add(d); now.Before(end); now = now.Add(100 * time.Millisecond) {
					if w := m.wake(); !w.IsZero() && !w.After(now) {
						handle(ticked{})
					}
				}
			}
			phase := event.Phase{Name: "apply", Groups: groupsOf("a: x")}
			state.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{phase}})
			handle(stageStarted{Stage{Phase: phase}, &StageRun{}})
			g := m.stage.groups[0]
			see := func(p Pods) { handle(observed{g, Observation{Object: g.objects[0].Object, Pods: &p}}) }
			handle(observed{g, Observation{Object: g.objects[0].Object, Status: event.InProgress, Message: "0 of 3 available", Version: 2}})
			see(Pods{Unready: 1})
			wait(6 * time.Second)
			see(tt.pods)
			if o := state.Find("apply", g.Group).Find(g.objects[0].Object); len(tt.want) > 1 && o.Cause != "" {
				t.Errorf("the state keeps %q", o.Cause)
			}
			wait(2 * time.Second)
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
