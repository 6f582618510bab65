package runs

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestStandstill: runs says of a live run what home says: that it is degraded once waiting will not help.
func TestStandstill(t *testing.T) {
	api := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}
	var state event.State
	for _, step := range []struct {
		event.Event
		state, why string
	}{
		{event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}}, "", ""},
		{event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "s:api", Objects: []plan.Object{api}}}}}}, "", ""},
		{event.Event{Kind: event.KindGroup, Status: event.Running}, "", ""},
		{event.Event{Kind: event.KindObject, Object: &api, Status: event.InProgress}, "", ""},
		{event.Event{Kind: event.KindDiagnosis, Object: &api, Status: event.Degraded, Cause: "image cannot be pulled"}, "degraded", "Deployment/api: image cannot be pulled"},
		{event.Event{Kind: event.KindRun, Status: event.Paused, Message: "before b"}, "paused", "before b"},
	} {
		step.Phase, step.Group = "apply", "s:api"
		state.Apply(step.Event)
		if got, why := standstill(&state); got != step.state || why != step.why {
			t.Errorf("after %s %s: %q, %q, want %q, %q", step.Kind, step.Status, got, why, step.state, step.why)
		}
	}
}
