package board

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestWatched shows the state of what is watched, and no times: nothing is
// being deployed.
func TestWatched(t *testing.T) {
	object := plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "one"}
	group := &plan.Group{ID: "c:g", Chart: "c", Name: "g", After: []string{}, Objects: []plan.Object{object}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "watch", Release: "r", Namespace: "n", Revision: 3}, Message: "deployed"},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{group}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: event.Ready},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Ready},
		{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: event.Failed, Message: "not in the cluster"},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Failed},
	}
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), start.Add(time.Duration(i)*time.Second)
	}
	for n, want := range map[int]string{3: "◐ deployed  0 of 1 ready", 5: "✓ deployed  1 of 1 ready", 7: "✗ deployed  0 of 1 ready · 1 failed"} {
		s := newScreen(t, 100, 30, events[:n], readOnly)
		s.shows(t, want)
		s.showsNot(t, "0:0", " s ")
	}
	s := newScreen(t, 100, 30, events[:5], readOnly)
	s.press("enter", "shift+tab")
	s.shows(t, "lockstep status r")
}
