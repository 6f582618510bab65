package board

import (
	"context"
	"reflect"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/keys"
)

// stack is the screen of an operation on many releases (S6): one board with a group for each
// release, and a board per release that opens on top of it. Messages to the board of a release
// are wrapped in releaseMsg.
type stack struct {
	*model // the board with all releases
	ctx    context.Context
	opts   Options
	boards map[string]*model // by Event.Scope
	// pending are the events not yet delivered to the boards of the releases.
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
	s.openRelease, s.release = s.show, func(scope string) *model { return s.boards[scope] }
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

// boardOf returns the board of a release, and creates it if needed.
func (s *stack) boardOf(scope string) *model {
	m := s.boards[scope]
	if m == nil {
		o := s.opts
		o.Release, o.Source, o.record, o.Editor, o.Restart, o.WatchAfter, o.Next, o.First, o.Title = nil, nil, nil, nil, nil, nil, nil, false, scope
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
		m.SetTheme(s.Theme.Options)
		m.ShareCommands(s.Screen)
		m.W, m.H = s.W, s.H
		m.Stack, m.Scope, m.stackBoard = &s.Picture, scope, s.model
		m.Abort = func() tea.Cmd { m.Modes = nil; return s.askAbort() }
		m.back = func() tea.Cmd { s.open = ""; s.stale = true; return nil }
		s.boards[scope] = m
	}
	return m
}

// show opens the board of a release, and a tab of its inspector.
func (s *stack) show(scope string, tab ...inspector.Tab) tea.Cmd {
	m := s.boards[scope]
	if m == nil {
		return s.Say(theme.Quiet, "nothing to do for "+scope)
	}
	s.open = scope
	cmds := []tea.Cmd{m.refresh(), m.insp.QueryChanges()}
	for _, t := range tab {
		cmds = append(cmds, m.insp.OpenTab(t))
	}
	return s.wrap(scope, tea.Batch(cmds...))
}

// Update passes input to the visible board, and changes to the terminal to all boards.
func (s *stack) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	flashed := s.Flash.N
	cmd := tea.Batch(s.handle(msg), s.deliver())
	m := s.boards[s.open]
	switch {
	case m == nil:
	case s.model.Modes.Top() != nil: // a mode is open on the stack's own board
		s.open = ""
	case s.Flash.N != flashed:
		cmd = tea.Batch(cmd, s.wrap(s.open, m.Say(s.Flash.Role, s.Flash.Text)))
	}
	if m != nil {
		m.Count()
		m.stale = true // it also shows the state of the stack
	}
	return s, cmd
}

func (s *stack) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case releaseMsg:
		_, cmd := s.boardOf(msg.scope).Update(msg.msg)
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
		if m := s.boards[s.open]; m != nil && m.Modes.Top() == nil && s.isStackKey(msg.String()) {
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

// isStackKey reports whether a key acts on the stack, not on the open release: it controls, ends or
// reports the run, or belongs to a replay.
func (s *stack) isStackKey(key string) bool {
	if s.replay != nil {
		if _, ok := keys.Find(s.replay.Keys(), key); ok {
			return true
		}
	}
	return slices.Contains(stackKeys, key)
}

// stackKeys act on the whole stack, even on the board of a release.
var stackKeys = []string{"q", "a", "ctrl+c", "p", "space", "c", "n", "o"}

func isInput(msg tea.Msg) bool {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg, tea.MouseClickMsg, tea.MouseWheelMsg:
		return true
	}
	return false
}

// deliver passes the pending events to the boards of their releases.
func (s *stack) deliver() tea.Cmd {
	var cmds []tea.Cmd
	for scope, events := range s.pending {
		delete(s.pending, scope)
		_, cmd := s.boardOf(scope).Update(batchMsg{events: events, more: true})
		cmds = append(cmds, s.wrap(scope, cmd))
	}
	return tea.Batch(cmds...)
}

// wrap returns a command whose messages go to the board of a release. Messages for Bubble Tea, such as
// tea.QuitMsg, are not wrapped. Their types are mostly unexported, so wrap checks the type's package.
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
