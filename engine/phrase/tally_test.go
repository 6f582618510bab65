package phrase

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestCauseAt: while the run waits for the object, counts in its cause are left out once they are old.
func TestCauseAt(t *testing.T) {
	for _, c := range []struct {
		tally       event.Tally
		cause, late string
	}{
		{event.Tally{Restarts: 1}, "container main exited with code 3 (1 restart): panic", "container main exited with code 3: panic"},
		{event.Tally{Restarts: 2}, "container main was killed (OOMKilled, 2 restarts)", "container main was killed (OOMKilled)"},
		{event.Tally{PodsFailed: 3}, "0 of 1 pods are ready; container main exited with code 3 (3 pods failed): panic", "0 of 1 pods are ready; container main exited with code 3: panic"},
		{event.Tally{}, "the image said (2 restarts)", "the image said (2 restarts)"},
	} {
		o, start := plan.Object{Kind: "Deployment", Name: "web"}, time.Unix(0, 0)
		var s event.State
		s.Apply(event.Event{Kind: event.KindPlan, Time: start, Phases: []event.Phase{{Name: "apply", Groups: []*plan.Group{{ID: "a", Objects: []plan.Object{o}}}}}})
		g := s.Find("apply", "a")
		in := func(seconds int, kind event.Kind, status event.Status) time.Time {
			at := start.Add(time.Duration(seconds) * time.Second)
			s.Apply(event.Event{Kind: kind, Time: at, Phase: "apply", Group: "a", Object: &o, Status: status, Cause: c.cause, Tally: c.tally, Evidence: []string{"x"}})
			return at
		}
		in(0, event.KindGroup, event.Running)
		in(1, event.KindDiagnosis, event.Degraded)
		if got := CauseAt(g, g.Find(o), in(3, event.KindWaiting, event.InProgress)); got != c.cause {
			t.Errorf("after 2s: %q, want %q", got, c.cause)
		}
		if got := CauseAt(g, g.Find(o), in(13, event.KindWaiting, event.InProgress)); got != c.late {
			t.Errorf("after 12s: %q, want %q", got, c.late)
		}
		if got := CauseAt(g, g.Find(o), in(14, event.KindGroup, event.Failed)); got != c.cause {
			t.Errorf("after the failure: %q, want %q", got, c.cause)
		}
	}
}
