package report

import (
	"slices"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestEditLines(t *testing.T) { // R46
	apply := func(groups ...*plan.Group) []event.Phase {
		return []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}, {Name: "remove", Kind: event.PhaseRemove, Groups: []*plan.Group{{ID: "c:old"}}}}
	}
	web := plan.Object{Kind: "Deployment", Name: "web"}
	e := Edit{
		Operation: event.Operation{Revision: 2},
		Before:    apply(&plan.Group{ID: "c:db"}, &plan.Group{ID: "c:web", After: []string{"c:db"}}, &plan.Group{ID: "c:mail"}),
		After:     apply(&plan.Group{ID: "c:db", After: []string{"c:seed"}}, &plan.Group{ID: "c:seed", Objects: []plan.Object{{Kind: "Job", Name: "seed"}}}, &plan.Group{ID: "c:web"}),
		Changes: []Change{
			{Group: "c:seed", Object: plan.Object{Kind: "Job", Name: "seed\x1b[2J"}, Action: "create"},
			{Group: "c:web", Object: web, Action: "change", Diff: "@@ -1 +1 @@\n-image: old\n+image: new\n"},
			{Group: "c:mail", Object: plan.Object{Kind: "Service", Name: "mail"}, Action: "delete"},
		},
		Warnings: []plan.Warning{{Rule: "R10", Message: "group x is missing"}},
	}
	want := []string{
		"this edit (revision 2): 1 to create, 1 to change, 1 to delete", "! R10: group x is missing", "",
		"plan", "  ~ c:db waits for c:seed", "  + c:seed (1 object)", "  ~ c:web waits for nothing", "  - c:mail",
	}
	if got := e.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := (Edit{Operation: event.Operation{Revision: 3}}).Lines(); !slices.Equal(got, []string{"this edit (revision 3): no object changes"}) {
		t.Errorf("%q", got)
	}
	if got := (Edit{Operation: event.Operation{Revision: 3}, Empty: true}).Lines(); !slices.Equal(got, []string{"no object changes: nothing to apply"}) {
		t.Errorf("%q", got)
	}
}
