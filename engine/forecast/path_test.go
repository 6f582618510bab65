package forecast

import (
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestShownPath expects no path after a short run or of a single step, and no steps that would show as 0.0s.
func TestShownPath(t *testing.T) {
	for _, tt := range []struct {
		name string
		took []time.Duration // of groups that wait for each other
		want int
	}{
		{"short", []time.Duration{time.Second, time.Second}, 0},
		{"one step", []time.Duration{10 * time.Millisecond, 8 * time.Second}, 0},
		{"instant steps", []time.Duration{10 * time.Millisecond, 2 * time.Second, 0, 4 * time.Second}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var groups []*plan.Group
			var after []string
			for n := range tt.took {
				id := string(rune('a' + n))
				groups = append(groups, &plan.Group{ID: id, After: after})
				after = []string{id}
			}
			s, now := &event.State{}, time.Unix(1, 0)
			apply := func(e event.Event) {
				e.Time = now
				s.Apply(e)
			}
			apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install"}})
			apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}})
			for n, g := range groups {
				apply(event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running})
				now = now.Add(tt.took[n])
				apply(event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Ready})
			}
			if got := ShownPath(s); len(got) != tt.want {
				t.Errorf("%d steps of %d, want %d: %+v", len(got), len(Path(s)), tt.want, got)
			}
		})
	}
}

// TestLongestGroups: a group of which the run has changed nothing is not compared with the run that changed it, and differences are
// those of the durations as they are shown.
func TestLongestGroups(t *testing.T) {
	s, now := &event.State{}, time.Unix(1, 0)
	apply := func(e event.Event) {
		e.Time = now
		s.Apply(e)
	}
	groups := []*plan.Group{{ID: "same"}, {ID: "new"}}
	for _, g := range groups {
		g.Objects = []plan.Object{{Kind: "Job", Name: g.ID}}
	}
	usual := map[string]time.Duration{"same": 5 * time.Second, "new": 240 * time.Millisecond}
	apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade"}})
	apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups, Usual: usual}}})
	for n, change := range []event.Change{event.Unchanged, event.Configured} {
		of := event.Event{Phase: "apply", Group: groups[n].ID}
		for _, e := range []event.Event{{Kind: event.KindGroup, Status: event.Running}, {Kind: event.KindObject, Object: &groups[n].Objects[0], Status: event.Applied, Change: change},
			{Kind: event.KindGroup, Status: event.Ready}} {
			if e.Phase, e.Group = of.Phase, of.Group; e.Status == event.Ready {
				now = now.Add(60 * time.Millisecond)
			}
			apply(e)
		}
	}
	got := LongestGroups(s, 3)
	if len(got) != 1 || got[0].Group.ID != "new" || got[0].Differs() || got[0].Difference() != -100*time.Millisecond {
		t.Errorf("%+v", got)
	}
}
