package report

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

// TestPlanListsRemovals expects a group that gets new objects and loses old ones twice
// in the list, the second time as a removal.
func TestPlanListsRemovals(t *testing.T) {
	change := func(phase, group, name string, action inspect.Action) inspect.Change {
		return inspect.Change{Phase: phase, Group: group, Object: plan.Object{Kind: "Job", Name: name}, Action: action}
	}
	groups := func(ids ...string) (out []*plan.Group) {
		for _, id := range ids {
			out = append(out, &plan.Group{ID: id})
		}
		return out
	}
	p := Plan{
		Operation: event.Operation{Name: "upgrade", Release: "shop", Namespace: "n"},
		Changes:   []inspect.Change{change("apply", "shop/db:schema", "new", "create"), change("remove", "shop/db:schema", "old", "delete"), change("remove", "shop/mail:send", "mail", "delete")},
		Phases:    []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups("shop/db:schema")}, {Name: "remove", Kind: event.PhaseRemove, Groups: groups("shop/db:schema", "shop/mail:send")}},
	}
	want := "\napply\n  shop/db:schema\n    + Job/new create\n\ndelete\n  shop/db:schema\n    - Job/old delete\n  shop/mail:send\n    - Job/mail delete\n"
	if got := p.text(Stream{}); !strings.Contains(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPlanSaysHowObjectsAreAwaited, where that is not as usual (R22b, R22c), and for which objects outside the release (R22d).
func TestPlanSaysHowObjectsAreAwaited(t *testing.T) {
	g := &plan.Group{ID: "shop:db", WaitFor: []plan.Object{{Kind: "Secret", Name: "tls"}}}
	p := Plan{Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{g}}}}
	want := "  shop:db waits for Secret/tls\n"
	for _, c := range []struct {
		name   string
		action inspect.Action
		want   string
		wait   plan.Wait
	}{
		{"a", "create", "+ Thing/a create", plan.Wait{}},
		{"b", "change", "~ Thing/b change, not waited for", plan.Wait{Never: true, Timeout: time.Minute}},
		{"c", "unchanged", "= Thing/c unchanged, ready by the operator's rule, stable for 30s", plan.Wait{By: "operator", StableFor: 30 * time.Second}},
		{"d", "create", "+ Thing/d create, ready by the chart's expressions, readiness timeout 10m", plan.Wait{By: "chart", Timeout: 10 * time.Minute}},
		{"e", "create", "+ Thing/e create, ready by lockstep's rule for its kind", plan.Wait{By: "built-in"}},
	} {
		o := plan.Object{Kind: "Thing", Name: c.name}
		g.Objects = append(g.Objects, o)
		if c.wait != (plan.Wait{}) {
			g.Waits = append(g.Waits, plan.ObjectWait{Object: o, Wait: c.wait})
		}
		p.Changes = append(p.Changes, inspect.Change{Phase: "apply", Group: g.ID, Object: o, Action: c.action})
		want += "    " + c.want + "\n"
	}
	if got := p.text(Stream{Style: plain}); !strings.Contains(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPlanShowsFields: a plan shows changes field by field, as the screen does, or as a diff if it was saved without fields.
func TestPlanShowsFields(t *testing.T) {
	const diff = "@@ -1,2 +1,2 @@\n spec:\n-  replicas: 1\n+  replicas: 2\n"
	fields := []inspect.Field{{In: "spec", Lines: []string{"-replicas: 1", "+replicas: 2"}}, {In: "data.conf", Lines: []string{"@line 12", " a", "-b"}}}
	for want, c := range map[string]inspect.Change{
		"        spec\n        - replicas: 1\n        + replicas: 2\n        data.conf\n          line 12\n          a\n        - b\n": {Diff: diff, Fields: fields},
		"        @@ -1,2 +1,2 @@\n         spec:\n        -  replicas: 1\n        +  replicas: 2\n":                                    {Diff: diff},
	} {
		c.Object, c.Action = plan.Object{Kind: "Deployment", Name: "web"}, inspect.Modify
		if got := (Plan{Changes: []inspect.Change{c}}).text(Stream{Style: plain}); !strings.Contains(got, "    ~ Deployment/web change\n"+want) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// TestStackPlanCountsOnce: an error that marks a change counts once.
func TestStackPlanCountsOnce(t *testing.T) {
	o := plan.Object{Kind: "Gear", Name: "g"}
	p := StackPlan{Releases: []ReleasePlan{{Plan: &Plan{
		Changes: []inspect.Change{{Object: o, Action: "refuse"}, {Object: plan.Object{Kind: "Gear", Name: "h"}, Action: "refuse"}},
		Errors:  []plan.Warning{{Object: &o}, {Object: &plan.Object{Kind: "Namespace", Name: "n"}}, {}},
	}}, {}}}
	if refused, changed := p.Count(); refused != 4 || changed != 1 {
		t.Errorf("%d refused, %d changed; want 4, 1", refused, changed)
	}
}

// TestStackPlanNamesAbsentReleases: a release that is not installed and must not be is not called unchanged.
func TestStackPlanNamesAbsentReleases(t *testing.T) {
	p := StackPlan{Releases: []ReleasePlan{{Release: "n/a", Unchanged: true, Absent: true}, {Release: "n/b", Unchanged: true}}}
	if got, want := p.text(Stream{Style: plain}), "n/a not installed\n\nn/b unchanged\n\n"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPlanSummary: objects that are kept or already absent do not count as unchanged, and counts of 0 are left out.
func TestPlanSummary(t *testing.T) {
	p := Plan{Changes: []inspect.Change{{Action: "delete"}, {Action: "absent"}, {Action: "keep"}, {Action: "keep"}, {Action: "unchanged"}, {Action: "hook"}}}
	if got := p.Summary(); got != "1 to delete, 1 unchanged, 2 kept, 1 already absent, 1 hook to run" {
		t.Error(got)
	}
}
