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
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/page"
	"lockstep/ui/board/replay"
)

// TestFollowAndNextProblem tests f, and that the view follows the run until the user moves.
func TestFollowAndNextProblem(t *testing.T) {
	s := with("sandbox-held", 0, "home")(t)
	if s.Follow || s.Sel.Group != "namespace:shop" {
		t.Fatalf("follow %t, selected %v", s.Follow, s.Sel)
	}
	s.press("f")
	if s.Sel.Group != "shop/api:server" || s.Sel.Object.Kind != "Deployment" {
		t.Errorf("f went to %v", s.Sel)
	}
	s.press("home", "F")
	if !s.Follow || s.Sel.Group != "shop/api:server" {
		t.Errorf("F went to %v", s.Sel)
	}
	s = with("sandbox-held", 0, "home")(t)
	s.State.Run, s.Steers = event.Running, false // as in the watch of a release whose run is elsewhere
	if s.press("F"); s.Sel.Group != "shop/api:server" {
		t.Errorf("without a hold, F went to %v", s.Sel)
	}
	s = with("sandbox-rollback", 111, "home")(t)
	s.feed(recorded(t, "sandbox-rollback", 140)[111:]...)
	if !s.Follow || !s.Group().InRollback() {
		t.Errorf("the view stayed at %v when the rollback started", s.Sel)
	}
}

// TestOpening opens finished runs and checks what is selected and in view.
func TestOpening(t *testing.T) {
	for run, want := range map[string]string{
		"sandbox-install":    "post-install:Job/shop-smoke-test",
		"retried":            "post-install:Job/shop-smoke-test",
		"sandbox-held":       "shop/api:server",
		"sandbox-rollback":   "shop/api:server",
		"sandbox-breakpoint": "shop/db:schema",
		"failed":             "shop/db:schema",
	} {
		for _, size := range sizes {
			s := newScreen(t, size[0], size[1], nil, readOnly)
			s.send(batchMsg{events: recorded(t, run, 0)})
			if s.Sel.Group != want || s.Group().InRollback() {
				t.Errorf("%s at %v opened at %v", run, size, s.Sel)
			}
			if !slices.ContainsFunc(s.board.Cards, func(c cards.Card) bool { return c.Node == s.Group() }) {
				t.Errorf("%s at %v: %v is out of view", run, size, s.Sel)
			}
		}
	}
	// A plan without a run opens at its first group.
	s := newScreen(t, 100, 30, nil, readOnly)
	plan := recorded(t, "sandbox-install", 0)
	plan = plan[slices.IndexFunc(plan, func(e event.Event) bool { return e.Kind == event.KindPlan }):][:1]
	s.send(batchMsg{events: plan, more: false})
	if s.Group() != s.Graph.Nodes[0] {
		t.Errorf("a plan opened at %v", s.Sel)
	}
	s.shows(t, "○ plan  16 groups, 29 objects")
	s.showsNot(t, "aborted", "0:00", "0 of 29")
}

// TestMoving presses every key that moves, at every size: the selection stays on the board and in view.
func TestMoving(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, size := range [][2]int{sizes[0], sizes[2], sizes[4]} {
			for _, k := range Keys() {
				if k.Part != partMove {
					continue
				}
				s := newScreen(t, size[0], size[1], recorded(t, "sandbox-held", 0))
				s.press("g", "right", "right", "tab")
				for _, name := range moveKeys(k) {
					for range 25 {
						s.press(name)
						if s.Group() == nil {
							t.Fatalf("%v: after %s nothing is selected", size, name)
						}
					}
					if from, to := s.board.Extent(s.Group()); to <= s.board.Top || from >= s.board.Top+s.board.Area.H {
						t.Errorf("%v: after %s, %v is out of view", size, name, s.Sel)
					}
				}
			}
		}
	})
}

func moveKeys(k Key) []string {
	for _, b := range tables()[0] {
		if b.Name() == k.Keys {
			return strings.Fields(b.Keys)
		}
	}
	return nil
}

