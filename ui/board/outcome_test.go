package board

import (
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/screen"
)

// outcomes returns the status word of each group of the operation.
func outcomes(s *rig) map[string]string {
	out := map[string]string{}
	for _, n := range s.Graph.Nodes {
		if !n.InRollback() {
			out[n.ID] = s.GroupMark(n).Word
		}
	}
	return out
}

// TestAbortedAfterAFix: the state says who aborted, then which failures were fixed if there is room.
func TestAbortedAfterAFix(t *testing.T) {
	for width, want := range map[int]string{60: "aborted by ann  the release stays", 160: "aborted by ann (1 failure fixed)  the release stays as it is"} {
		events := slices.Clone(recorded(t, "retried", 0))
		end := &events[len(events)-1]
		end.Status, end.Outcome, end.Origin = event.Aborted, "the release stays as it is", &event.Origin{By: "ann"}
		newScreen(t, width, 30, events).shows(t, want)
	}
}

// TestNotes: the report below the board begins with the notes of the chart, and its heading counts the lines that do not fit.
func TestNotes(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-install", 0))
	s.shows(t, "✓ done in 13 s", "notes", "The shop 1.0.0 is open: https://shop.example.com/", "more lines, press o ─")
	s.showsNot(t, "… press o", "critical path")
	s.press("o")
	s.shows(t, "https://shop.example.com/", "critical path")
}

// TestUninstalled: groups whose objects a rollback deleted say so; others do not.
func TestUninstalled(t *testing.T) {
	events := recorded(t, "sandbox-rollback", 0)
	for id, want := range map[string]string{
		"namespace:shop":                   "ready", // Helm keeps it
		"pre-install:Job/shop-preflight":   "ready", // no event reports its removal
		"shop/db:config":                   "deleted",
		"shop/queue:crds":                  "deleted",
		"shop/worker:(unsequenced)":        "deleted",
		"shop/api:server":                  "failed, deleted",
		"shop:gateway":                     "never started",
		"post-install:Job/shop-smoke-test": "never started",
	} {
		if got := outcomes(newScreen(t, 100, 30, events))[id]; got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	s := newScreen(t, 160, 45, events)
	for id, want := range map[string]string{
		"shop/db:config":  "↩ deleted by the rollback (was ready after 0.1 s), 2 objects",
		"shop/api:server": "✗ failed after 5.1 s, 2 of 3 objects done: gave up after 5s (--readiness-timeout); then deleted by the rollback",
	} {
		s.Sel = screen.Spot{Unit: event.Unit{Phase: "apply", Group: id}}
		s.press("enter")
		s.shows(t, want)
		s.press("esc")
	}
	s.Sel = screen.Spot{Unit: event.Unit{Phase: "apply", Group: "shop/api:server"}}
	s.press("enter")
	s.shows(t, "  created, ready, then deleted by the rollback\n",
		"deploy/shop-api ↩ created, not ready: image example/no-such-image:1 cannot be pulled: not found; then deleted by the rollback\n")
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "shop/api:server", Status: event.Aborted, Skip: &event.Skip{By: event.SkippedByAbort}, Time: s.State.Now})
	s.shows(t, "aborted after 5.1 s, 2 of 3 objects done, then deleted by the rollback\n")
	half := newScreen(t, 200, 50, events[:160])
	for id, want := range map[string]string{"shop/api:config": "deleted", "shop/db:schema": "rolling back", "shop/db:config": "ready"} {
		if got := outcomes(half)[id]; got != want {
			t.Errorf("half-way, %s is %q, want %q", id, got, want)
		}
	}
	for _, n := range newScreen(t, 100, 30, events[:117]).Graph.Nodes {
		if n.Outcome != "" {
			t.Errorf("%s is %q before the rollback", n.ID, n.Outcome)
		}
	}
}

