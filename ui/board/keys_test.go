package board

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/replay"
	"lockstep/ui/board/screen"
)

// state is a state of a screen in which keys are tested.
type state struct {
	name  string
	open  func(t testing.TB) *rig
	hints string // keys below the state, if any, and in the footer
	// does holds the effect of the keys that control or quit: the command that is sent, or one of the
	// words below. Other keys do nothing.
	does map[string]string
}

const (
	asks   = "asks"   // opens the abort dialog
	quits  = "quits"  // quits the screen
	opens  = "opens"  // opens a mode
	closes = "closes" // only closes the mode
)

// with opens a screen of a run and presses keys.
func with(run string, n int, keys string, opts ...func(*Options)) func(testing.TB) *rig {
	return func(t testing.TB) *rig {
		s := newScreen(t, 200, 50, nil, opts...)
		_, s.last = s.Update(batchMsg{events: recorded(t, run, n), more: true})
		if s.Held() && s.insp.Connected() {
			s.settle()
		}
		s.press(strings.Fields(keys)...)
		s.sent = nil
		return s
	}
}

func pausedRun(t testing.TB) *rig { return with("sandbox-breakpoint", 0, "")(t) }

func abortingRun(t testing.TB) *rig {
	s := with("sandbox-install", 63, "")(t)
	s.feed(event.Event{Kind: event.KindRun, Status: event.Aborting, Time: s.State.Now})
	return s
}