// TestFilter types a query and checks what is visible.
func TestFilter(t *testing.T) {
	s := with("sandbox-held", 0, "/ d e p l o y")(t)
	s.shows(t, "5 of 16", "Deployment/shop-cache")
	s.showsNot(t, "StatefulSet")
	s.press("enter")
	if s.Modes.Has(s.filter) || !s.Filter.On() {
		t.Fatal("enter did not keep the filter")
	}
	s.press("esc")
	s.shows(t, "StatefulSet/shop-db")
	s.press("/", "x", "y", "z")
	s.shows(t, "nothing matches the filter")
	s.press("up", "enter", "f", "tab", "b", "R")
	s.send(tea.PasteMsg{Content: "ignored"})
	s.press("/")
	s.send(tea.PasteMsg{Content: "\x1b[31mq"})
	s.showsNot(t, "\x1b")
}

// TestNextProblemStaysWithFailures: while anything has failed, f skips groups in progress.
func TestNextProblemStaysWithFailures(t *testing.T) {
	s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0))
	n := s.Graph.Nodes[len(s.Graph.Nodes)-2]
	o := n.Objects[0].Object
	s.feed(event.Event{Kind: event.KindGroup, Phase: n.Phase, Group: n.ID, Status: event.Running, Time: s.State.Now},
		event.Event{Kind: event.KindObject, Phase: n.Phase, Group: n.ID, Object: &o, Status: event.InProgress, Time: s.State.Now})
	failed, blocking := s.board.Problems()
	if len(failed) == 0 || len(blocking) == 0 {
		t.Fatalf("%d failures, %d in progress", len(failed), len(blocking))
	}
	for range 2*len(failed) + 1 {
		if s.press("f"); !slices.Contains(failed, s.Sel) {
			t.Errorf("f went to %v", s.Sel)
		}
	}
}

// TestNextProblemGoesToDegraded: after a failure, f selects the degraded groups, and then the failure again.
func TestNextProblemGoesToDegraded(t *testing.T) {
	events := twoStuck()
	events[len(events)-1].Status = event.Degraded // app
	queue := plan.Object{Kind: "Deployment", Name: "queue"}
	s := newScreen(t, 100, 30, events)
	s.feed(event.Event{Kind: event.KindGroup, Phase: "apply", Group: "s:queue", Object: &queue, Status: event.Failed, Cause: "gave up", Time: s.State.Now},
		event.Event{Kind: event.KindRun, Status: event.Held, Message: "s:queue", Time: s.State.Now})
	for _, want := range []string{"s:app", "s:queue", "s:app"} {
		for s.press("f"); s.Group().ID != want; {
			t.Fatalf("f went to %s, not to %s:\n%s", s.Group().ID, want, s.text())
		}
	}
}

