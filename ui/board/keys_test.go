package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine"
	"lockstep/theme"
)

// state is a screen in a state that keys are tried in.
type state struct {
	name  string
	open  func(t testing.TB) *screen
	hints string // keys in the footer
	// does is what the keys that steer and leave do: the command that is
	// sent, or one of the words below. Others do nothing.
	does map[string]string
}

const (
	asks   = "asks"   // opens the abort dialog
	leaves = "leaves" // ends the screen
	closes = "closes" // closes what is open, and no more
)

// with opens a screen of a run and types keys.
func with(run string, n int, keys string, opts ...func(*Options)) func(testing.TB) *screen {
	return func(t testing.TB) *screen {
		s := newScreen(t, 200, 50, recorded(t, run, n), opts...)
		s.press(strings.Fields(keys)...)
		s.sent = nil
		return s
	}
}

func pausedRun(t testing.TB) *screen { return with("sandbox-breakpoint", 0, "")(t) }

func abortingRun(t testing.TB) *screen {
	s := with("sandbox-install", 63, "")(t)
	s.feed(engine.Event{Kind: engine.KindRun, Status: engine.Aborting, Time: s.state.Now})
	return s
}

func states() []state {
	refusedOnly := func(more map[string]string) map[string]string {
		does := map[string]string{
			"p": "pause", "space": "pause", "n": "step", "c": "resume", "b": "break", "R": "retry",
			"a": asks, "ctrl+c": asks, "q": asks,
		}
		for k, v := range more {
			does[k] = v
		}
		return does
	}
	over := map[string]string{"q": leaves, "a": leaves, "ctrl+c": leaves}
	return []state{
		{"running", with("sandbox-install", 63, ""), "p a / f ↵ ?", refusedOnly(nil)},
		{"running, a waiting group", with("sandbox-install", 63, "G"), "p b a / f ↵ F ?", refusedOnly(nil)},
		{"paused", pausedRun, "p n c b a / f ↵ ?", refusedOnly(map[string]string{"p": "resume", "space": "resume"})},
		{"held", with("sandbox-held", 0, ""), "R c a / f ↵ ?", refusedOnly(nil)},
		{"aborting", abortingRun, "a / f ↵ ?", refusedOnly(nil)},
		{"rolling back", with("sandbox-rollback", 160, ""), "p a / f ↵ ?", refusedOnly(nil)},
		{"over", with("sandbox-install", 0, ""), "q/↵ / ?", with0(over, "enter", leaves)},
		{"over, looked around", with("sandbox-install", 0, "up"), "q / ↵ ?", over},
		{"read-only", with("sandbox-install", 63, "", readOnly), "q / f ↵ ?", map[string]string{"q": leaves, "ctrl+c": leaves}},
		{"warnings", with("running", 0, ""), "p a / f ↵ w ?", refusedOnly(nil)},
		{"abort dialog", with("sandbox-install", 63, "a"), "", map[string]string{"k": "abort", "r": "rollback", "ctrl+c": "stop", "esc": closes}},
		{"abort dialog by q", with("sandbox-install", 63, "q"), "", map[string]string{"k": "abort", "r": "rollback", "ctrl+c": "stop", "esc": closes}},
		{"abort dialog while aborting", func(t testing.TB) *screen { s := abortingRun(t); s.press("a"); return s }, "", map[string]string{"ctrl+c": "stop", "esc": closes}},
		{"abort dialog while rolling back", with("sandbox-rollback", 160, "a"), "", map[string]string{"k": "abort", "ctrl+c": "stop", "esc": closes}},
		{"help", with("sandbox-install", 63, "?"), "", map[string]string{"esc": closes, "q": closes, "?": closes, "enter": closes, "w": closes, "ctrl+c": asks}},
		{"typing", with("sandbox-install", 63, "/"), "p a / f ↵ ?", map[string]string{"esc": closes, "enter": closes, "tab": closes, "down": closes, "ctrl+c": asks}},
		{"inspector", with("sandbox-install", 63, "enter"), "tab esc p a / f F ?", refusedOnly(map[string]string{"esc": closes, "enter": closes})},
		{"inspector, held", with("sandbox-held", 0, "enter"), "tab esc R c a / f F ?", refusedOnly(map[string]string{"esc": closes, "enter": closes})},
	}
}