func states() []state {
	refusedOnly := func(more map[string]string) map[string]string {
		does := map[string]string{
			"p": "pause", "space": "pause", "n": "step", "N": "step", "c": "resume", "b": "break", "t": "run-to", "B": opens, "R": "retry", "A": "accept",
			"a": asks, "ctrl+c": asks, "q": asks, ":": opens, "D": opens, "/": opens, "?": opens,
		}
		for k, v := range more {
			does[k] = v
		}
		return does
	}
	over := map[string]string{"q": quits, "ctrl+c": quits} // a is pressed while the run ends, so it must not quit
	return []state{
		{"running", with("sandbox-install", 63, ""), "p a / f ↵ g ?", refusedOnly(nil)},
		{"running, a waiting group", with("sandbox-install", 63, "end"), "p b a / f ↵ F g ?", refusedOnly(nil)},
		{"paused", pausedRun, "p n b N a B / f ↵ g ?", refusedOnly(map[string]string{"p": "resume", "space": "resume"})},
		{"paused, a group further on", with("sandbox-breakpoint", 0, "right"), "p n b a t B / f ↵ F g ?", refusedOnly(map[string]string{"p": "resume", "space": "resume"})},
		{"list of breakpoints", with("sandbox-breakpoint", 0, "B"), "", map[string]string{"space": "disable", "b": "break", "delete": "break", "enter": closes, "esc": closes, "B": closes, "ctrl+c": asks}},
		{"held", with("sandbox-held", 0, ""), "A R G a | / f ↵ g ?", refusedOnly(map[string]string{"G": asks})},
		{"held, values at hand", with("sandbox-held", 0, "", editable), "A R G e a | / f ↵ g ?", refusedOnly(map[string]string{"G": asks})},
		{"aborting", abortingRun, "a / f ↵ g ?", refusedOnly(nil)},
		{"rolling back", with("sandbox-rollback", 160, ""), "p a / f ↵ g ?", refusedOnly(nil)},
		{"over", with("sandbox-install", 0, ""), "q / ↵ o g ?", over},
		{"over, looked around", with("sandbox-install", 0, "up"), "q / ↵ o g ?", over},
		{"read-only", with("sandbox-install", 63, "", readOnly), "q / f ↵ g ?", map[string]string{"q": quits, "ctrl+c": quits}},
		{"replay", func(t testing.TB) *rig { return replayed(t, "sandbox-held", 63) }, "q space → . ← , ! + / f ↵ g ?", map[string]string{"q": quits, "ctrl+c": quits}},
		{"replay, inspector", func(t testing.TB) *rig { s := replayed(t, "sandbox-held", 63); s.press("enter"); return s }, "tab esc / q space → . ← , ! + f F g ?", map[string]string{"q": quits, "ctrl+c": quits, "esc": closes, "enter": closes}},
		{"warnings", with("running", 0, ""), "p a / f ↵ w g ?", refusedOnly(nil)},
		{"attached", with("sandbox-install", 63, "", attached), "q p a / f ↵ g ?", refusedOnly(map[string]string{"q": quits})},
		{"abort dialog", with("sandbox-install", 63, "a"), "", map[string]string{"K": "abort", "r": "rollback", "ctrl+c": "stop", "esc": closes}},
		{"abort dialog by q", with("sandbox-install", 63, "q"), "", map[string]string{"K": "abort", "r": "rollback", "ctrl+c": "stop", "esc": closes}},
		{"abort dialog of a run that can be left", with("sandbox-install", 63, "q", canBeLeft), "", map[string]string{"K": "abort", "r": "rollback", "d": quits, "ctrl+c": "stop", "esc": closes}},
		{"abort dialog while aborting", func(t testing.TB) *rig { s := abortingRun(t); s.press("a"); return s }, "", map[string]string{"ctrl+c": "stop", "esc": closes}},
		{"abort dialog while rolling back", with("sandbox-rollback", 160, "a"), "", map[string]string{"K": "abort", "ctrl+c": "stop", "esc": closes}},
		{"give-up dialog", with("sandbox-held", 0, "G"), "", map[string]string{"G": "give-up", "esc": closes}},
		{"help", with("sandbox-install", 63, "?"), "", map[string]string{"esc": closes, "?": closes, "enter": closes, "w": closes, "ctrl+c": asks}},
		{"typing", with("sandbox-install", 63, "/"), "", map[string]string{"esc": closes, "enter": closes, "tab": closes, "down": closes, "ctrl+c": asks}},
		{"search", with("sandbox-install", 63, "enter / x"), "", map[string]string{"esc": closes, "ctrl+c": asks}},
		{"going to a group", with("sandbox-install", 63, "g x"), "", map[string]string{"esc": closes, "enter": closes, "down": closes, "tab": "break", "ctrl+c": asks}},
		{"logs", with("sandbox-held", 0, "f l", answered), "A R G a | tab esc / W f F g ?", refusedOnly(map[string]string{"esc": closes, "enter": closes, "G": asks})},
		{"list of commands", with("sandbox-install", 63, ":"), "", map[string]string{"esc": closes, "enter": closes, "ctrl+c": asks}},
		{"kubectl line", with("sandbox-install", 63, "D"), "", map[string]string{"esc": closes, "?": closes, "enter": closes, "w": closes, "ctrl+c": asks}},
		{"inspector", with("sandbox-install", 63, "enter"), "tab esc / p a f F g ?", refusedOnly(map[string]string{"esc": closes, "enter": closes})},
		{"inspector, held", with("sandbox-held", 0, "enter"), "A R G a | tab esc / f F g ?", refusedOnly(map[string]string{"G": asks, "esc": closes, "enter": closes})},
	}
}

