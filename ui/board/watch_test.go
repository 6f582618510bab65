package board

import (
	"testing"
	"time"

	"lockstep/engine"
)

// TestWatched shows the state of what is watched, and no times: nothing is
// being deployed.
func TestWatched(t *testing.T) {
	object := engine.Object{Kind: "ConfigMap", Namespace: "n", Name: "one"}
	group := &engine.Group{ID: "c:g", Chart: "c", Name: "g", After: []string{}, Objects: []engine.Object{object}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	events := []engine.Event{
		{Kind: engine.KindOperation, Status: engine.Running, Operation: &engine.Operation{Name: "watch", Release: "r", Namespace: "n", Revision: 3}, Message: "deployed"},
		{Kind: engine.KindPlan, Phases: []engine.Phase{{Name: "apply", Kind: engine.PhaseApply, Groups: []*engine.Group{group}}}},
		{Kind: engine.KindGroup, Phase: "apply", Group: "c:g", Status: engine.Running},
		{Kind: engine.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: engine.Ready},
		{Kind: engine.KindGroup, Phase: "apply", Group: "c:g", Status: engine.Ready},
		{Kind: engine.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: engine.Failed, Message: "not in the cluster"},
		{Kind: engine.KindGroup, Phase: "apply", Group: "c:g", Status: engine.Failed},
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
