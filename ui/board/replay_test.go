package board

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/replay"
)

// replayed is a replay of a run that is paused after event at, 0 for its end.
func replayed(t testing.TB, run string, at int, opts ...func(*Options)) *rig {
	t.Helper()
	p := replay.NewPlayer(recorded(t, run, 0), 0)
	if at > 0 {
		p.Stop(at)
	}
	s := newScreen(t, 200, 50, nil, append(opts, func(o *Options) { *o = o.replaying(p) })...)
	s.replay.Begin()
	s.View()
	return s
}

func (s *rig) resized(w, h int) *rig {
	s.send(tea.WindowSizeMsg{Width: w, Height: h})
	return s
}

// reduced returns the state after some events.
func reduced(events []event.Event) *event.State {
	s := &event.State{}
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

// TestReplayMatchesEvents: at each event, the replay shows the state of the events so far, in whatever
// order it goes to them.
func TestReplayMatchesEvents(t *testing.T) {
	for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "retried", "failed"} {
		t.Run(run, func(t *testing.T) {
			s := replayed(t, run, 0)
			rnd := rand.New(rand.NewPCG(1, 1))
			events := s.replay.Events()
			for range 60 {
				switch at := 1 + rnd.IntN(len(events)); rnd.IntN(3) {
				case 0:
					s.goToEvent(at)
				case 1:
					s.press([]string{"left", "right"}[rnd.IntN(2)])
				case 2:
					s.press([]string{",", ".", "!", "@", "<", ">"}[rnd.IntN(6)])
				}
				at := s.replay.At()
				if want := reduced(events[:at]); !reflect.DeepEqual(&s.State, want) {
					t.Fatalf("at event %d the state differs from that of the events", at)
				}
				if fresh := replayed(t, run, at); s.Tally != fresh.Tally || s.Over() != fresh.Over() {
					t.Fatalf("at event %d: %+v, want %+v", at, s.Tally, fresh.Tally)
				}
				within(t, s, fmt.Sprint("event ", at))
			}
		})
	}
}

// TestReplayKeys goes to the positions that the keys stand for.
func TestReplayKeys(t *testing.T) { inBubble(t, testReplayKeys) }

func testReplayKeys(t *testing.T) {
	s := replayed(t, "failed", 10)
	events := s.replay.Events()
	at := func(key string, want int) {
		t.Helper()
		if s.press(key); s.replay.At() != want {
			t.Errorf("%s goes to event %d, want %d", key, s.replay.At(), want)
		}
	}
	nth := func(n int, what func(event.Event) bool) int {
		for i, e := range events {
			if what(e) {
				if n--; n == 0 {
					return i + 1
				}
			}
		}
		t.Fatal("the record has no failure")
		return 0
	}
	at("right", 11)
	at("left", 10)
	at("<", 1)
	at("left", 1)
	at(".", nth(1, replay.IsGroup))
	at(".", nth(2, replay.IsGroup))
	at(",", nth(1, replay.IsGroup))
	at("!", nth(1, replay.IsFailure))
	s.shows(t, "─ db:schema", "failed")
	if s.Sel.Group != "shop/db:schema" {
		t.Errorf("at the failure, %v is selected", s.Sel)
	}
	at("!", nth(2, replay.IsFailure))
	at("!", nth(1, replay.IsFailure)) // in a circle
	at("@", nth(2, replay.IsFailure))
	at(">", len(events))
	at("right", len(events))
	at(".", len(events))
	s.shows(t, "REPLAY", fmt.Sprintf("event %d of %d", len(events), len(events)))
	s.showsNot(t, "read-only")

	s = replayed(t, "sandbox-install", 10)
	if s.press("!"); s.replay.At() != 10 {
		t.Error("x found a failure in a run without one")
	}
	s.shows(t, "no failures in this run")
	if s.press("q"); !s.quits() {
		t.Error("q did not quit")
	}
}

// TestReplayKeepsSelection: the selection stays while the replay moves back and forth.
func TestReplayKeepsSelection(t *testing.T) { inBubble(t, testReplayKeepsSelection) }

func testReplayKeepsSelection(t *testing.T) {
	s := replayed(t, "sandbox-held", 0, answered)
	s.press("f", "enter")
	sel, tab := s.Sel, s.insp.Tab
	for _, key := range []string{"left", ",", ",", "<", ".", ".", "right"} {
		s.press(key)
		if s.Sel != sel || !s.insp.Shown || s.insp.Tab != tab {
			t.Fatalf("%s selected %v", key, s.Sel)
		}
	}
	if s.press("v"); !leads[tea.Msg](s.last) {
		t.Fatal("nothing was queried")
	}
	n := s.insp.N
	if s.press("left"); s.insp.N == n {
		t.Error("the record was not queried again for the other position")
	}
}