// TestKeys presses every key that controls, quits or closes in every state.
func TestKeys(t *testing.T) {
	for _, st := range states() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel() // it mostly waits for commands that may quit
			for _, key := range allKeys() {
				s := st.open(t)
				before := s.open()
				s.press(key)
				got := s.outcome(before)
				want, ok := st.does[key]
				if !ok && (got == "" || !slices.Contains([]string{asks, quits, closes}, got) && len(s.sent) == 0) {
					continue
				}
				if got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// allKeys returns the keys of all tables, each once.
func allKeys() (keys []string) {
	add := func(more []string) {
		for _, k := range more {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	for _, table := range tables() {
		for _, b := range table {
			add(strings.Fields(b.Keys))
		}
	}
	return keys
}

// tables returns the tables of the board, the inspector and all modes.
func tables() [][]keys.Binding {
	m := newModel(context.Background(), Options{}.replaying(replay.NewPlayer([]event.Event{{}}, 0)))
	return [][]keys.Binding{m.boardKeys(), m.inspectorKeys(), m.replay.Keys(), m.breaks.Keys(), m.edit.Keys(), m.palette.Keys(), m.help.Keys(), m.abort.Keys(), m.giveUp.Keys()}
}

// open names the mode on top of the board.
func (s *rig) open() string {
	return fmt.Sprint(s.asks(), s.reads(), s.Modes.Has(s.breaks), s.types(), s.Modes.Has(s.palette), s.insp.Shown)
}

// outcome says what the last key did.
func (s *rig) outcome(before string) string {
	switch {
	case s.quits():
		return quits
	case len(s.sent) == 1:
		return string(s.sent[0].Name)
	case s.asks() && !strings.HasPrefix(before, "true"):
		return asks
	case strings.Count(s.open(), "true") > strings.Count(before, "true"):
		return opens
	case strings.Count(s.open(), "true") < strings.Count(before, "true"):
		return closes
	}
	return ""
}

// TestHints checks the keys in the footer in every state.
func TestHints(t *testing.T) {
	for _, st := range states() {
		s := st.open(t)
		var got []string
		for _, h := range s.failureHints() {
			got = append(got, h.Key)
		}
		if len(got) > 0 {
			got = append(got, "|")
		}
		for _, h := range s.hints() {
			got = append(got, h.Key)
		}
		if g := strings.Join(got, " "); g != st.hints {
			t.Errorf("%s: the footer has %q, want %q", st.name, g, st.hints)
		}
	}
}

// TestHintsWork presses every key of the footer in every state. Each must send a command that the run
// accepts in this state, or change the screen.
func TestHintsWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, st := range states() {
			s := st.open(t)
			if s.Modes.Has(s.filter) { // the keys are letters there, and the footer is the filter
				continue
			}
			for _, h := range append(s.failureHints(), s.hints()...) {
				key, _, _ := strings.Cut(h.Key, ", ")
				if key == "" {
					key = h.Key
				}
				switch h.Key {
				case s.Theme.Lines.Enter:
					key = "enter"
				case s.Theme.Lines.Left:
					key = "left"
				case s.Theme.Lines.Right:
					key = "right"
				}
				s := st.open(t)
				before := s.text()
				s.press(key)
				switch {
				case len(s.sent) > 0:
					if why := refusal(s.State.Run, s.sent[0].Name); why {
						t.Errorf("%s: the footer offers %q (%s), which the run refuses", st.name, h.Key, h.Word)
					}
				case s.edits(): // its editor takes the terminal
				case s.quits(), s.text() != before, h.Key == "f" && onlyProblem(s):
				default:
					t.Errorf("%s: the footer offers %q (%s), which does nothing", st.name, h.Key, h.Word)
				}
			}
		}
	})
}

// refusal reports whether the engine refuses a command (see engine.Command).
func refusal(run event.Status, c event.CommandName) bool {
	switch c {
	case event.Pause:
		return run != event.Running
	case event.Resume:
		return run != event.Paused
	case event.Step:
		return run != event.Paused
	case event.Accept, event.Retry, event.GiveUp:
		return run != event.Held
	case event.Break:
		return run == event.Aborting
	}
	return false
}

// TestCommandChangesNothingYet: a command changes nothing on the screen until its event arrives.
func TestCommandChangesNothingYet(t *testing.T) {
	for _, key := range []string{"p", "b"} {
		s := with("sandbox-install", 63, "end")(t)
		before := s.text()
		s.press(key)
		if len(s.sent) != 1 || s.text() != before {
			t.Errorf("%s sent %v; the screen changed: %t", key, s.sent, s.text() != before)
		}
	}
}

func TestCommandsNameTheirGroup(t *testing.T) {
	s := with("sandbox-install", 63, "end home")(t)
	s.press("end", "b")
	if got := s.sent[0].Group; got != "post-install:Job/shop-smoke-test" {
		t.Errorf("breakpoint on %q", got)
	}
	s = with("sandbox-held", 0, "")(t)
	s.press("R")
	if got := s.sent[0]; got.Name != event.Retry || got.Group != "shop/api:server" {
		t.Errorf("R on the failed group sends %v", got)
	}
	s = with("sandbox-held", 0, "f")(t)
	s.press("G", "G")
	if got := s.sent[0]; got.Name != event.GiveUp || got.Phase != "apply" || got.Group != "shop/api:server" {
		t.Errorf("G on the failed group sends %v", got)
	}
	s = pausedRun(t)
	s.press("N")
	if got := s.sent[0]; got.Name != event.Step || got.Phase != "apply" || got.Group != "shop/db:schema" {
		t.Errorf("N sends %v", got)
	}
	s = with("sandbox-held", 0, "home")(t)
	s.press("R")
	if got := s.sent[0]; got.Name != event.Retry || got.Group != "" {
		t.Errorf("R elsewhere sent %v, want all failed groups", got)
	}
}

// TestRefused shows why a command was refused, for a while.
func TestRefused(t *testing.T) {
	s := with("sandbox-install", 63, "")(t)
	refusal := event.Event{Kind: event.KindCommand, Command: event.Step, Answers: "of another terminal", Status: event.Refused, Message: "the run is not paused; pause it first", Time: s.State.Now}
	s.feed(refusal)
	s.showsNot(t, "cannot step") // another terminal sent it (R45)
	s.press("n")
	refusal.Answers = s.sent[len(s.sent)-1].ID
	s.feed(refusal)
	s.shows(t, "cannot step: the run is not paused; pause it first")
	s.press("n")
	refusal.Answers, refusal.Message = s.sent[len(s.sent)-1].ID, "the run is held on a failure; use retry, accept or give-up"
	refusal.Hold = &event.Hold{Commands: []event.CommandName{event.Retry, event.Accept, event.GiveUp}}
	s.feed(refusal)
	s.shows(t, "cannot step: the run is held on a failure; use retry, re-check or stop here")
	s.press("n")
	refusal.Answers, refusal.Message, refusal.Hold = s.sent[len(s.sent)-1].ID, "the run is not paused; pause it first", nil
	s.feed(refusal)
	s.send(screen.FlashOver(s.Flash.N - 1)) // of a message before
	s.shows(t, "cannot step")
	s.send(screen.FlashOver(s.Flash.N))
	s.showsNot(t, "cannot step")
	refusal.Message = "shop/db:schema is waiting for namespace:shop"
	s.feed(refusal)
	s.showsNot(t, "cannot step")
	s.press("n")
	refusal.Answers = s.sent[len(s.sent)-1].ID
	s.feed(refusal)
	s.shows(t, "cannot step: db:schema is waiting for Namespace/shop")
	s.press("p") // the refusal may be false now
	s.showsNot(t, "cannot step")
}

// TestCtrlCTwice: ctrl-c twice stops the run at once, wherever the user is.
func TestCtrlCTwice(t *testing.T) {
	for _, keys := range []string{"", "?", "/", "/ a p i", "/ a p i enter", "enter", "f enter tab", "w", "a esc"} {
		s := with("sandbox-install", 63, keys)(t)
		s.press("ctrl+c", "ctrl+c")
		if len(s.sent) != 1 || s.sent[0].Name != event.Stop || s.sent[0].Via == "" {
			t.Errorf("after %q, ctrl-c twice sent %v", keys, s.sent)
		}
	}
}

// TestCtrlCTwiceQuits: the screen quits once the run that ctrl-c stopped is over, but stays open after
// any other end.
func TestCtrlCTwiceQuits(t *testing.T) { inBubble(t, testCtrlCTwiceQuits) }

func testCtrlCTwiceQuits(t *testing.T) {
	for keys, want := range map[string]bool{"ctrl+c ctrl+c": true, "ctrl+c K": false, "": false} {
		s := with("sandbox-install", 63, keys)(t)
		_, cmd := s.Update(batchMsg{events: []event.Event{{Kind: event.KindOperation, Status: event.Aborted, Time: s.State.Now}}, more: true})
		if leads[tea.QuitMsg](cmd) != want {
			t.Errorf("after %q the screen quit by itself: %t", keys, !want)
		}
	}
}

// TestDialogKnowsRollback: a user who read in the dialog that a rollback is running does not have to
// confirm twice (R43); a user who was asked before it started does.
func TestDialogKnowsRollback(t *testing.T) {
	for _, keys := range [][]string{{"a", "K"}, {"ctrl+c", "ctrl+c"}} {
		s := with("sandbox-rollback", 160, "")(t)
		s.press(keys...)
		if len(s.sent) != 1 || !s.sent[0].KnowsRollback {
			t.Errorf("%q sends %+v", keys, s.sent)
		}
	}
	s := with("sandbox-rollback", 60, "a")(t)
	if s.RollingBack() {
		t.Fatal("the record has changed: it starts with a rollback")
	}
	s.feed(recorded(t, "sandbox-rollback", 160)[60:]...)
	s.press("K")
	if len(s.sent) != 1 || s.sent[0].KnowsRollback {
		t.Errorf("K sent %+v to a rollback that started while the dialog was open", s.sent)
	}
}

func canBeLeft(o *Options) {
	o.ComeBack, o.Unattended, o.leave = "lockstep attach shop", 5*time.Minute, func() {}
}

// TestLeave: a run of this terminal can be left running (R47). The dialog says how to come back, and until when if the run waits.
func TestLeave(t *testing.T) {
	const leave = "d       leave it running; come back with: lockstep attach shop"
	left := 0
	local := func(o *Options) { canBeLeft(o); o.leave = func() { left++ } }
	with("sandbox-install", 63, "q", local)(t).shows(t, leave)
	with("sandbox-breakpoint", 0, "q", local)(t).shows(t, leave+"; paused, it is aborted if nobody attaches within 5:00")
	s := with("sandbox-held", 0, "q", local)(t)
	s.shows(t, leave+"; held, it ends as failed if nobody attaches within 5:00")
	if s.press("d"); left != 1 || !s.quits() || len(s.sent) > 0 {
		t.Errorf("d: left %d times, quits: %t, sent %v", left, s.quits(), s.sent)
	}
	with("sandbox-install", 63, "q")(t).showsNot(t, "leave it running")
}

// TestBackToHome: a screen that was opened from home says where esc leads, and does not offer q, which quits everywhere else.
func TestBackToHome(t *testing.T) {
	for place, want := range map[string]string{"home": "press esc to go home", "the history": "press esc to go to the history"} {
		s := with("sandbox-install", 0, "", func(o *Options) { o.Home = place })(t)
		s.shows(t, want, "esc "+strings.TrimPrefix(place, "the "))
		s.showsNot(t, "q back", "q quit")
	}
}

// TestTwoOperators: what somebody else does on another screen is said here, and who paused the run stays in the header; what
// happened long before is not news.
func TestTwoOperators(t *testing.T) {
	s := with("sandbox-install", 63, "", attached)(t)
	now := s.State.Now
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Pause, Status: event.Accepted, Answers: "x", By: "ada@laptop", Time: now},
		event.Event{Kind: event.KindRun, Status: event.Paused, Origin: &event.Origin{Command: event.Pause, By: "ada@laptop"}, Time: now})
	s.shows(t, "\n paused by ada@laptop", "‖ paused  by ada@laptop")
	own := with("sandbox-install", 63, "", attached)(t)
	own.press("p")
	own.feed(event.Event{Kind: event.KindCommand, Command: event.Pause, Status: event.Accepted, Answers: own.sent[0].ID, By: "ann on box, process 7", Time: now},
		event.Event{Kind: event.KindRun, Status: event.Paused, Origin: &event.Origin{Command: event.Pause, By: "ann on box, process 7"}, Time: now})
	own.shows(t, "‖ paused  by you")
	own.StartedBy = "ann on box"
	own.feed(event.Event{Kind: event.KindCommand, Command: event.Pause, Status: event.Accepted, Answers: "x", Time: now},
		event.Event{Kind: event.KindRun, Status: event.Paused, Origin: &event.Origin{Command: event.Pause}, Time: now})
	own.shows(t, "‖ paused  by ann on box")
	s.press("c")
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Resume, Status: event.Accepted, Answers: s.sent[0].ID, Time: now}, event.Event{Kind: event.KindRun, Status: event.Running, Time: now})
	s.showsNot(t, "resumed by")
	s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Origin: &event.Origin{Command: event.Pause}, Time: now})
	s.shows(t, "‖ paused  by the user who started the run")
	s.feed(event.Event{Kind: event.KindCommand, Command: event.Edit, Status: event.Accepted, Answers: "y", Time: now})
	s.shows(t, "edited by the user who started the run")
	old := with("sandbox-install", 63, "", attached, func(o *Options) { o.Now = func() time.Time { return now.Add(time.Minute) } })(t)
	old.feed(event.Event{Kind: event.KindCommand, Command: event.Resume, Status: event.Accepted, Answers: "x", By: "ada@laptop", Time: now})
	old.showsNot(t, "ada@laptop")
}

