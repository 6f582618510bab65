package event

import (
	"testing"

	"lockstep/engine/plan"
)

// TestGeneratedNameInState expects a planned object to have the name that the API server generated for
// it, even after a retry with another name.
func TestGeneratedNameInState(t *testing.T) {
	planned := plan.Object{Kind: "Job", Namespace: "n", Name: "work-"}
	named := func(name string) *plan.Object { return &plan.Object{Kind: "Job", Namespace: "n", Name: name} }
	var s State
	s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Kind: PhaseApply, Groups: []*plan.Group{{ID: "c:g", Objects: []plan.Object{planned}}}}}})
	for _, e := range []Event{
		{Object: &planned, Status: Applying},
		{Object: named("work-x7"), Planned: "work-", Status: Failed},
		{Object: named("work-x7"), Planned: "work-", Status: Applying},
		{Object: named("work-k2"), Planned: "work-", Status: Ready},
	} {
		e.Kind, e.Phase, e.Group = KindObject, "apply", "c:g"
		s.Apply(e)
	}
	g := s.Find("apply", "c:g")
	if len(g.Objects) != 1 || g.Objects[0].Object != *named("work-k2") || g.Done != 1 || g.Find(planned) != g.Objects[0] {
		t.Errorf("%d objects, %d done: %+v", len(g.Objects), g.Done, g.Objects[0])
	}
}
