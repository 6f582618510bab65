package board

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/golden"
)

// graphOf is a half-finished run of groups, per of them in each layer; each group waits for some of the
// layer before.
func graphOf(groups, per int) []event.Event { return graphAt(groups, per, groups/per/2) }

// graphAt is that run at a layer.
func graphAt(groups, per, layer int) []event.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	events := []event.Event{{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r", Namespace: "n"}, Time: at}, {}}
	for i := range groups {
		g := &plan.Group{ID: fmt.Sprintf("r/part-%d:step-%02d", i%7, i), Layer: i / per}
		for k := max(0, (i/per-1)*per); k < i/per*per; k += 2 {
			g.After = append(g.After, p.Groups[k].ID)
		}
		for k := range 1 + i%4 {
			g.Objects = append(g.Objects, plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: fmt.Sprintf("service-%02d-%d", i, k)})
		}
		p.Groups = append(p.Groups, g)
		events = append(events, groupEvents(p.Name, g, i/per, layer, at)...)
	}
	events[1] = event.Event{Kind: event.KindPlan, Phases: []event.Phase{p}, Time: at}
	for i := range events {
		events[i].Seq = uint64(i + 1)
	}
	return events
}

// TestLargeGolden compares charts of 40 and 300 groups in each state at all sizes, with one file per
// state. TestGolden has a small chart.
func TestLargeGolden(t *testing.T) {
	at := func(name string, groups, per, layer int, more ...event.Event) {
		inBubble(t, func(t *testing.T) {
			events := append(graphAt(groups, per, layer), more...)
			var all strings.Builder
			for _, size := range sizes {
				s := newScreen(t, size[0], size[1], events, look(bare))
				fmt.Fprintf(&all, "%d×%d\n%s\n", size[0], size[1], s.text())
				if l := bare; size[0] == 100 {
					l.ASCII = true
					plain := newScreen(t, size[0], size[1], events, look(l)).text()
					if strings.ContainsFunc(plain, func(r rune) bool { return r > 126 }) {
						t.Errorf("%s of %d groups is not ASCII:\n%s", name, groups, plain)
					}
				}
			}
			golden.Compare(t, fmt.Sprintf("large-%d-%s", groups, name), all.String())
		})
	}
	now := time.Date(2026, 11, 20, 12, 0, 9, 0, time.UTC)
	for _, size := range [][2]int{{40, 4}, {300, 10}} {
		groups, per := size[0], size[1]
		half, i := groups/per/2, groups/2
		next := fmt.Sprintf("r/part-%d:step-%02d", (i+per)%7, i+per)
		at("running", groups, per, half)
		at("done", groups, per, groups, event.Event{Kind: event.KindOperation, Status: event.Succeeded, Time: now})
		at("breakpoint", groups, per, half,
			event.Event{Kind: event.KindBreakpoint, Phase: "apply", Group: next, Status: event.Set, Time: now},
			event.Event{Kind: event.KindRun, Status: event.Paused, Message: "breakpoint " + next, Time: now})
		stuck := fmt.Sprintf("r/part-%d:step-%02d", i%7, i)
		o := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: fmt.Sprintf("service-%02d-0", i)}
		at("held", groups, per, half,
			event.Event{Kind: event.KindGroup, Phase: "apply", Group: stuck, Object: &o, Status: event.Failed, Cause: "not ready after 5m", Time: now},
			event.Event{Kind: event.KindRun, Status: event.Held, Message: stuck, Time: now},
			event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: stuck, Object: &o, Cause: "image example/service:9 cannot be pulled: not found", Time: now})
	}
}

// TestAllGroupsAreInView: a chart of 40 groups at 160×45, and one of 300 at 200×50, whatever the layers.
func TestAllGroupsAreInView(t *testing.T) {
	for _, tt := range []struct{ w, h, groups, per int }{
		{160, 45, 40, 1}, {160, 45, 40, 2}, {160, 45, 40, 4}, {160, 45, 40, 5}, {160, 45, 40, 13}, {160, 45, 40, 40},
		{120, 40, 40, 4}, {100, 30, 15, 2}, {80, 24, 15, 2}, {200, 50, 300, 10}, {200, 50, 300, 20},
	} {
		s := newScreen(t, tt.w, tt.h, graphOf(tt.groups, tt.per))
		in := map[string]bool{}
		for _, c := range s.board.Cards {
			if c.Rect.X >= 0 && c.Rect.X+c.Rect.W <= tt.w && c.Rect.Y >= s.board.Area.Y && c.Rect.Y < s.board.Area.Y+s.board.Area.H {
				in[c.Node.ID] = true
			}
		}
		if len(in) != tt.groups || len(s.board.Folds) > 0 {
			t.Errorf("%d groups, %d a layer, at %d×%d: %d are in view:\n%s", tt.groups, tt.per, tt.w, tt.h, len(in), s.text())
		}
	}
}

// outOfView matches the lines that stand for something out of view.
var outOfView = regexp.MustCompile(`… \d+ |\d+ more|and \d+ `)

// hides reports whether something is out of view that might fit.
func (s *rig) hides() bool {
	return outOfView.MatchString(s.text()) || len(s.board.Folds) > 0 || len(s.board.Cards) < len(s.Graph.Nodes)
}

// TestRoomIsUsed: less than a quarter of a large screen's rows is empty while something is hidden.
func TestRoomIsUsed(t *testing.T) {
	runs := map[string][]event.Event{"40": graphOf(40, 4), "40 in a chain": graphOf(40, 1), "15": graphOf(15, 2), "300": graphOf(300, 10)}
	for _, name := range []string{"sandbox-install", "sandbox-held", "sandbox-breakpoint", "sandbox-rollback"} {
		runs[name] = recorded(t, name, 0)
	}
	for name, events := range runs {
		s := newScreen(t, 200, 50, events)
		empty := 0
		for _, l := range s.lines() {
			if strings.TrimSpace(l) == "" {
				empty++
			}
		}
		if empty*4 >= 50 && s.hides() {
			t.Errorf("%s: %d of 50 rows are empty:\n%s", name, empty, s.text())
		}
	}
}

// TestNoTextTwice: no text appears in two places of a screen.
func TestNoTextTwice(t *testing.T) {
	for _, name := range []string{"sandbox-install", "sandbox-held", "sandbox-breakpoint", "sandbox-rollback", "running"} {
		all := recorded(t, name, 0)
		for _, size := range sizes[1:] {
			for _, n := range []int{len(all) / 3, len(all) * 2 / 3, len(all)} {
				s := newScreen(t, size[0], size[1], all[:n])
				seen := map[string]int{}
				for _, l := range s.lines() {
					for _, part := range strings.FieldsFunc(l, func(r rune) bool { return strings.ContainsRune("│┃╭╮╰╯┏┓┗┛─━", r) }) {
						if part = strings.TrimSpace(part); strings.Count(part, " ") >= 5 {
							seen[part]++
						}
					}
				}
				for part, n := range seen {
					if n > 1 {
						t.Errorf("%s at %v: %d times the text %q:\n%s", name, size, n, part, s.text())
					}
				}
			}
		}
	}
}