// undoing is an upgrade of four groups with two objects each that is being rolled back. undo adds a
// status change of an object in the rollback.
func undoing(t *testing.T) (s *rig, undo func(group, name string, status event.Status, c event.Change)) {
	object := func(name string) *plan.Object { return &plan.Object{Kind: "ConfigMap", Namespace: "n", Name: name} }
	phases := func(name string, kind event.PhaseKind, ids ...string) event.Event {
		p := event.Phase{Name: name, Kind: kind}
		for _, id := range ids {
			p.Groups = append(p.Groups, &plan.Group{ID: "c:" + id, After: []string{}, Objects: []plan.Object{*object(id + "-1"), *object(id + "-2")}})
		}
		return event.Event{Kind: event.KindPlan, Phases: []event.Phase{p}}
	}
	op := &event.Operation{Name: "upgrade", Release: "r", Namespace: "n", Revision: 2, PreviousRevision: 1}
	s = newScreen(t, 120, 40, []event.Event{{Kind: event.KindOperation, Status: event.Running, Operation: op}, phases("apply", event.PhaseApply, "a", "b", "c", "d")})
	for _, id := range []string{"a", "b", "c"} {
		s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:" + id, Status: event.Running, Time: s.Now().Add(1)})
		for _, name := range []string{id + "-1", id + "-2"} {
			s.feed(event.Event{Kind: event.KindObject, Phase: "apply", Group: "c:" + id, Object: object(name), Status: event.Ready, Change: event.Configured})
		}
		s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:" + id, Status: event.Ready})
	}
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:d", Status: event.Skipped},
		event.Event{Kind: event.KindOperation, Status: event.RollingBack},
		phases("rollback/apply", event.PhaseApply, "a", "b", "d"), phases("rollback/remove", event.PhaseRemove, "c"))
	return s, func(group, name string, status event.Status, c event.Change) {
		phase := "rollback/apply"
		if group == "c" {
			phase = "rollback/remove"
		}
		s.feed(event.Event{Kind: event.KindObject, Phase: phase, Group: "c:" + group, Object: object(name), Status: status, Change: c, Time: s.Now().Add(1)})
	}
}

// TestRolledBack is TestUninstalled for a rollback to a revision.
func TestRolledBack(t *testing.T) {
	s, undo := undoing(t)
	undo("a", "a-1", event.Ready, event.Configured)
	undo("a", "a-2", event.Ready, event.Unchanged)
	undo("b", "b-1", event.Ready, event.Unchanged)
	undo("b", "b-2", event.Ready, event.Unchanged)
	undo("c", "c-1", event.Gone, event.Deleted)
	undo("c", "c-2", event.Deleting, event.Deleted)
	undo("d", "d-1", event.Ready, event.Configured)
	expect := func(want map[string]string) {
		t.Helper()
		got := outcomes(s)
		for id, word := range want {
			if got[id] != word {
				t.Errorf("%s is %q, want %q", id, got[id], word)
			}
		}
	}
	expect(map[string]string{"c:a": "rolled back", "c:b": "ready", "c:c": "rolling back", "c:d": "never started"})
	undo("c", "c-2", event.Ready, event.Kept)
	expect(map[string]string{"c:c": "rolling back"})
	undo("a", "a-1", event.Failed, "")
	s.feed(event.Event{Kind: event.KindOperation, Status: event.Failed})
	expect(map[string]string{"c:a": "ready", "c:c": "partly rolled back"})
	s.shows(t, "partly rolled back", "↩ ConfigMap/c-1", "⊘ ConfigMap/d-1")
	s.Sel = screen.Spot{Unit: event.Unit{Phase: "apply", Group: "c:c"}}
	s.press("enter")
	s.shows(t, "partly rolled back (was ready for 0 s), 2 objects", "ConfigMap/c-1  changed, ready, then deleted by the rollback\n")
	s.press("esc")
	s.resized(60, 40).shows(t, "rollback · c:a ", "rollback · delete c:c ")
}