// TestMouse clicks and scrolls.
func TestMouse(t *testing.T) {
	s := newScreen(t, 160, 45, recorded(t, "sandbox-held", 0))
	at := func(text string) tea.Mouse {
		for y, l := range s.lines() {
			if i := strings.Index(l, text); i >= 0 {
				return tea.Mouse{X: len([]rune(l[:i])), Y: y, Button: tea.MouseLeft}
			}
		}
		t.Fatalf("no %q:\n%s", text, s.text())
		return tea.Mouse{}
	}
	s.send(tea.MouseClickMsg(at("cm/shop-worker")))
	if s.Sel.Object.Name != "shop-worker" || s.Follow {
		t.Fatalf("a click selects %v", s.Sel)
	}
	s.send(tea.MouseClickMsg(at("cm/shop-worker")))
	if !s.insp.Shown {
		t.Fatal("a second click did not open the inspector")
	}
	s.send(tea.MouseClickMsg(at(" order ")))
	if s.insp.Tab != inspector.TabOrder {
		t.Errorf("a click opens tab %d", s.insp.Tab)
	}
	narrow := newScreen(t, 80, 24, recorded(t, "sandbox-held", 0)) // the tabs are below the title
	narrow.press("enter", "8")
	for y, l := range narrow.lines() {
		if i := strings.Index(l, " order "); i >= 0 {
			narrow.send(tea.MouseClickMsg{X: len([]rune(l[:i])) + 1, Y: y, Button: tea.MouseLeft})
			break
		}
	}
	if narrow.insp.Tab != inspector.TabOrder {
		t.Errorf("a click below the title opens tab %d", narrow.insp.Tab)
	}
	s.press("esc", "z", "z") // all objects: the layers are not all in view
	first := s.board.First
	s.send(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelLeft})
	if s.board.First >= first {
		t.Errorf("the wheel scrolls from column %d to %d", first, s.board.First)
	}
	s.send(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelDown, Mod: tea.ModShift})
	if s.board.First != first {
		t.Errorf("the wheel with shift scrolls to column %d, not back to %d", s.board.First, first)
	}
	s = newScreen(t, 60, 20, recorded(t, "sandbox-install", 0))
	s.press("z", "z") // the list is longer than the screen
	top := s.board.Top
	s.send(tea.MouseWheelMsg{X: 5, Y: 8, Button: tea.MouseWheelUp})
	if s.board.Top != top-3 && s.board.Top != 0 || s.board.Top == top || s.Follow {
		t.Errorf("the wheel scrolls from line %d to %d", top, s.board.Top)
	}
	s.press("z", "/", "c", "o", "n", "f", "i", "g", "enter")
	s.send(tea.MouseClickMsg(at("db:config")))
	if s.Sel.Group != "shop/db:config" {
		t.Errorf("a click in the list selects %v", s.Sel)
	}
}

// TestPageKeys: a page keeps one line of the text in view.
func TestPageKeys(t *testing.T) {
	var text strings.Builder
	var lines []canvas.Line
	for n := range 500 {
		fmt.Fprintf(&text, "line %d.\n", n)
		lines = append(lines, canvas.Plain(theme.Text, fmt.Sprintf("line %d.", n)))
	}
	visible := func(s *rig) (first, last string) {
		found := regexp.MustCompile(`line \d+\.`).FindAllString(s.text(), -1)
		return found[0], found[len(found)-1]
	}
	for _, h := range []int{12, 20, 45} {
		for name, open := range map[string]func() *rig{
			"page": func() *rig {
				s := newScreen(t, 80, h, recorded(t, "sandbox-held", 0))
				page.New(s.Screen, "text", func(int) []canvas.Line { return lines }).Open()
				return s
			},
			"inspector": func() *rig {
				s := newScreen(t, 80, h, recorded(t, "sandbox-held", 0), func(o *Options) { o.Inspector = &answerer{manifest: text.String()} })
				s.press("f", "Y")
				s.settle()
				return s
			},
		} {
			s := open()
			s.send(nil)
			_, last := visible(s)
			s.press("pgdown")
			if first, _ := visible(s); first != last {
				t.Errorf("%s, %d rows: after a page the first line is %q, before the last was %q", name, h, first, last)
			}
		}
		s := newScreen(t, 80, h, recorded(t, "sandbox-held", 0))
		s.press(":", "down", "pgdown")
		s.shows(t, "▸ "+s.palette.Commands()[h-9].About)
	}
}

// TestKeyTable: keys of a table are distinct, and each is explained.
func TestKeyTable(t *testing.T) {
	for _, table := range tables() {
		seen := map[string]bool{}
		for _, b := range table {
			if b.Keys == "" || b.About == "" || b.Do == nil {
				t.Errorf("%v is not explained", b.Keys)
			}
			for k := range strings.FieldsSeq(b.Keys) {
				if seen[k] {
					t.Errorf("%q has two bindings", k)
				}
				seen[k] = true
			}
		}
	}
	text := newScreen(t, 200, 220, recorded(t, "running", 0))
	text.press("?")
	again := replayed(t, "running", 0).resized(200, 220)
	again.press("?")
	for _, k := range Keys() {
		if k.Part == replay.Part {
			again.shows(t, k.About)
			text.showsNot(t, replay.Part)
			continue
		}
		if k.Part != text.abort.Part() && k.Part != text.giveUp.Part() { // dialogs name their keys
			text.shows(t, k.Keys)
		}
	}
}

