package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// brokenLayer is an installation in which all groups of the second of three layers are broken.
func brokenLayer() []event.Event {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := func(kind, name string) []plan.Object { return []plan.Object{{Kind: kind, Name: name}} }
	groups := []*plan.Group{{ID: "s:base", Chart: "s", Name: "base", Objects: []plan.Object{{Kind: "ResourceQuota", Name: "limits"}, {Kind: "ConfigMap", Name: "settings"}}}}
	for _, name := range []string{"api", "cache", "migrate", "report", "worker"} {
		groups = append(groups, &plan.Group{ID: "s:" + name, Chart: "s", Name: name, Layer: 1, After: []string{"s:base"}, Objects: one("Deployment", name)})
	}
	groups = append(groups, &plan.Group{ID: "s:web", Chart: "s", Name: "web", Layer: 2, After: []string{"s:api"}, Objects: one("Deployment", "web")})
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}},
	}
	object := func(g *plan.Group, o plan.Object, status event.Status) {
		events = append(events, event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &o, Status: status})
	}
	for i, g := range groups[:6] {
		events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running})
		for _, o := range g.Objects {
			if i == 0 {
				object(g, o, event.Ready)
				continue
			}
			object(g, o, event.InProgress)
			events = append(events, event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &o, Status: event.Degraded, Cause: fmt.Sprintf("container main cannot start: image example/%s:1 not found", g.Name)})
		}
		if i == 0 {
			events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Ready})
		}
	}
	for n := range events {
		events[n].Seq, events[n].Time = uint64(n+1), began.Add(time.Duration(n)*time.Second)
	}
	return events
}

var recordedRuns = []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "sandbox-upgrade", "failed", "retried"}

// TestNoNameIsCutBesideRoom: no column is too narrow for the names of its groups while another one in the same band is wider than its own
// names need, or cells are free at the end of the band.
func TestNoNameIsCutBesideRoom(t *testing.T) {
	for _, run := range recordedRuns {
		for _, size := range sizes {
			s := newScreen(t, size[0], size[1], recorded(t, run, 0))
			var own []cards.Column // of a band
			check := func() {
				short, wide := "", ""
				for _, p := range own {
					c := s.Graph.Cols[p.Index]
					needs := max(c.ObjectWidth, graph.MinCard)
					if s.board.Tight {
						needs = max(c.ObjectWidth, graph.TightCard)
					}
					if s.board.LinesOnly {
						needs = max(c.NameWidth, 14)
					}
					if p.W < c.NameWidth {
						short = c.Title
					}
					if p.W > needs {
						wide = c.Title
					}
				}
				if short != "" && wide != "" {
					t.Errorf("%s at %v: the names of %s are cut, and %s is wider than its own:\n%s", run, size, short, wide, s.text())
				}
				own = nil
			}
			for _, p := range s.board.Columns {
				if n := len(own); n > 0 && p.X <= own[n-1].X {
					check()
				}
				own = append(own, p)
			}
			check()
		}
	}
}

// TestCausesGetTheRoom: where a column has no rows to wrap the causes of its groups, it gets the free width, and the causes take the row
// of the object's name.
func TestCausesGetTheRoom(t *testing.T) {
	s := newScreen(t, 100, 30, brokenLayer())
	words := strings.Join(strings.Fields(s.text()), " ")
	for _, name := range []string{"api", "cache", "migrate", "report", "worker"} {
		if end := "example/" + name + ":1 not found"; !strings.Contains(words, end) {
			t.Errorf("the cause of %s is cut:\n%s", name, s.text())
		}
	}
}

// TestDegradedAreNotFolded: on the smallest screens, groups in trouble have a line each with the cause, also those that were ready before.
func TestDegradedAreNotFolded(t *testing.T) {
	events := brokenLayer()
	at := events[len(events)-1].Time
	for _, name := range []string{"migrate", "worker"} {
		events = append(events, event.Event{Seq: uint64(len(events) + 1), Time: at, Kind: event.KindGroup, Phase: "apply", Group: "s:" + name, Status: event.Ready})
	}
	s := newScreen(t, 60, 20, events)
	for _, name := range []string{"api", "cache", "migrate", "report", "worker"} {
		s.shows(t, "image example/"+name)
	}
}

// TestSelectionKeepsTheShape: moving the selection moves no card and changes none.
func TestSelectionKeepsTheShape(t *testing.T) {
	for _, run := range recordedRuns {
		for _, size := range sizes[1:] {
			s := newScreen(t, size[0], size[1], recorded(t, run, 0))
			s.press("home") // stops following the run
			shape := func() (all []canvas.Rect) {
				if !s.board.ShowsAll { // it may scroll
					for _, c := range s.board.Cards {
						all = append(all, canvas.Rect{W: c.Rect.W, H: c.Rect.H})
					}
					return all
				}
				return s.places()
			}
			was := shape()
			for range 2 * len(s.Graph.Nodes) {
				for _, key := range []string{"tab", "down"} {
					s.press(key)
					if now := shape(); !slices.Equal(now, was) {
						t.Fatalf("%s at %v: with %s selected, the cards are %v, were %v:\n%s", run, size, s.Group().ID, now, was, s.text())
					}
				}
			}
		}
	}
}
