package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/graph"
)

// crowded is an installation of a root group, a wide layer that waits for it, and a last group. In the
// layer, one group has failed, and the given numbers of groups are ready, running and waiting.
func crowded(ready, running, waiting int) []event.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	object := func(name string) []plan.Object {
		return []plan.Object{{Group: "apps", Kind: "Deployment", Name: "platform-payments-" + name}, {Kind: "Service", Name: "platform-payments-" + name}}
	}
	groups := []*plan.Group{{ID: "s:root", Chart: "s", Name: "root", Objects: object("root")}}
	last := &plan.Group{ID: "s:last", Chart: "s", Name: "last", Layer: 2, Objects: object("last")}
	var events []event.Event
	be := func(g *plan.Group, group, object event.Status) {
		events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running})
		for _, o := range g.Objects {
			events = append(events, event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &o, Status: object})
		}
		if group != event.Running {
			events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: group, Message: "it is broken"})
		}
	}
	be(groups[0], event.Ready, event.Ready)
	for i := range ready + running + 1 + waiting {
		name := fmt.Sprintf("payments-worker-%02d", i)
		g := &plan.Group{ID: "s:" + name, Chart: "s", Name: name, Layer: 1, After: []string{"s:root"}, Objects: object(name)}
		groups = append(groups, g)
		last.After = append(last.After, g.ID)
		switch {
		case i < ready:
			be(g, event.Ready, event.Ready)
		case i < ready+running:
			be(g, event.Running, event.InProgress)
		case i == ready+running:
			be(g, event.Failed, event.Failed)
		}
	}
	events = append([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: append(groups, last)}}},
	}, events...)
	for n := range events {
		events[n].Seq, events[n].Time = uint64(n+1), at.Add(time.Duration(n)*time.Second)
	}
	return events
}

// TestCrowdedLayerFolds: groups that need attention are in view without scrolling, finished groups fold
// first, one line stands for the groups that do not fit, and every group can be reached.
func TestCrowdedLayerFolds(t *testing.T) {
	for _, size := range sizes[1:] {
		for _, n := range [][3]int{{30, 4, 0}, {4, 40, 4}, {0, 60, 0}, {3, 3, 70}, {1, 1, 1}} {
			s := newScreen(t, size[0], size[1], crowded(n[0], n[1], n[2]))
			what := fmt.Sprintf("%v at %v", n, size)
			col := s.Graph.Cols[1].Nodes
			whole := func() {
				t.Helper()
				if s.board.Rows > s.board.Area.H {
					t.Fatalf("%s: %d rows on a board of %d:\n%s", what, s.board.Rows, s.board.Area.H, s.text())
				}
				in := map[*graph.Node]bool{}
				for _, c := range s.board.Cards {
					in[c.Node] = true
				}
				folded := 0
				for _, f := range s.board.Folds {
					for _, n := range f.Nodes {
						folded++
						if in[n] || s.IsSelected(n) {
							t.Errorf("%s: %s is folded, but also in view or selected", what, n.ID)
						}
						in[n] = true
						if n.Status == event.Failed {
							t.Errorf("%s: a failed group is folded", what)
						}
					}
				}
				for _, n := range col {
					if !in[n] {
						t.Errorf("%s: %s is neither in view nor folded", what, n.ID)
					}
				}
				if want := fmt.Sprintf("%d more", folded); folded > 0 && !strings.Contains(s.text(), want) {
					t.Errorf("%s: the screen does not show %q:\n%s", what, want, s.text())
				}
			}
			whole()
			for _, f := range s.board.Folds {
				finished := 0
				for _, n := range f.Nodes {
					if n.Status == event.Ready {
						finished++
					}
				}
				if finished < min(n[0], len(f.Nodes)) {
					t.Errorf("%s: %d groups are folded, and only %d of %d that are ready:\n%s", what, len(f.Nodes), finished, n[0], s.text())
				}
			}
			s.board.Select(col[0])
			for _, n := range col[1:] {
				for was := s.Sel.Unit; s.Sel.Unit == was; {
					at := s.Sel
					s.press("down")
					if s.Sel == at {
						t.Fatalf("%s: down stops at %s", what, at.Group)
					}
				}
				if s.Group() != n {
					t.Fatalf("%s: down went to %s, want %s", what, s.Group().ID, n.ID)
				}
				whole()
			}
		}
	}
}

