package board

import (
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// TestWatched shows the state of a watched release without times: nothing is being deployed.
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
	for n, want := range map[int][]string{3: {"◐ deployed  ", "0 of 1 ready"}, 5: {"✓ deployed  ", "1 of 1 ready"}, 7: {"✗ deployed  1 failed", "0 of 1 ready"}} {
		s := newScreen(t, 100, 30, events[:n], readOnly)
		s.shows(t, want...)
		s.showsNot(t, "0:0", " s ")
	}
	s := newScreen(t, 100, 30, events[:5], readOnly)
	s.press("enter", "shift+tab")
	s.shows(t, "lockstep status r")
	s.press("esc", "u")
	s.shows(t, "u (upgrade) is a key of home: lockstep home -n n")
	s = newScreen(t, 100, 30, events[:5], readOnly, func(o *Options) { o.Home = "home" })
	s.press("h")
	s.shows(t, "h (history) is a key of home: esc leads there")
}

// TestWatchedSince: a watch shows for how long an object has really been in progress, and no time if that is unknown. Of an earlier
// revision, it says that the objects are those of today.
func TestWatchedSince(t *testing.T) {
	object := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for since, want := range map[time.Time]string{start.Add(-7 * time.Minute): "in progress for 7:04", {}: "in progress: 0 of 1"} {
		events := []event.Event{
			{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "watch", Release: "r", Namespace: "n", Revision: 3, Newest: 5}, Message: "superseded"},
			{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Objects: []plan.Object{object}}}}}},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running},
			{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: event.InProgress, Message: "0 of 1 ready", Since: since},
		}
		for i := range events {
			events[i].Seq, events[i].Time = uint64(i+1), start.Add(time.Duration(i)*time.Second)
		}
		s := newScreen(t, 100, 30, events, readOnly, func(o *Options) { o.Now = func() time.Time { return start.Add(4 * time.Second) } })
		s.shows(t, want, "objects as they are now; the latest revision is 5")
	}
}

// TestWatchedIsGreen only if the release is deployed and all its objects are ready.
func TestWatchedIsGreen(t *testing.T) {
	for record, good := range map[string]bool{"deployed": true, "pending-upgrade": false, "pending-install": false, "uninstalling": false, "failed": false} {
		object := plan.Object{Kind: "ConfigMap", Name: "one"}
		s := newScreen(t, 100, 30, []event.Event{
			{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "watch", Release: "r"}, Message: record},
			{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Objects: []plan.Object{object}}}}}},
			{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &object, Status: event.Ready},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Ready},
		}, readOnly)
		state := s.Canvas.Cells[s.W:][:s.W]
		bar := slices.IndexFunc(state, func(c canvas.Cell) bool { return c.Text == s.Theme.Lines.Bar })
		if mark := state[1]; (mark.Role == theme.Good) != good || (mark.Text == "✓") != good || state[bar].Role != mark.Role {
			t.Errorf("%s, all ready: %+v, the bar %d", record, mark, state[bar].Role)
		}
		s.shows(t, record)
	}
}

// TestAppliedLeafIsNotGreen: nobody waited for it to be ready (R21), so neither its mark nor the bar is
// green.
func TestAppliedLeafIsNotGreen(t *testing.T) {
	leaf, exit := plan.Object{Group: "apps", Kind: "Deployment", Name: "leaf"}, 0
	s := newScreen(t, 100, 30, []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Objects: []plan.Object{leaf}}}}}},
		{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &leaf, Status: event.Applied},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Applied},
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit},
	})
	n := s.Graph.Nodes[0]
	for what, mark := range map[string]theme.Mark{"the group": s.GroupMark(n), "its object": s.ObjectMark(n, n.Objects[0])} {
		if mark.Role == theme.Good || mark.Glyph == "✓" {
			t.Errorf("%s is shown as %+v", what, mark)
		}
	}
	green := 0
	for x := range s.W {
		if c := s.Canvas.Cells[s.W+x]; c.Text == s.Theme.Lines.Bar && c.Role == theme.Good {
			green++
		}
	}
	if green > 0 {
		t.Errorf("%d cells of the bar are green:\n%s", green, s.text())
	}
}

// TestWatchedFailed: the groups that a failed revision did not reach wait for nothing.
func TestWatchedFailed(t *testing.T) {
	database, migration := plan.Object{Group: "apps", Kind: "StatefulSet", Namespace: "n", Name: "db"}, plan.Object{Group: "batch", Kind: "Job", Namespace: "n", Name: "migration"}
	groups := []*plan.Group{{ID: "c:db", Chart: "c", Name: "db", Objects: []plan.Object{database}}, {ID: "c:migration", Chart: "c", Name: "migration", After: []string{"c:db"}, Objects: []plan.Object{migration}}}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "watch", Release: "r", Namespace: "n", Revision: 1}, Message: "failed"},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:db", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "c:db", Object: &database, Status: event.InProgress, Message: "0 of 1 ready"},
		{Kind: event.KindObject, Phase: "apply", Group: "c:migration", Object: &migration, Status: event.Waiting, Message: event.NotCreated},
		{Kind: event.KindGroup, Phase: "apply", Group: "c:migration", Status: event.Skipped, Message: "not applied"},
	}
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
	}
	s := newScreen(t, 100, 30, events, readOnly)
	s.shows(t, "1 in progress", "1 never started", "not applied")
	s.showsNot(t, "waiting", "waits for")
}
