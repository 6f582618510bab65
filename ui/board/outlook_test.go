package board

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestForecast: the header shows the time left if earlier runs are known, and which group is slower
// than last time; neither while the run is paused.
func TestForecast(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	group := func(id string, after ...string) *plan.Group {
		return &plan.Group{ID: id, Chart: "c", Name: id, After: after, Objects: []plan.Object{{Kind: "Job", Name: id}}}
	}
	events := []event.Event{
		{Time: at(0), Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "shop"}},
		{Time: at(0), Kind: event.KindPlan, Phases: []event.Phase{{
			Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{group("c:a"), group("c:b", "c:a")},
			Usual: map[string]time.Duration{"c:a": 8 * time.Second, "c:b": 4 * time.Second},
		}}},
		{Time: at(0), Kind: event.KindGroup, Phase: "apply", Group: "c:a", Status: event.Running},
	}
	now := at(5)
	clock := func(o *Options) { o.Now = func() time.Time { return now } }
	s := newScreen(t, 120, 30, events, clock)
	s.shows(t, "about 7s left")
	narrow := newScreen(t, 60, 20, events, clock)
	if narrow.shows(t, "7s left"); strings.Contains(narrow.text(), "last time") {
		t.Errorf("too much for 60 columns:\n%s", narrow.text())
	}
	now = at(15)
	s.feed(event.Event{Time: now, Kind: event.KindWaiting})
	s.shows(t, "a slower than last time: 15s so far, last time 8s", "about 4s left")
	s.feed(event.Event{Time: now, Kind: event.KindRun, Status: event.Paused})
	if strings.Contains(s.text(), "last time") {
		t.Errorf("a forecast while it is paused:\n%s", s.text())
	}
}