// TestDialogTexts compares the promises of the abort dialog with the release.
func TestDialogTexts(t *testing.T) {
	s := with("sandbox-held", 0, "a")(t)
	s.shows(t, "abort the install of shop?", "keep existing objects: 21 objects stay; the release is marked failed",
		"roll back: delete the 20 objects, in reverse order; the namespace stays", "like K, then quit", "cancel")

	s = with("sandbox-held", 0, "")(t)
	s.State.Operation.Name, s.State.Operation.PreviousRevision = "upgrade", 3
	s.press("a")
	s.shows(t, "roll back: to revision 3")

	// Past a point of no return, a rollback needs the reason (R33a).
	s = with("sandbox-held", 0, "")(t)
	s.feed(event.Event{Time: s.State.Now, Kind: event.KindNoReturn, Group: "shop:schema", Message: "schema 37"})
	s.press("a")
	s.shows(t, "roll back past the point of no return; asks for its reason: schema 37")
	s.press("r")
	s.shows(t, "reason: ", "type the reason as shown above", "asks for its reason: schema 37")
	for _, key := range []string{"s", "c", "h", "e", "m", "a", " ", "3", "enter"} {
		s.press(key)
	}
	if len(s.sent) > 0 || !s.asks() {
		t.Errorf("a part of the reason sends %v", s.sent)
	}
	s.press("7")
	s.shows(t, "that is the reason")
	s.press("enter")
	if len(s.sent) != 1 || s.sent[0].Name != event.Rollback || s.sent[0].PastNoReturn != "schema 37" || s.asks() {
		t.Errorf("the reason sends %+v", s.sent)
	}

	// Without an earlier good revision, a rollback is not possible.
	for _, name := range []string{"upgrade", "rollback", "uninstall"} {
		s = with("sandbox-held", 0, "")(t)
		s.State.Operation.Name = name
		s.press("a")
		s.showsNot(t, "roll back: to", "roll back: uninstall")
		if name == "uninstall" {
			s.shows(t, "r       not available: to restore a revision, run lockstep rollback afterwards")
		}
		s.press("r")
		if len(s.sent) > 0 || !s.asks() {
			t.Errorf("%s: r sends %v", name, s.sent)
		}
	}

	s = with("sandbox-install", 10, "a")(t)
	s.shows(t, "roll back: uninstall the release; the namespace stays", "keep existing objects: 1 object stays; the release is marked failed")

	// An upgrade keeps the objects of the earlier revision too. It counts those that it has changed: two more are unchanged.
	s = with("sandbox-upgrade", 30, "a")(t)
	s.shows(t, "keep existing objects: 1 object already applied, the others unchanged; the release is marked failed")
	s = with("sandbox-upgrade", 12, "a")(t)
	s.shows(t, "keep existing objects: nothing changed yet;")

	// A test changes neither objects of the release nor its status.
	s = with("sandbox-held", 0, "")(t)
	s.State.Operation.Name = "test"
	s.press("a")
	s.shows(t, "K       stop the tests; the release is unchanged", "ctrl-c  like K, then quit")
	s.showsNot(t, "roll back", "keep existing objects")
	s.press("r")
	if len(s.sent) > 0 || !s.asks() {
		t.Errorf("r in a test sends %v", s.sent)
	}

	// Before the first write, there is nothing to keep or roll back.
	s = with("sandbox-install", 10, "")(t)
	for _, n := range s.Graph.Nodes {
		n.Started = time.Time{}
	}
	s.feed(event.Event{Time: s.State.Now, Kind: event.KindRun, Status: event.Paused, Message: "before the first group"})
	s.press("a")
	s.shows(t, " a       abort: nothing was written", " ctrl-c  abort and quit", " esc     cancel")
	s.showsNot(t, "roll back", "keep existing")
	s.press("a")
	if len(s.sent) != 1 || s.sent[0].Name != event.Abort {
		t.Errorf("a sends %v", s.sent)
	}

	s = with("sandbox-rollback", 160, "a")(t)
	s.shows(t, "stop the rollback?", "objects deleted", "remaining", "cannot roll back: a rollback is already running")

	// The dialog closes when there is nothing left to abort.
	s = with("sandbox-install", 63, "a")(t)
	s.feed(recorded(t, "sandbox-install", 0)[63:]...)
	s.showsNot(t, "abort the install")
}