// TestFoldOpens: a click on a fold shows every group in the overview; z shows everything.
func TestFoldOpens(t *testing.T) {
	s := newScreen(t, 100, 30, crowded(4, 200, 4))
	f := s.board.Folds[0]
	s.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: f.Rect.X + 2, Y: f.Rect.Y})
	if len(s.board.Folds) > 0 || s.Group() != f.Nodes[0] || !s.board.ShowsAll || s.board.Rows > s.board.Area.H {
		t.Errorf("after a click there are %d folds and %d rows, and %s is selected:\n%s", len(s.board.Folds), s.board.Rows, s.Group().ID, s.text())
	}
	s.press("z")
	s.shows(t, "full (z", "deploy/")
	s.press("z")
	if len(s.board.Folds) == 0 {
		t.Errorf("z does not fold again:\n%s", s.text())
	}
}

// TestPrefixIsShownOnce: in the title of a column if all its groups share it, and on a card for its
// objects.
func TestPrefixIsShownOnce(t *testing.T) {
	s := newScreen(t, 80, 24, crowded(1, 1, 1))
	s.shows(t, " 1 · payments-worker-…", "✓ …00", "◐ …01", "✗ …02", "○ …03", "deploy/…root")
	s = newScreen(t, 140, 50, crowded(1, 1, 1))
	s.shows(t, "layer 1  ", "payments-worker-00", "svc/…payments-payments-worker-00", "platform-…")
}

// TestKindsAreConsistent: on one card, all kinds are written in full, or all as kubectl shortens them.
func TestKindsAreConsistent(t *testing.T) {
	for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback"} {
		for _, size := range sizes[1:] {
			s := newScreen(t, size[0], size[1], recorded(t, run, 0))
			for _, n := range s.Graph.Nodes {
				s.board.Select(n)
				for i := range s.board.Cards {
					c := &s.board.Cards[i]
					wr := s.Graph.NameStyle(c.Node, s.board.ReasonWidth(c))
					for _, at := range c.Spots()[1:] {
						long := graph.ShortObject(at.Object)
						if name := wr.Object(at.Object, s.board.ReasonWidth(c), "…"); wr.Short == (name == long) && strings.HasPrefix(long, "Deployment/") {
							t.Errorf("%s at %v: %s is written %s, unlike others", run, size, long, name)
						}
					}
				}
			}
		}
	}
}

// TestStripShowsAllLayers: the strip has a cell for each layer and brackets around those in view; a
// click on a cell brings its layer into view.
func TestStripShowsAllLayers(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
	s.press("z", "z") // all objects: the layers are not all in view
	s.shows(t, "✓✓✗]", "+4 ▸")
	cells := s.board.StripCells()
	if len(cells) != len(s.Graph.Cols) {
		t.Fatalf("%d cells for %d layers", len(cells), len(s.Graph.Cols))
	}
	for i := range cells {
		c := s.board.StripCells()[i]
		s.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: c.X, Y: s.board.Strip.Rect.Y})
		if s.Group().Col != i || !s.board.StripCells()[i].InView {
			t.Errorf("a click on layer %d selected column %d:\n%s", i, s.Group().Col, s.text())
		}
	}
	s = newScreen(t, 100, 30, large(10_000))
	if s.board.Strip.Rect.W > 60 || !strings.Contains(s.text(), "[") {
		t.Errorf("the strip of 30 layers:\n%s", s.text())
	}
}
