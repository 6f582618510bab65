package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
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
		Changes: []inspect.Change{
			{Group: "c:seed", Object: plan.Object{Kind: "Job", Name: "seed\x1b[2J"}, Action: "create"},
			{Group: "c:web", Object: web, Action: "change", Diff: "@@ -1 +1 @@\n-image: old\n+image: new\n"},
			{Group: "c:mail", Object: plan.Object{Kind: "Service", Name: "mail"}, Action: "delete"},
		},
		Warnings: []plan.Warning{{Rule: "R10", Message: "group x is missing"}},
	}
	want := []string{
		"this edit (revision 2): 1 to create, 1 to change, 1 to delete", "! group x is missing (R10)", "",
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

// TestCriticalPathAfterEdit expects the critical path to name the revision that it covers.
func TestCriticalPathAfterEdit(t *testing.T) { // R46
	var s event.State
	at := 0
	feed := func(events ...event.Event) {
		for _, e := range events {
			at++
			e.Time = time.Unix(2*int64(at), 0)
			s.Apply(e)
		}
	}
	ready := func(id string) {
		for _, status := range []event.Status{event.Running, event.Ready} {
			feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: id, Status: status})
		}
	}
	phases := []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:db"}, {ID: "c:web", After: []string{"c:db"}}}}}
	exit := 0
	for revision, want := range []string{1: "  critical path\n", 2: "  critical path of revision 2 (after the edit)\n"} {
		if revision == 0 {
			continue
		}
		if revision == 2 {
			feed(event.Event{Kind: event.KindRun, Status: event.Replacing})
		}
		feed(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Revision: revision}},
			event.Event{Kind: event.KindPlan, Phases: phases})
		ready("c:db")
		ready("c:web")
		feed(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit})
		var out bytes.Buffer
		Summary(&out, &s, Options{Style: plain})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// TestChangesAfterEdit: the counts are those of the whole run, in which an object that the first revision created stays created, and the
// summary says so.
func TestChangesAfterEdit(t *testing.T) {
	for edits, want := range []string{"1 group done: 1 created\n", "1 group done: 1 created in the whole run, edits included\n"} {
		var s event.State
		web, exit := plan.Object{Kind: "Deployment", Name: "web"}, 0
		for revision := range edits + 1 {
			change := event.Created
			if revision > 0 {
				s.Apply(event.Event{Kind: event.KindRun, Status: event.Replacing})
				change = event.Configured
			}
			s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Revision: revision + 1}})
			s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:web", Objects: []plan.Object{web}}}}}})
			of := event.Event{Phase: "apply", Group: "c:web"}
			for _, e := range []event.Event{{Kind: event.KindGroup, Status: event.Running}, {Kind: event.KindObject, Object: &web, Status: event.Applied, Change: change},
				{Kind: event.KindObject, Object: &web, Status: event.Ready}, {Kind: event.KindGroup, Status: event.Ready}} {
				e.Phase, e.Group = of.Phase, of.Group
				s.Apply(e)
			}
		}
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit})
		var out bytes.Buffer
		if Summary(&out, &s, Options{Style: plain}); !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}
