package board

import (
	"context"
	"reflect"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/keys"
)

// stack is the screen of an operation on many releases (S6): a board whose groups are releases,
// and a board for each release, which opens and closes like a mode. All boards are models;
// messages to the board of a release are wrapped in releaseMsg.
type stack struct {
	*model // of the releases
	ctx    context.Context
	opts   Options
	boards map[string]*model // by Event.Scope
	// pending are events that the boards of the releases have not seen yet.
	pending map[string][]event.Event
	open    string // the release whose board is shown, or ""
}

// releaseMsg is a message to the board of a release.
type releaseMsg struct {
	scope string
	msg   tea.Msg
}

func newStack(ctx context.Context, o Options) *stack {
	s := &stack{model: newModel(ctx, o), ctx: ctx, opts: o, boards: map[string]*model{}, pending: map[string][]event.Event{}}
	s.openRelease = s.show
	s.Scoped = func(e event.Event) {
		scope := e.Scope
		e.Scope = ""
		s.pending[scope] = append(s.pending[scope], e)
	}
	s.Rewound = func() {
		clear(s.pending)
		for _, m := range s.boards {
			m.Rewind()
		}
	}
	return s
}

func (s *stack) release(scope string) *model {
	m := s.boards[scope]
	if m == nil {
		o := s.opts
		o.Source, o.record, o.Editor, o.Restart, o.Later, o.Next, o.First, o.Title = nil, nil, nil, nil, nil, nil, false, scope
		if s.opts.Release != nil {
			o.Inspector, o.Kubectl = s.opts.Release(scope)
		}
		if s.opts.Command != nil {
			o.Command = func(c event.Command) {
				if c.Group != "" {
					c.Scope = scope
				}
				s.opts.Command(c)
			}
		}
		m = newModel(s.ctx, o)
		m.setTheme(s.Theme.Options)
		m.W, m.H = s.W, s.H
		m.Whole, m.Scope, m.whole = &s.Picture, scope, s.model
		m.Abort = func() tea.Cmd { m.Modes = nil; return s.askAbort() }
		m.back = func() tea.Cmd { s.open = ""; s.stale = true; return nil }
		s.boards[scope] = m
	}
	return m
}

func (s *stack) show(scope string) tea.Cmd {
	m := s.boards[scope]
	if m == nil {
		return s.Say(theme.Quiet, "nothing to do for "+scope)
	}
	s.open = scope
	return s.wrap(scope, tea.Batch(m.settle(), m.insp.QueryChanges()))
}

// Update passes a message to its board: input to the shown one, changes of the terminal to
// all.
func (s *stack) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	said := s.Flash.N
	cmd := tea.Batch(s.handle(msg), s.share())
	m := s.boards[s.open]
	switch {
	case m == nil:
	case s.model.Modes.Top() != nil: // it is on the stack's own board
		s.open = ""
	case s.Flash.N != said:
		cmd = tea.Batch(cmd, s.wrap(s.open, m.Say(s.Flash.Role, s.Flash.Text)))
	}
	if m != nil {
		m.Count()
		m.stale = true // it shows the stack's state too
	}
	return s, cmd
}

func (s *stack) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case releaseMsg:
		_, cmd := s.release(msg.scope).Update(msg.msg)
		return s.wrap(msg.scope, cmd)
	case tea.WindowSizeMsg, tea.BackgroundColorMsg, tea.ColorProfileMsg:
		_, cmd := s.model.Update(msg)
		cmds := []tea.Cmd{cmd}
		for scope, m := range s.boards {
			_, cmd := m.Update(msg)
			cmds = append(cmds, s.wrap(scope, cmd))
		}
		return tea.Batch(cmds...)
	case tea.KeyPressMsg:
		if m := s.boards[s.open]; m != nil && m.Modes.Top() == nil && s.isForAll(msg.String()) {
			_, cmd := s.model.Update(msg)
			return cmd
		}
	}
	if m := s.boards[s.open]; m != nil && isInput(msg) {
		_, cmd := m.Update(msg)
		return s.wrap(s.open, cmd)
	}
	_, cmd := s.model.Update(msg)
	return cmd
}

// isForAll reports whether a key is about all releases: those that steer or end the run, and
// those of a replay.
func (s *stack) isForAll(key string) bool {
	if s.replay != nil {
		if _, ok := keys.Find(s.replay.Keys(), key); ok {
			return true
		}
	}
	return slices.Contains(keysForAll, key)
}

// keysForAll act on the whole stack from the board of a release too.
var keysForAll = []string{"q", "a", "ctrl+c", "p", "space", "c", "n", "o"}

func isInput(msg tea.Msg) bool {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg, tea.MouseClickMsg, tea.MouseWheelMsg:
		return true
	}
	return false
}

func (s *stack) share() tea.Cmd {
	var cmds []tea.Cmd
	for scope, events := range s.pending {
		delete(s.pending, scope)
		_, cmd := s.release(scope).Update(batchMsg{events: events, more: true})
		cmds = append(cmds, s.wrap(scope, cmd))
	}
	return tea.Batch(cmds...)
}

// wrap sends the messages of a command back to the board of a release. It does not wrap
// messages to Bubble Tea itself.
func (s *stack) wrap(scope string, cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() tea.Msg {
		switch msg := cmd().(type) {
		case nil:
			return nil
		case tea.BatchMsg:
			for i := range msg {
				msg[i] = s.wrap(scope, msg[i])
			}
			return msg
		default:
			if !strings.HasPrefix(reflect.TypeOf(msg).PkgPath(), "lockstep/") {
				return msg
			}
			return releaseMsg{scope, msg}
		}
	}
}

func (s *stack) View() tea.View {
	if m := s.boards[s.open]; m != nil {
		return m.View()
	}
	return s.model.View()
}