// TestReplayPlays plays as fast as requested.
func TestReplayPlays(t *testing.T) {
	events := recorded(t, "sandbox-install", 0)
	total := events[len(events)-1].Time.Sub(events[0].Time)
	for _, speed := range []float64{1, 4, 64} {
		synctest.Test(t, func(t *testing.T) {
			p := replay.NewPlayer(events, speed)
			s := newScreen(t, 100, 30, nil, func(o *Options) { *o = o.replaying(p) })
			start := time.Now()
			s.pump(s.replay.Begin())
			if took, want := time.Since(start), time.Duration(float64(total)/speed); took < want || took > want+time.Second+want/4 {
				t.Errorf("speed %v: the replay took %s, want %s", speed, took, want)
			}
			if p.At() != len(events) || p.Playing() || !reflect.DeepEqual(&s.State, reduced(events)) {
				t.Errorf("speed %v: the replay ended at event %d", speed, p.At())
			}
		})
	}
}

// pump runs a command and those that follow from it, as long as they wait for the next event of a
// replay.
func (s *rig) pump(cmd tea.Cmd) {
	queue := []tea.Cmd{cmd}
	for len(queue) > 0 {
		cmd, queue = queue[0], queue[1:]
		if cmd == nil {
			continue
		}
		switch msg := cmd().(type) {
		case tea.BatchMsg:
			queue = append(queue, msg...)
		case replay.Played:
			s.send(msg)
			queue = append(queue, s.last)
		}
	}
}

// TestReplaySpeed: the keys double and halve the speed within its limits, and the time does not jump.
func TestReplaySpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := replay.NewPlayer(recorded(t, "sandbox-install", 0), 1)
		s := newScreen(t, 100, 30, nil, func(o *Options) { *o = o.replaying(p) })
		s.replay.Begin()
		time.Sleep(time.Second)
		s.press("+", "+")
		time.Sleep(time.Second)
		if gone := p.Now().Sub(p.Start()); gone != 5*time.Second {
			t.Errorf("after 1 s at speed 1 and 1 s at speed 4, the time is %s", gone)
		}
		s.press("space")
		time.Sleep(time.Minute)
		s.shows(t, "×4 ", "0:05 of")
		for range 10 {
			s.press("+")
		}
		s.shows(t, "×64 ")
		for range 10 {
			s.press("-")
		}
		s.shows(t, "×1 ")
		s.press(">", "space")
		if p.At() != 1 || !p.Playing() {
			t.Errorf("at the end, space went to event %d", p.At())
		}
	})
}

// TestTimeline clicks on the timeline.
func TestTimeline(t *testing.T) {
	s := replayed(t, "sandbox-rollback", 0)
	line := s.replay.Line
	if drawn := []rune(s.lines()[line.Y])[line.X:][:line.W]; !slices.Contains(drawn, '✗') {
		t.Errorf("the timeline does not show the failure: %s", string(drawn))
	}
	s.send(tea.MouseClickMsg{X: line.X, Y: line.Y, Button: tea.MouseLeft})
	if part := s.replay.Fraction(s.replay.Now()); part > 0.02 {
		t.Errorf("the left end is at %v", part)
	}
	s.send(tea.MouseClickMsg{X: line.X + line.W - 1, Y: line.Y, Button: tea.MouseLeft})
	if part := s.replay.Fraction(s.replay.Now()); part < 0.9 {
		t.Errorf("the right end is at %v", part)
	}
	if len(s.replay.Events()) > 0 {
		one := replay.NewPlayer(s.replay.Events()[:1], 1)
		if one.Playing() || one.Fraction(one.Now()) != 1 {
			t.Error("a record of one event plays")
		}
	}
}

// TestReplayDescribes describes the current event in a few words.
func TestReplayDescribes(t *testing.T) {
	s := replayed(t, "sandbox-held", 0)
	seen := map[event.Kind]bool{}
	for i, e := range s.replay.Events() {
		if seen[e.Kind] {
			continue
		}
		seen[e.Kind] = true
		s.goToEvent(i + 1)
		s.View()
		last := s.lines()[s.H-2]
		if text := strings.TrimSpace(s.replay.Describe(e)); text == "" || !strings.Contains(last, ansi.Strip(text)[:min(len(text), 8)]) {
			t.Errorf("%s is described as %q: %s", e.Kind, text, last)
		}
	}
	pod := plan.Object{Kind: "Pod", Name: "web"}
	if text := s.replay.Describe(event.Event{Kind: event.KindWaiting, Group: "shop:web", Object: &pod}); text != "waiting for Pod/web" {
		t.Errorf("the heartbeat is described as %q", text)
	}
}

// BenchmarkReplayBack goes back one event at the end of a long run.
func BenchmarkReplayBack(b *testing.B) {
	events := large(10_000)
	p := replay.NewPlayer(events, 0)
	s := newScreen(b, 200, 50, nil, func(o *Options) { *o = o.replaying(p) })
	s.replay.Begin()
	for b.Loop() {
		s.goToEvent(len(events))
		s.goToEvent(len(events) - 1)
		s.View()
	}
}

// TestReplayDoesNotRepeatLogs: the logs are queried at every position, and shown once.
func TestReplayDoesNotRepeatLogs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := replayed(t, "sandbox-held", 0, answered)
		s.press("f", "l")
		s.settle()
		want := s.text()
		for _, key := range []string{"left", "left", "right", "right"} {
			s.press(key)
			s.settle()
		}
		if n, once := strings.Count(s.text(), "FATAL"), strings.Count(want, "FATAL"); n != once || once == 0 {
			t.Errorf("%d lines of a log with %d:\n%s", n, once, s.text())
		}
	})
}