// TestStepped: the state no longer names the breakpoint once the run has continued.
func TestStepped(t *testing.T) {
	s := pausedRun(t)
	s.shows(t, "paused  breakpoint db:schema")
	next := s.State.Next()
	s.feed(event.Event{Kind: event.KindGroup, Phase: next.Phase, Group: next.ID, Status: event.Running, Time: s.State.Now})
	s.showsNot(t, "breakpoint db:schema")
	s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Message: "breakpoint shop:gateway", Time: s.State.Now})
	s.shows(t, "paused  breakpoint shop:gateway")
}

// TestAbortedStaysInView: the group that an abort interrupted stays in view.
func TestAbortedStaysInView(t *testing.T) {
	s := with("running", 0, "")(t)
	was := s.Group()
	s.feed(
		event.Event{Kind: event.KindRun, Status: event.Aborting, Time: s.State.Now},
		event.Event{Kind: event.KindGroup, Phase: was.Phase, Group: was.ID, Status: event.Aborted, Time: s.State.Now},
		event.Event{Kind: event.KindOperation, Status: event.Aborted, Time: s.State.Now},
	)
	if s.Group() != was {
		t.Errorf("the view went from %s to %s", was.ID, s.Group().ID)
	}
}

// TestAccessible: nothing moves with ACCESSIBLE.
func TestAccessible(t *testing.T) {
	now := time.Now()
	still := dark
	still.Still = true
	clock := func(o *Options) { o.Now = func() time.Time { return now } }
	glyphs := map[theme.Options]map[string]bool{}
	for _, l := range []theme.Options{dark, still} {
		glyphs[l] = map[string]bool{}
		events := recorded(t, "running", 0)
		now = events[len(events)-1].Time
		s := newScreen(t, 100, 30, events, look(l), clock)
		for range 4 {
			now = now.Add(time.Second)
			s.send(tickMsg{})
			glyphs[l][string([]rune(s.lines()[1])[1])] = true
		}
		if mouse := s.View().MouseMode != tea.MouseModeNone; mouse == l.Still {
			t.Errorf("still %t: mouse %t", l.Still, mouse)
		}
	}
	if len(glyphs[dark]) < 2 || len(glyphs[still]) != 1 {
		t.Errorf("the glyph is animated: %v", glyphs)
	}
}

// TestStepMovesSelection: after a step, the view shows the groups that it started, and then the group
// that the next step would start, even if the user moved before; an open diff follows.
func TestStepMovesSelection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &answerer{changes: map[string]inspect.Change{"Topic/shop-orders": {Action: inspect.Create}}}
		s := newScreen(t, 120, 40, recorded(t, "sandbox-breakpoint", 0), func(o *Options) { o.Inspector = c })
		s.press("home", "d")
		s.settle()
		s.press("n")
		s.feed(recorded(t, "sandbox-breakpoint", 0)[len(recorded(t, "sandbox-breakpoint", 0))-1])
		s.settle()
		if got := s.Sel.Group; got != "shop/db:schema" {
			t.Errorf("after a step %s is selected, not the group at the breakpoint", got)
		}
		g := s.Group()
		s.feed(event.Event{Kind: event.KindGroup, Phase: g.Phase, Group: g.ID, Status: event.Running, Time: s.State.Now})
		s.settle()
		s.feed(event.Event{Kind: event.KindGroup, Phase: g.Phase, Group: g.ID, Status: event.Ready, Time: s.State.Now})
		s.settle()
		if got := s.Sel.Group; got != s.Next.ID {
			t.Errorf("%s is selected, but the next step starts %s", got, s.Next.ID)
		}
		s.shows(t, "Topic/shop-orders     will be created")
		s.press("esc", "up", "p")
		if s.Follow {
			t.Error("the view follows the run although the user moved")
		}
	})
}