func with0(m map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestKeys presses every key that steers, leaves or closes in every state.
func TestKeys(t *testing.T) {
	for _, st := range states() {
		t.Run(st.name, func(t *testing.T) {
			for _, key := range []string{"p", "space", "n", "c", "b", "R", "a", "ctrl+c", "q", "k", "r", "esc", "enter", "?", "w", "tab", "down"} {
				s := st.open(t)
				before := s.open()
				s.press(key)
				got := s.outcome(before)
				want, ok := st.does[key]
				if !ok && (got == "" || !slices.Contains([]string{asks, leaves, closes}, got) && len(s.sent) == 0) {
					continue
				}
				if got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// open names what is open on top of the board.
func (s *screen) open() string {
	return fmt.Sprint(s.dialog, s.pager != nil, s.typing, s.insp != nil)
}

// outcome is what the last key led to.
func (s *screen) outcome(before string) string {
	switch {
	case s.quits():
		return leaves
	case len(s.sent) == 1:
		return string(s.sent[0].Name)
	case s.dialog && !strings.HasPrefix(before, "true"):
		return asks
	case strings.Count(s.open(), "true") < strings.Count(before, "true"):
		return closes
	}
	return ""
}

// TestHints holds the keys in the footer against those that ought to be there.
func TestHints(t *testing.T) {
	for _, st := range states() {
		var got []string
		for _, h := range st.open(t).hints() {
			got = append(got, h.key)
		}
		if g := strings.Join(got, " "); g != st.hints {
			t.Errorf("%s: the footer has %q, want %q", st.name, g, st.hints)
		}
	}
}

// TestHintsWork presses every key of the footer in every state. Each has to do
// something that the run does not refuse: an order that fits its state, or a
// change on the screen.
func TestHintsWork(t *testing.T) {
	for _, st := range states() {
		s := st.open(t)
		if s.typing { // the keys are letters there, and the footer is the filter
			continue
		}
		for _, h := range s.hints() {
			key, _, _ := strings.Cut(h.key, "/")
			if key == "" {
				key = h.key
			}
			if h.key == s.th.Lines.Enter {
				key = "enter"
			}
			s := st.open(t)
			before := s.text()
			s.press(key)
			switch {
			case len(s.sent) > 0:
				if why := refusal(s.state.Run, s.sent[0].Name); why {
					t.Errorf("%s: the footer offers %q (%s), which the run refuses", st.name, h.key, h.word)
				}
			case s.quits(), s.text() != before, h.key == "f" && len(s.problems()) == 1:
			default:
				t.Errorf("%s: the footer offers %q (%s), which does nothing", st.name, h.key, h.word)
			}
		}
	}
}

// refusal says what the engine refuses (see engine.Command).
func refusal(run engine.Status, c engine.CommandName) bool {
	switch c {
	case engine.Pause:
		return run != engine.Running
	case engine.Resume:
		return run != engine.Paused && run != engine.Held
	case engine.Step:
		return run != engine.Paused
	case engine.Retry:
		return run != engine.Held
	case engine.Break:
		return run == engine.Aborting
	}
	return false
}

// TestNothingIsAGuess proves that an order changes nothing on the screen until
// an event says so.
func TestNothingIsAGuess(t *testing.T) {
	for _, key := range []string{"p", "b"} {
		s := with("sandbox-install", 63, "G")(t)
		before := s.text()
		s.press(key)
		if len(s.sent) != 1 || s.text() != before {
			t.Errorf("%s: %v sent, and the screen has changed: %t", key, s.sent, s.text() != before)
		}
	}
}

func TestCommandsNameTheirGroup(t *testing.T) {
	s := with("sandbox-install", 63, "G g")(t)
	s.press("G", "b")
	if got := s.sent[0].Group; got != "post-install:Job/shop-smoke-test" {
		t.Errorf("breakpoint on %q", got)
	}
	s = with("sandbox-held", 0, "")(t)
	s.press("R")
	if got := s.sent[0]; got.Name != engine.Retry || got.Group != "shop/api:server" {
		t.Errorf("R on the failed group sends %v", got)
	}
	s = with("sandbox-held", 0, "g")(t)
	s.press("R")
	if got := s.sent[0]; got.Name != engine.Retry || got.Group != "" {
		t.Errorf("R elsewhere sends %v, want all that failed", got)
	}
}

// TestRefused shows why a command was refused, and forgets it again.
func TestRefused(t *testing.T) {
	s := with("sandbox-install", 63, "")(t)
	s.feed(engine.Event{Kind: engine.KindCommand, Command: engine.Step, Status: engine.Refused, Message: "the run is not paused; pause it first", Time: s.state.Now})
	s.shows(t, "step refused: the run is not paused; pause it first")
	s.send(unflashMsg(s.flash.n - 1)) // of a message before
	s.shows(t, "step refused")
	s.send(unflashMsg(s.flash.n))
	s.showsNot(t, "step refused")
}

// TestCtrlCTwice stops at once from wherever the user is.
func TestCtrlCTwice(t *testing.T) {
	for _, keys := range []string{"", "?", "/", "/ a p i", "/ a p i enter", "enter", "f enter tab", "w", "a esc"} {
		s := with("sandbox-install", 63, keys)(t)
		s.press("ctrl+c", "ctrl+c")
		if len(s.sent) != 1 || s.sent[0].Name != engine.Stop || s.sent[0].Reason == "" {
			t.Errorf("after %q, ctrl-c twice sends %v", keys, s.sent)
		}
	}
}

// TestDialogSays holds what the abort dialog promises against the release.
func TestDialogSays(t *testing.T) {
	s := with("sandbox-held", 0, "a")(t)
	s.shows(t, "abort the install of shop?", "keep what is there: 20 objects stay, the release is marked failed",
		"roll back: uninstall all 20 objects in reverse order", "stop at once", "go on")

	s = with("sandbox-held", 0, "")(t)
	s.state.Operation.PreviousRevision = 3
	s.press("a")
	s.shows(t, "roll back: to revision 3")

	s = with("sandbox-install", 10, "a")(t)
	s.shows(t, "nothing has been applied yet")

	s = with("sandbox-rollback", 160, "a")(t)
	s.shows(t, "stop the rollback?", "objects are gone", "still there")
	s.showsNot(t, "roll back:")

	// It goes when there is nothing left to abort.
	s = with("sandbox-install", 63, "a")(t)
	s.feed(recorded(t, "sandbox-install", 0)[63:]...)
	s.showsNot(t, "abort the install")
}

// TestOverTakesNoOrders proves that a dialog answered too late does no harm.
func TestOverTakesNoOrders(t *testing.T) {
	s := with("sandbox-install", 0, "up")(t)
	s.press("p", "n", "c", "b", "R")
	if len(s.sent) > 0 {
		t.Errorf("sent %v", s.sent)
	}
	s.shows(t, "the operation is over")
}

// TestFind covers f, and that the view follows until the user moves.
func TestFind(t *testing.T) {
	s := with("sandbox-held", 0, "g")(t)
	if s.follow || s.sel.group != "namespace:shop" {
		t.Fatalf("follow %t, selected %v", s.follow, s.sel)
	}
	s.press("f")
	if s.sel.group != "shop/api:server" || s.sel.object.Kind != "Deployment" {
		t.Errorf("f goes to %v", s.sel)
	}
	s.press("g", "F")
	if !s.follow || s.sel.group != "shop/api:server" {
		t.Errorf("F goes to %v", s.sel)
	}
	s = with("sandbox-rollback", 111, "g")(t)
	s.feed(recorded(t, "sandbox-rollback", 140)[111:]...)
	if !s.follow || !s.back(s.group()) {
		t.Errorf("the view stays at %v when the rollback begins", s.sel)
	}
}

// TestMoving presses every key that moves, at every size, and proves that the
// selection stays on the board and in view.
func TestMoving(t *testing.T) {
	for _, size := range sizes {
		for _, k := range Keys() {
			if k.Part != partMove {
				continue
			}
			s := newScreen(t, size[0], size[1], recorded(t, "sandbox-held", 0))
			s.press("g", "right", "right", "tab")
			for _, name := range moveKeys(k) {
				for range 25 {
					s.press(name)
					if s.group() == nil {
						t.Fatalf("%v: %s leaves nothing selected", size, name)
					}
				}
				if from, to := s.extent(s.group()); to <= s.top || from >= s.top+s.lay.board.h {
					t.Errorf("%v: %s leaves %v out of view", size, name, s.sel)
				}
			}
		}
	}
}

func moveKeys(k Key) []string {
	for _, b := range bindings() {
		if b.label == k.Keys {
			return b.keys
		}
	}
	return nil
}

// TestFilter types a query and looks at what is left.
func TestFilter(t *testing.T) {
	s := with("sandbox-held", 0, "/ d e p l o y")(t)
	s.shows(t, "5 of 16 groups", "Deployment/shop-cache")
	s.showsNot(t, "StatefulSet")
	s.press("enter")
	if s.typing || !s.filter.on() {
		t.Fatal("enter does not keep the filter")
	}
	s.press("esc")
	s.shows(t, "StatefulSet")
	s.press("/", "x", "y", "z")
	s.shows(t, "nothing matches the filter")
	s.press("up", "enter", "f", "tab", "b", "R")
	s.send(tea.PasteMsg{Content: "ignored"})
	s.press("/")
	s.send(tea.PasteMsg{Content: "\x1b[31mq"})
	s.showsNot(t, "\x1b")
}

// TestMouse clicks and scrolls.
func TestMouse(t *testing.T) {
	s := newScreen(t, 120, 40, recorded(t, "sandbox-held", 0))
	at := func(text string) tea.Mouse {
		for y, l := range s.lines() {
			if i := strings.Index(l, text); i >= 0 {
				return tea.Mouse{X: len([]rune(l[:i])), Y: y, Button: tea.MouseLeft}
			}
		}
		t.Fatalf("no %q:\n%s", text, s.text())
		return tea.Mouse{}
	}
	s.send(tea.MouseClickMsg(at("ConfigMap/shop-worker")))
	if s.sel.object.Name != "shop-worker" || s.follow {
		t.Fatalf("a click selects %v", s.sel)
	}
	s.send(tea.MouseClickMsg(at("ConfigMap/shop-worker")))
	if s.insp == nil {
		t.Fatal("a second click does not inspect")
	}
	s.send(tea.MouseClickMsg(at("gates")))
	if s.insp.tab != tabGates {
		t.Errorf("a click opens tab %d", s.insp.tab)
	}
	s.press("esc")
	first := s.first
	s.send(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelLeft})
	if s.first >= first {
		t.Errorf("the wheel scrolls from column %d to %d", first, s.first)
	}
}

// TestKeyTable keeps the keys of the one table apart, and every one of them
// explained.
func TestKeyTable(t *testing.T) {
	for _, table := range [][]binding{bindings(), inspectorBindings()} {
		seen := map[string]bool{}
		for _, b := range table {
			if b.label == "" || b.about == "" || b.do == nil {
				t.Errorf("%v is not explained", b.keys)
			}
			for _, k := range b.keys {
				if seen[k] {
					t.Errorf("%q twice", k)
				}
				seen[k] = true
			}
		}
	}
	text := newScreen(t, 200, 100, recorded(t, "running", 0))
	text.press("?")
	for _, k := range Keys() {
		text.shows(t, k.Keys)
	}
}

// TestStepped forgets where the run paused once it has gone on from there.
func TestStepped(t *testing.T) {
	s := pausedRun(t)
	s.shows(t, "paused  breakpoint db:schema")
	s.feed(engine.Event{Kind: engine.KindCommand, Command: engine.Step, Status: engine.Accepted, Time: s.state.Now})
	s.showsNot(t, "breakpoint db:schema")
	s.feed(engine.Event{Kind: engine.KindRun, Status: engine.Paused, Message: "breakpoint shop:gateway", Time: s.state.Now})
	s.shows(t, "paused  breakpoint shop:gateway")
}

// TestAbortedStaysInView keeps the group in view that an abort has cut short.
func TestAbortedStaysInView(t *testing.T) {
	s := with("running", 0, "")(t)
	was := s.group()
	s.feed(
		engine.Event{Kind: engine.KindRun, Status: engine.Aborting, Time: s.state.Now},
		engine.Event{Kind: engine.KindGroup, Phase: was.Phase, Group: was.ID, Status: engine.Aborted, Time: s.state.Now},
		engine.Event{Kind: engine.KindOperation, Status: engine.Aborted, Time: s.state.Now},
	)
	if s.group() != was {
		t.Errorf("the view goes from %s to %s", was.ID, s.group().ID)
	}
}

// TestAccessible proves that nothing moves where ACCESSIBLE asks for that.
func TestAccessible(t *testing.T) {
	now := time.Now()
	still := dark
	still.Still = true
	clock := func(o *Options) { o.Now = func() time.Time { return now } }
	glyphs := map[theme.Options]map[string]bool{}
	for _, l := range []theme.Options{dark, still} {
		glyphs[l] = map[string]bool{}
		now = recorded(t, "running", 0)[79].Time
		s := newScreen(t, 100, 30, recorded(t, "running", 0), look(l), clock)
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
		t.Errorf("the glyph turns: %v", glyphs)
	}
}