// TestRollbackOfMany: the rollback of 120 groups shows its own groups with their names and layers, and once it is over the groups
// of the operation, which say what became of them; the header has the revision that the rollback wrote, the pane is the report.
func TestRollbackOfMany(t *testing.T) {
	events := graphAt(120, 12, 10)
	events[0].Operation = &event.Operation{Name: "upgrade", Release: "r", Namespace: "n", Revision: 2, PreviousRevision: 1}
	at := events[0].Time.Add(time.Minute)
	undo := event.Operation{Name: "rollback", Release: "r", Namespace: "n", Revision: 3, ToRevision: 1}
	phases := []event.Phase{{Name: "rollback/apply", Kind: event.PhaseApply}, {Name: "rollback/remove", Kind: event.PhaseRemove}}
	for i, g := range events[1].Phases[0].Groups {
		phases[i%2].Groups = append(phases[i%2].Groups, &plan.Group{ID: g.ID, Layer: g.Layer, Objects: g.Objects, After: slices.DeleteFunc(slices.Clone(g.After), func(id string) bool {
			return !slices.ContainsFunc(phases[i%2].Groups, func(o *plan.Group) bool { return o.ID == id })
		})})
	}
	s := newScreen(t, 160, 45, events)
	s.feed(event.Event{Kind: event.KindOperation, Status: event.RollingBack, Operation: &undo, Time: at}, event.Event{Kind: event.KindPlan, Phases: phases, Time: at})
	s.shows(t, "rev 3, as rev 1", "z show all groups", "rollback layer 0", "rollback: delete layer 0")
	s.showsNot(t, "rollback: d…")
	drawn := func(inRollback bool) {
		t.Helper()
		if len(s.board.Cards) != 120 {
			t.Errorf("%d groups are shown:\n%s", len(s.board.Cards), s.text())
		}
		for _, c := range s.board.Cards {
			if c.Node.InRollback() != inRollback {
				t.Fatalf("%s of phase %s is shown", c.Node.ID, c.Node.Phase)
			}
		}
		if !s.Shown(s.Group()) {
			t.Errorf("%s is selected and not shown", s.Group().ID)
		}
	}
	drawn(true)
	for _, p := range phases {
		for _, g := range p.Groups {
			status, change := event.Ready, event.Configured
			if p.Kind == event.PhaseRemove {
				status, change = event.Gone, event.Deleted
			}
			s.feed(event.Event{Kind: event.KindGroup, Phase: p.Name, Group: g.ID, Status: event.Running, Time: at})
			for _, o := range g.Objects {
				s.feed(event.Event{Kind: event.KindObject, Phase: p.Name, Group: g.ID, Object: &o, Status: status, Change: change, Time: at})
			}
			s.feed(event.Event{Kind: event.KindGroup, Phase: p.Name, Group: g.ID, Status: status, Time: at})
		}
	}
	s.feed(event.Event{Kind: event.KindOperation, Status: event.Failed, Exit: new(1), Release: "deployed", Outcome: "the release was rolled back to revision 1", Time: at})
	drawn(false)
	s.shows(t, "rev 3, as rev 1", "─ report ─", "rolled back to revision 1")
	if s.press("z"); len(s.board.Cards) != 240 {
		t.Errorf("z shows %d groups", len(s.board.Cards))
	}
}

// TestAbortedByUser shows the outcome without the failures that the abort caused.
func TestAbortedByUser(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.press("a", "r")
	s.feed(event.Event{Kind: event.KindOperation, Status: event.RollingBack, Origin: &event.Origin{Command: event.Rollback}, Message: "aborted; shop/api:server: Deployment/shop-api: not ready"})
	s.shows(t, "aborted by you")
	s.showsNot(t, "aborted; api:server")
	s.feed(event.Event{Kind: event.KindOperation, Status: event.Aborted, Exit: new(int), Origin: &event.Origin{Command: event.Rollback}, Outcome: "the release was uninstalled",
		Message: "the release was uninstalled: aborted; shop/api:server: Deployment/shop-api: not ready", Time: s.State.Now})
	s.shows(t, "✗ aborted by you  the release was uninstalled  ")
}

// TestReportFits: no line of a report is wider than the page.
func TestReportFits(t *testing.T) {
	for _, run := range []string{"sandbox-install", "sandbox-upgrade", "sandbox-rollback", "failed"} {
		s := newScreen(t, 100, 30, recorded(t, run, 0), next)
		s.State.Outcome = "the release is marked failed; created by this run and not deleted: Namespace/t9, Deployment/t9-web, Service/t9-web"
		for _, width := range []int{32, 52, 72} {
			for _, l := range s.reportLines(width) {
				if canvas.Width(l.Text()) > width {
					t.Errorf("%s: wider than %d: %s", run, width, l.Text())
				}
			}
		}
	}
}

// TestNothingMoreStarts: once a run is ending, nothing is called waiting.
func TestNothingMoreStarts(t *testing.T) {
	s := newScreen(t, 200, 50, recorded(t, "sandbox-install", 63))
	s.feed(event.Event{Kind: event.KindRun, Status: event.Aborting, Message: "aborting by ctrl-c", Time: s.State.Now})
	s.shows(t, "15 will not start", "8 groups will not start: ")
	s = newScreen(t, 200, 50, recorded(t, "sandbox-rollback", 160))
	s.Sel.Unit = event.Unit{Phase: "apply", Group: "shop/api:server"}
	s.press("enter")
	s.shows(t, "4 groups never started: ")
	s = newScreen(t, 280, 50, recorded(t, "failed", 0))
	s.shows(t, "13 never started")
	s.showsNot(t, " waiting")
}

// TestNeverStarted says it once for a group, and for its objects too.
func TestNeverStarted(t *testing.T) {
	s, _ := undoing(t)
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:d", Status: event.Skipped, Skip: &event.Skip{By: event.SkippedByFailure, Group: "c:a"}},
		event.Event{Kind: event.KindOperation, Status: event.Failed})
	s.Sel.Unit = event.Unit{Phase: "apply", Group: "c:d"}
	s.press("enter")
	s.shows(t, "never started, 2 objects: c:a failed", "⊘ ConfigMap/d-1  never started")
}
