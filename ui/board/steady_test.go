package board

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// counted matches the end of the state line.
var counted = regexp.MustCompile(`\d+(/| of )\d+( ready| gone)?$`)

// TestAlwaysOnScreen: at every size and throughout every run, the state line has counts and bar, and the
// footer has help and, while the run is paused, inspect and a way to continue. No line is wider than
// the screen, and the selection is in view.
func TestAlwaysOnScreen(t *testing.T) {
	for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "failed", "retried"} {
		events := recorded(t, run, 0)
		s := newScreen(t, 100, 30, nil)
		for i, e := range events {
			s.Update(batchMsg{events: []event.Event{e}, more: true})
			stands := s.State.Run == event.Paused || s.State.Run == event.Held
			if !stands && i%7 > 0 && i < len(events)-1 {
				continue
			}
			for _, size := range append(sizes, [2]int{64, 16}, [2]int{120, 40}) {
				s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				what := fmt.Sprintf("%s, event %d at %v", run, i, size)
				within(t, s, what)
				lines := s.lines()
				state, footer := lines[1], lines[len(lines)-1]
				if s.Tally.Total > 0 && (!counted.MatchString(strings.TrimRight(state, " ")) || !strings.ContainsAny(state, "━─╸")) {
					t.Fatalf("%s: the state line lacks counts or bar:\n%s", what, s.text())
				}
				if !strings.Contains(footer, "help") || s.Group() != nil && !strings.Contains(footer, "inspect") {
					t.Fatalf("%s: the footer is %q", what, footer)
				}
				if s.State.Run == event.Paused && !s.Over() && (!strings.Contains(footer, "resume") || !strings.Contains(footer, "n step") || !strings.Contains(footer, "a abort")) {
					t.Fatalf("%s: the footer is %q", what, footer)
				}
				if n := s.Group(); n != nil {
					if from, to := s.board.Extent(n); to <= s.board.Top || from >= s.board.Top+s.board.Area.H {
						t.Fatalf("%s: %s is out of view:\n%s", what, n.ID, s.text())
					}
				}
			}
		}
	}
}

// TestPaneGetsFreeRows: no rows are empty between the board and the pane, and the pane's position does
// not depend on the selection, unless its text needs more rows.
func TestPaneGetsFreeRows(t *testing.T) {
	for _, size := range sizes {
		s := newScreen(t, size[0], size[1], twoStuck()[:3])
		if s.board.Area.H > max(s.board.SteadyRows(), s.board.Rows) {
			t.Errorf("at %v the board has %d rows for %d:\n%s", size, s.board.Area.H, s.board.Rows, s.text())
		}
		if s.insp.Area.Y+s.insp.Area.H != s.H-1 {
			t.Errorf("at %v the pane ends at %d", size, s.insp.Area.Y+s.insp.Area.H)
		}
		was := s.insp.Area
		for range 6 {
			s.press("down")
			s.press("tab")
			if s.insp.Area != was {
				t.Errorf("at %v the pane moves from %v to %v", size, was, s.insp.Area)
			}
		}
	}
}

// TestFreeRowsShowFailure: even on the smallest screens, the last lines of a failure are visible, and
// finished groups give way to them and to waiting groups.
func TestFreeRowsShowFailure(t *testing.T) {
	s := newScreen(t, 60, 20, recorded(t, "failed", 0))
	s.shows(t, `FATAL: relation "orders" does not exist`, "db:schema", "more: ", "Job/shop-smoke-test")
	s = newScreen(t, 60, 20, recorded(t, "sandbox-held", 0))
	s.shows(t, "api:server", "Job/shop-smoke-test", "+ 10 more ready", "Failed: Error")
	if got := s.lines()[1]; !strings.Contains(got, "✗ held  api:server") || !strings.Contains(s.lines()[2], "A re-check") {
		t.Errorf("the header takes more than a line of a full board:\n%s", s.text())
	}
}

// TestPictureKeepsItsShape: at every size with columns and throughout every run, cards keep their places and heights, and none
// becomes a line, unless the plan or the window changes. Only a failure may make cards taller, and move those below them; its cause may
// also make finished cards lower, and it may take the card of a finished group; at the end of the run, cards lose their empty rows. Of each run, about fifty moments are drawn; the stride is odd, so that they are different moments of each group.
func TestPictureKeepsItsShape(t *testing.T) {
	runs := map[string][]event.Event{"15 groups": stopsOf(15, 2), "40 groups": stopsOf(40, 4), "120 groups": stopsOf(120, 12), "300 groups": stopsOf(300, 20)}
	for _, name := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "sandbox-upgrade", "failed", "retried"} {
		runs[name] = recorded(t, name, 0)
	}
	type place struct {
		x, y, w, h int
		line       bool
	}
	for name, events := range runs {
		for _, size := range append(slices.Clone(sizes), [2]int{120, 40}) {
			s := newScreen(t, size[0], size[1], nil)
			var was map[*graph.Node]place
			phases, calm := 0, true
			stride := len(events)/50 | 1
			from := 0
			for i := 2; i < len(events); from, i = i+1, i+stride {
				s.Update(batchMsg{events: events[from : i+1], more: true})
				s.View()
				scrolls := !s.board.ShowsAll && (len(s.board.Columns) < len(s.Graph.Cols) || s.board.Rows > s.board.Area.H)
				failure := slices.ContainsFunc(s.Graph.Nodes, func(n *graph.Node) bool { return n.Status == event.Failed || n.Degraded > 0 })
				trouble := slices.ContainsFunc(s.Graph.Nodes, picture.InTrouble)
				at := map[*graph.Node]place{}
				for _, c := range s.board.Cards {
					at[c.Node] = place{c.Rect.X, c.Rect.Y - s.board.Area.Y, c.Rect.W, c.Rect.H, c.IsLine()}
				}
				if n := len(s.State.Phases); n != phases || !calm && !trouble || s.Over() {
					phases, was = n, nil
				}
				calm = !trouble
				for n, now := range at {
					before, ok := was[n]
					if scrolls {
						before.x, before.y, before.w = now.x, now.y, now.w
					}
					if trouble && now.h >= before.h || failure && (n.Status.Over() || now.h >= before.h) {
						before.y, before.h = now.y, now.h
					}
					if failure && (n.Status.Over() || !now.line) {
						before.line = now.line
					}
					if ok && now != before {
						t.Fatalf("%s at %v, event %d: %s moved from %v to %v:\n%s", name, size, i, n.ID, before, now, s.text())
					}
				}
				if was == nil || calm {
					was = at
				}
			}
		}
	}
}

// stopsOf is a run of groups that stops before each: one is ready, the next one is about to start.
func stopsOf(groups, per int) []event.Event {
	all := graphAt(groups, per, -1)[:2]
	at := all[1].Time
	for _, g := range all[1].Phases[0].Groups {
		all = append(all, event.Event{Kind: event.KindRun, Status: event.Paused, Message: "breakpoint " + g.ID, Time: at},
			event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.AtBreakpoint, Message: "breakpoint", Time: at},
			event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Running, Time: at})
		for _, status := range []event.Status{event.InProgress, event.Ready} {
			for _, o := range g.Objects {
				all = append(all, event.Event{Kind: event.KindObject, Phase: "apply", Group: g.ID, Object: &o, Status: status, Message: "1 of 3 available", Time: at})
			}
		}
		all = append(all, event.Event{Kind: event.KindGroup, Phase: "apply", Group: g.ID, Status: event.Ready, Time: at})
	}
	for i := range all {
		all[i].Seq, all[i].Time = uint64(i+1), at.Add(time.Duration(i)*time.Second)
	}
	return all
}
