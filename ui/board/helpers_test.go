package board

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/page"
)

// rig is a model under test. It handles messages at once and keeps the commands it sends.
type rig struct {
	*model
	sent []event.Command
	last tea.Cmd // the command that the last message returned
}

// newScreen returns a screen that shows events; its clock shows the time of the last one.
func newScreen(t testing.TB, w, h int, events []event.Event, change ...func(*Options)) *rig {
	t.Helper()
	s := &rig{}
	o := Options{
		Source:  idle{},
		Command: func(c event.Command) { s.sent = append(s.sent, c) },
		Theme:   theme.Options{Background: theme.Dark},
		Now:     func() time.Time { return s.State.Now },
	}
	for _, f := range change {
		f(&o)
	}
	s.model = newModel(t.Context(), o)
	s.send(tea.WindowSizeMsg{Width: w, Height: h})
	if len(events) > 0 {
		s.feed(events...)
	}
	if s.insp.ShowsDiff() || s.Held() && s.insp.Connected() {
		s.settle()
	}
	return s
}

// inBubble runs a test in a synctest bubble: waiting takes no time.
func inBubble(t *testing.T, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		test(t)
		time.Sleep(time.Hour) // timers of the screen end
	})
}

func readOnly(o *Options) { o.Command = nil }

func attached(o *Options) { o.Attached = true }

func look(l theme.Options) func(*Options) { return func(o *Options) { o.Theme = l } }

// idle is a source without events.
type idle struct{}

func (idle) Next(ctx context.Context) ([]event.Event, bool) { <-ctx.Done(); return nil, false }

func (s *rig) send(msg tea.Msg) {
	_, s.last = s.Update(msg)
	s.View()
}

// feed sends events a few at a time, as a run would.
func (s *rig) feed(events ...event.Event) {
	var cmds []tea.Cmd
	for batch := range slices.Chunk(events, 8) {
		_, cmd := s.Update(batchMsg{events: batch, more: true})
		cmds = append(cmds, cmd)
	}
	s.last = tea.Batch(cmds...)
	s.View()
}

// press presses keys by their names in the key table.
func (s *rig) press(keys ...string) {
	for _, k := range keys {
		s.send(keyPress(k))
	}
}

// named are the keys that are not characters.
var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "space": tea.KeySpace,
	"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
}

func keyPress(name string) tea.KeyPressMsg {
	var k tea.KeyPressMsg
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		name, k.Mod = rest, tea.ModCtrl
	}
	if rest, ok := strings.CutPrefix(name, "shift+"); ok {
		name, k.Mod = rest, tea.ModShift
	}
	if code, ok := named[name]; ok {
		k.Code = code
		if code == tea.KeySpace {
			k.Text = " "
		}
		return k
	}
	k.Code = []rune(name)[0]
	if k.Mod == 0 {
		k.Text = name
	}
	return k
}

// lines returns the lines of the screen without colours.
func (s *rig) lines() []string { return strings.Split(ansi.Strip(s.View().Content), "\n") }

func (s *rig) text() string { return strings.Join(s.lines(), "\n") }

func (s *rig) shows(t *testing.T, text ...string) {
	t.Helper()
	for _, want := range text {
		if !strings.Contains(s.text(), want) {
			t.Errorf("the screen does not show %q:\n%s", want, s.text())
		}
	}
}

func (s *rig) showsNot(t *testing.T, text ...string) {
	t.Helper()
	for _, want := range text {
		if strings.Contains(s.text(), want) {
			t.Errorf("the screen shows %q:\n%s", want, s.text())
		}
	}
}

// quits reports whether the last message ended the program.
func (s *rig) quits() bool {
	if s.last != nil && reflect.ValueOf(s.last).Pointer() == reflect.ValueOf(tea.Quit).Pointer() {
		return true
	}
	return leads[tea.QuitMsg](s.last)
}

// leads reports whether a command returns a message of a type at once.
func leads[M tea.Msg](cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	got := make(chan tea.Msg, 1)
	go func() { got <- cmd() }()
	select {
	case msg := <-got:
		if batch, ok := msg.(tea.BatchMsg); ok {
			return slices.ContainsFunc(batch, leads[M])
		}
		_, ok := msg.(M)
		return ok
	case <-time.After(20 * time.Millisecond): // it waits for something
		return false
	}
}

// readRuns caches the events of recorded runs by name.
var readRuns sync.Map

// recorded reads a run, up to the n-th event if n > 0. TestRecord makes the runs, except those called
// sandbox, which were recorded on a real cluster.
func recorded(t testing.TB, name string, n int) []event.Event {
	t.Helper()
	dir := runsDir
	if strings.HasPrefix(name, "sandbox-") {
		dir = "../../testdata/runs"
	}
	read, _ := readRuns.LoadOrStore(name, sync.OnceValues(func() ([]event.Event, error) {
		f, err := os.Open(filepath.Join(dir, name+".ndjson"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return event.Read(f)
	}))
	events, err := read.(func() ([]event.Event, error))()
	if err != nil {
		t.Fatal(err)
	}
	events = slices.Clone(events)
	if n > 0 {
		events = events[:n]
	}
	return events
}

// asks reports whether a dialog is open, reads whether a page is open, types whether the user types in
// the footer, and edits whether an edit is in progress.
func (s *rig) asks() bool  { return s.Modes.Has(s.abort) || s.Modes.Has(s.giveUp) }
func (s *rig) reads() bool { _, ok := s.Modes.Top().(*page.Page); return ok }
func (s *rig) types() bool {
	return s.Modes.Has(s.filter) || s.Modes.Has(s.search) || s.Modes.Has(s.jump.Line)
}
func (s *rig) edits() bool { _, ok := s.edit.Draft(); return ok }

// draft returns the text from the user's editor.
func (s *rig) draft() string { values, _ := s.edit.Draft(); return values }

// goToEvent goes to an event of a replay.
func (s *rig) goToEvent(at int) { s.replay.PauseAt(at); s.stale = true }
