package event

import (
	"testing"

	"lockstep/engine/plan"
)

// TestChanges expects an object that was created and then sent again to count as created, and a rollback
// to be counted separately.
func TestChanges(t *testing.T) {
	object := func(name string) plan.Object { return plan.Object{Kind: "ConfigMap", Name: name} }
	group := func(id string, names ...string) *plan.Group {
		g := &plan.Group{ID: id}
		for _, n := range names {
			g.Objects = append(g.Objects, object(n))
		}
		return g
	}
	s := &State{}
	s.Apply(Event{Kind: KindPlan, Phases: []Phase{
		{Name: "pre-upgrade", Kind: PhaseHooks, Groups: []*plan.Group{group("hook", "h"), group("never", "n")}},
		{Name: "apply", Kind: PhaseApply, Groups: []*plan.Group{group("g", "new", "other", "same", "unsent")}},
		{Name: "remove", Kind: PhaseRemove, Groups: []*plan.Group{group("old", "gone", "kept", "absent")}},
		{Name: "rollback/remove", Kind: PhaseRemove, Groups: []*plan.Group{group("g", "new")}},
	}})
	did := func(phase, group, name string, changes ...Change) {
		o := object(name)
		s.Apply(Event{Kind: KindGroup, Phase: phase, Group: group, Status: Running})
		for _, c := range changes {
			s.Apply(Event{Kind: KindObject, Phase: phase, Group: group, Object: &o, Status: Applying})
			s.Apply(Event{Kind: KindObject, Phase: phase, Group: group, Object: &o, Status: Applied, Change: c})
		}
	}
	s.Apply(Event{Kind: KindGroup, Phase: "pre-upgrade", Group: "hook", Status: Running, Time: s.Now.Add(1)})
	did("apply", "g", "new", Created, Unchanged)
	did("apply", "g", "other", Unchanged, Configured)
	did("apply", "g", "same", Unchanged)
	did("remove", "old", "gone", Deleted)
	did("remove", "old", "kept", Kept)
	did("remove", "old", "absent", Absent)
	did("rollback/remove", "g", "new", Deleted)
	if got, want := s.Changes(), (Changes{Created: 1, Configured: 1, Unchanged: 1, Deleted: 1, Kept: 1, Hooks: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := s.RollbackChanges(), (Changes{Deleted: 1}); got != want {
		t.Errorf("rollback: %+v, want %+v", got, want)
	}
	if o := s.Find("apply", "g").Find(object("new")); o.Change != Unchanged {
		t.Errorf("the change of the last request is %s, want unchanged", o.Change)
	}
}

// TestChangedWithItsRollback: what a run has changed is what is left of it after its rollback, also if that failed, and also if a
// stack rolls the release back by another operation (R33, S5).
func TestChangedWithItsRollback(t *testing.T) {
	for _, c := range []struct{ change, rollback, want Change }{
		{Created, Deleted, ""}, {Created, "", Created}, {Created, Absent, ""},
		{Configured, Configured, ""}, {Configured, Unchanged, ""}, {Configured, "", Configured},
		{Deleted, Created, Replaced}, {Deleted, "", Deleted},
		{Replaced, Replaced, Replaced}, {Replaced, Configured, Replaced},
		{"", Configured, Configured}, {Unchanged, Configured, Configured}, {Unchanged, Deleted, Deleted},
	} {
		for _, stack := range []bool{false, true} {
			o := plan.Object{Kind: "ConfigMap", Name: "o"}
			s := &State{}
			did := func(phase string, change Change) {
				if change != "" {
					s.Apply(Event{Kind: KindObject, Phase: phase, Group: "g", Object: &o, Status: Applied, Change: change})
				}
			}
			group := []*plan.Group{{ID: "g", Objects: []plan.Object{o}}}
			s.Apply(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "upgrade"}})
			s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Kind: PhaseApply, Groups: group}, {Name: "rollback/apply", Kind: PhaseApply, Groups: group}}})
			did("apply", c.change)
			if stack {
				s.Apply(Event{Kind: KindOperation, Status: Succeeded, Time: s.Now.Add(1)})
				s.Apply(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "rollback"}})
				s.Apply(Event{Kind: KindPlan, Phases: []Phase{{Name: "apply", Kind: PhaseApply, Groups: group}}})
				did("apply", c.rollback)
			} else {
				did("rollback/apply", c.rollback)
			}
			var got Change
			for _, x := range []Change{Created, Configured, Replaced, Deleted} {
				if len(s.Changed()[x]) > 0 {
					got = x
				}
			}
			if got != c.want {
				t.Errorf("%q, then %q (stack %v): %q, want %q", c.change, c.rollback, stack, got, c.want)
			}
		}
	}
}