// TestNoCommandsAfterEnd: a dialog answered too late does no harm.
func TestNoCommandsAfterEnd(t *testing.T) {
	s := with("sandbox-install", 0, "up")(t)
	s.press("p", "n", "c", "b", "R")
	if len(s.sent) > 0 {
		t.Errorf("sent %v", s.sent)
	}
	s.shows(t, "the run is over")
}

// onlyProblem reports whether f has nowhere else to go.
func onlyProblem(s *rig) bool {
	failed, blocking := s.board.Problems()
	return len(failed)+len(blocking) == 1 || len(failed) == 1 && slices.Contains(failed, s.Sel)
}

// TestNoKeyIsBothHarmlessAndFinal: a key that steps, aborts, stops or quits in one place does nothing
// harmless in another.
func TestNoKeyIsBothHarmlessAndFinal(t *testing.T) {
	final := regexp.MustCompile(`^(step|abort|stop|quit|end the run)\b`)
	harmful := map[string]string{}
	for _, table := range tables() {
		for _, b := range table {
			for k := range strings.FieldsSeq(b.Keys) {
				if final.MatchString(b.About) {
					harmful[k] = b.About
				}
			}
		}
	}
	for _, k := range []string{"n", "N", "a", "q", "G", "K", "r", "ctrl+c"} {
		if k != "r" && harmful[k] == "" {
			t.Errorf("%s does nothing final any more: update the words in this test", k)
		}
	}
	for _, table := range tables() {
		for _, b := range table {
			for k := range strings.FieldsSeq(b.Keys) {
				if harmful[k] != "" && !final.MatchString(b.About) {
					t.Errorf("%s: %q in one place, %q in another", k, harmful[k], b.About)
				}
			}
		}
	}
}

