package board

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
)

// within fails if a frame is larger than the terminal.
func within(t *testing.T, s *rig, what string) {
	t.Helper()
	frame := s.View().Content
	lines := strings.Split(frame, "\n")
	if len(lines) > s.H {
		t.Fatalf("%s: %d lines on %d rows", what, len(lines), s.H)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > s.W {
			t.Fatalf("%s: line %d is %d wide on %d columns: %q", what, i, w, s.W, ansi.Strip(l))
		}
	}
}

// TestSizes draws every screen at sizes from 20×5 to 220×60: no frame is larger than the terminal.
func TestSizes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		step := 9
		if testing.Short() {
			step = 25
		}
		for _, v := range views {
			s := v.open(t, 100, 30, dark)
			for w := 20; w <= 220; w += step {
				for h := 5; h <= 60; h += step {
					s.send(tea.WindowSizeMsg{Width: w, Height: h})
					within(t, s, fmt.Sprintf("%s at %d×%d", v.name, w, h))
				}
			}
		}
		for w := range 22 { // what nobody has, but a terminal may say for a moment
			newScreen(t, w, w/3, recorded(t, "sandbox-held", 0)).View()
		}
	})
}

// TestSizesAtRandom presses keys and resizes at random during a run with hostile names.
func TestSizesAtRandom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keys := []string{"up", "down", "left", "right", "tab", "shift+tab", "home", "end", "g", "pgup", "pgdown", "enter", "esc", "/", "a", "o",
			"?", "w", "f", "F", "p", "b", "(", ")", "q", "d", "y", "Y", "v", "l", "s", "C", ":", "n", "N", "0", "[", "]", "{", "}", "T"}
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			events := hostile(recorded(t, "sandbox-rollback", 0), rnd)
			s := newScreen(t, 80, 24, nil)
			for i, e := range events {
				if i%3 == 0 {
					s.send(tea.WindowSizeMsg{Width: 20 + rnd.IntN(201), Height: 5 + rnd.IntN(56)})
				}
				s.Update(batchMsg{events: []event.Event{e}, more: true})
				key := keys[rnd.IntN(len(keys))]
				s.press(key)
				within(t, s, fmt.Sprintf("seed %d, event %d, %s at %d×%d", seed, i, key, s.W, s.H))
				if text := s.View().Content; strings.ContainsAny(text, "\x07\t\r\u202e") || strings.Contains(text, "\x1b]") {
					t.Fatalf("seed %d: text from the cluster is not clean: %q", seed, text)
				}
			}
		}
	})
}

// nasty are texts that a cluster may send.
var nasty = []string{
	"", "日本語のメッセージ", "👩‍👩‍👧‍👦 family", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\tb\r\nc", strings.Repeat("long ", 60),
	"e\u0301\u0301\u0301", "\u202eevil", "🇩🇪🇫🇷", "\xff\xfe", "no\u200bspace",
}

// hostile returns a run with hostile messages and lines.
func hostile(events []event.Event, rnd *rand.Rand) []event.Event {
	out := make([]event.Event, len(events))
	for i, e := range events {
		if e.Message != "" || rnd.IntN(3) == 0 {
			e.Message = nasty[rnd.IntN(len(nasty))]
		}
		for range e.Lines {
			e.Lines = append(e.Lines[:0:0], nasty[rnd.IntN(len(nasty))], nasty[rnd.IntN(len(nasty))])
		}
		out[i] = e
	}
	return out
}

// TestNarrowTexts: if a line is too narrow, the least important part is dropped before a name or a key is cut.
func TestNarrowTexts(t *testing.T) {
	s := newScreen(t, 60, 20, recorded(t, "sandbox-install", 7))
	s.feed(event.Event{Time: s.State.Now, Kind: event.KindRun, Status: event.Paused, Message: "before the first group"})
	s.shows(t, "‖ paused  ▷ next: Job/shop-preflight")
	s.SetFilter("shop-worker-nothing-at-all")
	s.stale = true
	s.shows(t, "/shop-worker-nothin…  0 of 16  esc clear")

	s, observe := overAndWatched(t, 60, 20)
	u, o := workload(t, s)
	observe(event.Event{Kind: event.KindObject, Phase: u.Phase, Group: u.Group, Object: &o.Object, Status: event.InProgress})
	s.showsNot(t, "· since")
}

// TestTimingsOfUnfinishedObject: the timings of an object end with those of its group.
func TestTimingsOfUnfinishedObject(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-rollback", 0))
	s.Sel.Unit = event.Unit{Phase: "apply", Group: "shop/api:server"}
	s.press("8")
	s.shows(t, "  deploy/shop-api                             +7.5 s     +13 s     5.0 s\n")
}