// TestChangesOfAnEditedRun: an edit replaces the revision, but the changes of the whole run are counted (R46).
func TestChangesOfAnEditedRun(t *testing.T) {
	o := plan.Object{Kind: "ConfigMap", Name: "o"}
	for _, c := range []struct {
		revisions []Change // what each revision did to the object
		want      Changes
	}{
		{[]Change{Created, Unchanged}, Changes{Created: 1}},
		{[]Change{Created, Configured}, Changes{Created: 1}},
		{[]Change{Created, ""}, Changes{Created: 1}},
		{[]Change{Created, Unchanged, Unchanged}, Changes{Created: 1}},
		{[]Change{"", Created}, Changes{Created: 1}},
		{[]Change{Created, Deleted}, Changes{}},
		{[]Change{Created, Absent}, Changes{}},
		{[]Change{Created, Deleted, Created}, Changes{Created: 1}},
		{[]Change{Configured, Unchanged}, Changes{Configured: 1}},
		{[]Change{Configured, Created}, Changes{Created: 1}},
		{[]Change{Configured, Deleted}, Changes{Deleted: 1}},
		{[]Change{Unchanged, Unchanged}, Changes{Unchanged: 1}},
		{[]Change{Unchanged, Configured}, Changes{Configured: 1}},
		{[]Change{Unchanged, ""}, Changes{Unchanged: 1}},
		{[]Change{Unchanged, Deleted}, Changes{Deleted: 1}},
		{[]Change{Unchanged, Kept}, Changes{Kept: 1}},
		{[]Change{Deleted, Absent}, Changes{Deleted: 1}},
		{[]Change{Deleted, ""}, Changes{Deleted: 1}},
		{[]Change{Deleted, Created}, Changes{Created: 1}},
		{[]Change{Unchanged, Replaced}, Changes{Replaced: 1}},
		{[]Change{Replaced, Configured}, Changes{Replaced: 1}},
		{[]Change{Replaced, Deleted}, Changes{Deleted: 1}},
		{[]Change{Created, Replaced}, Changes{Created: 1}},
	} {
		var s State
		hook := func(name string) Phase {
			return Phase{Name: name, Kind: PhaseHooks, Groups: []*plan.Group{{ID: "Job/h", Objects: []plan.Object{{Kind: "Job", Name: "h"}}}}}
		}
		for _, change := range c.revisions {
			s.Apply(Event{Kind: KindOperation, Status: Running, Operation: &Operation{Name: "install"}})
			phase := Phase{Name: "apply", Kind: PhaseApply, Groups: []*plan.Group{{ID: "g", Objects: []plan.Object{o}}}}
			if change == Deleted || change == Absent || change == Kept {
				phase.Name, phase.Kind = "remove", PhaseRemove
			}
			s.Apply(Event{Kind: KindPlan, Phases: []Phase{hook("pre-install"), phase, hook("post-install")}})
			s.Apply(Event{Kind: KindGroup, Phase: "pre-install", Group: "Job/h", Status: Running, Time: s.Now.Add(1)})
			if change != "" {
				s.Apply(Event{Kind: KindObject, Phase: phase.Name, Group: "g", Object: &o, Status: Applied, Change: change})
			}
		}
		if c.want.Hooks = 1; s.Changes() != c.want {
			t.Errorf("%q: %+v, want %+v", c.revisions, s.Changes(), c.want)
		}
		if (s.RollbackChanges() != Changes{}) {
			t.Errorf("%q: a rollback is counted", c.revisions)
		}
	}
}