// TestFewKeys: the logs, diff, pods and dependencies of an object take one key, a breakpoint on any
// group at most four; the reason for a pause takes none.
func TestFewKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for key, tab := range map[string]inspector.Tab{"2": inspector.TabDiff, "5": inspector.TabPods, "6": inspector.TabLogs, "7": inspector.TabOrder, "l": inspector.TabLogs, "d": inspector.TabDiff} {
			s := with("sandbox-held", 0, "f "+key, answered)(t)
			if !s.insp.Shown || s.insp.Tab != tab {
				t.Errorf("%s opens %s", key, inspector.TabNames[s.insp.Tab])
			}
		}
		for _, events := range [][]event.Event{recorded(t, "sandbox-install", 20), crowded(0, 0, 37), large(600)} {
			s := newScreen(t, 160, 45, events)
			for _, n := range s.Graph.Nodes {
				if n.Status != event.Waiting {
					continue
				}
				s.press("g")
				code := s.Codes[n.Unit()]
				s.sent = nil
				s.press(strings.Split(code, "")...)
				s.press("tab")
				if len(code) != 2 || len(s.sent) != 1 || s.sent[0].Name != event.Break || s.sent[0].Group != n.ID {
					t.Fatalf("g, %q and tab sent %v for %s", code, s.sent, n.ID)
				}
				if s.Group() != n || s.Modes.Top() != nil || s.Codes != nil {
					t.Fatalf("then %s was selected", s.Group().ID)
				}
			}
		}
		s := newScreen(t, 100, 30, recorded(t, "sandbox-held", 0))
		s.shows(t, "held  api:server · deploy/shop-api: image")
	})
}

