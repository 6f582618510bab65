package board

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
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
	s.shows(t, `FATAL: relation "orders" does not exist`, "db:schema", "more: ", "post-install")
	s = newScreen(t, 60, 20, recorded(t, "sandbox-held", 0))
	s.shows(t, "api:server", "post-install", "+ 10 more ready", "Failed: Error")
	if got := s.lines()[1]; !strings.Contains(got, "✗ held  api:server") || !strings.Contains(s.lines()[2], "A re-check") {
		t.Errorf("the header takes more than a line of a full board:\n%s", s.text())
	}
}
