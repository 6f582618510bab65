package runs

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestNamedApprovals (R42a): an approval is for one group or one release, however its name is shortened. A name that several
// releases have is refused, and so is one that nothing has.
func TestNamedApprovals(t *testing.T) {
	var now event.State
	phases := func(groups ...*plan.Group) []event.Phase {
		return []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}
	}
	asking := func(id string) *plan.Group { return &plan.Group{ID: id, Approve: []plan.Approval{{Of: id}}} }
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack", Approvals: &event.ApprovalsAt{}}},
		{Kind: event.KindPlan, Phases: phases(asking("prod/db"), &plan.Group{ID: "prod/web"}, &plan.Group{ID: "prod/api"})},
	}
	for _, release := range []string{"db", "web", "api"} {
		op := &event.Operation{Name: "upgrade", Release: release, Approvals: &event.ApprovalsAt{Lease: "prod/" + release, Plan: release}}
		events = append(events, event.Event{Kind: event.KindOperation, Scope: "prod/" + release, Status: event.Running, Operation: op},
			event.Event{Kind: event.KindPlan, Scope: "prod/" + release, Phases: phases(asking("chart/sub:schema"), &plan.Group{ID: "chart:free"}, asking("chart:"+release))})
	}
	for _, e := range events {
		now.Apply(e)
	}
	all, found := clusterApprovals(&now)
	if !found || len(all) != 7 {
		t.Fatalf("found %v: %+v", found, all)
	}
	for name, want := range map[string]string{
		"db": "prod/db  at prod/db", "prod/db": "prod/db  at prod/db", "web/schema": "chart/sub:schema prod/web at prod/web", "prod/web/chart/sub:schema": "chart/sub:schema prod/web at prod/web",
		"web/sub:schema": "chart/sub:schema prod/web at prod/web", "chart:api": "chart:api prod/api at prod/api", "api/web": "", "schema": "ambiguous", "sub:schema": "ambiguous", "free": "", "none/schema": "", "web": "chart:web prod/web at prod/web",
	} {
		picked, err := pickAsked(slices.Clone(all), name)
		got := ""
		for _, one := range picked {
			got += one.id + " " + one.release + " at " + one.at.Lease
		}
		if err != nil {
			got = ""
		}
		if want == "ambiguous" && (err == nil || !strings.Contains(err.Error(), "is ambiguous: prod/api/chart/sub:schema, ")) || want != "ambiguous" && got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