// TestGoToGroup goes to a group by code or name; esc returns.
func TestGoToGroup(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-install", 63))
	was := s.Sel
	for typed, want := range map[string]string{"schema": "shop/db:schema", "web": "shop/web:(unsequenced)", "gate": "shop:gateway", "apiserver": "shop/api:server"} {
		s.press("g")
		s.press(strings.Split(typed, "")...)
		s.press("enter")
		if s.Group().ID != want || s.Detail != screen.Auto {
			t.Errorf("%s went to %s", typed, s.Group().ID)
		}
	}
	s.Sel = was
	s.press("g", "w", "e", "b", "esc")
	if s.Sel != was || len(s.sent) > 0 {
		t.Errorf("esc went to %v", s.Sel)
	}
}

// TestGoToKeepsCards: going to a group shows the codes on the cards if all groups are in view, and lines only if they are not.
func TestGoToKeepsCards(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			w, h  int
			stays bool
		}{{200, 50, true}, {160, 45, true}, {60, 20, false}} {
			s := newScreen(t, c.w, c.h, recorded(t, "sandbox-breakpoint", 0))
			was := s.places()
			s.press("g")
			if stays := slices.Equal(s.places(), was); stays != c.stays {
				t.Errorf("%d×%d: the cards stay: %v\n%s", c.w, c.h, stays, s.text())
			}
			for _, n := range s.Graph.Nodes {
				if code := s.Codes[n.Unit()]; c.stays && !strings.Contains(s.text(), " "+code+" ") {
					t.Errorf("%d×%d: %s has no code:\n%s", c.w, c.h, n.ID, s.text())
				}
			}
		}
	})
}

// TestHintsAreButtons: a click on a hint presses its key.
func TestHintsAreButtons(t *testing.T) {
	s := newScreen(t, 160, 45, recorded(t, "sandbox-breakpoint", 0))
	if len(s.Buttons) != len(s.hints()) {
		t.Errorf("%d buttons, %d hints", len(s.Buttons), len(s.hints()))
	}
	for _, b := range s.Buttons {
		if b.Key == "n" {
			s.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: b.Rect.X + 1, Y: b.Rect.Y})
		}
	}
	if len(s.sent) != 1 || s.sent[0].Name != event.Step {
		t.Errorf("a click on step sends %v", s.sent)
	}
}
