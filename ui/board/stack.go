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

// stack is the screen of an operation on many releases (S6): a board whose groups are
// releases, and a board for each release, which is opened and left like a mode. All of them
// are models of the same kind; their messages carry the name of the release.
type stack struct {
	*model // of the releases
	ctx    context.Context
	opts   Options
	of     map[string]*model // by Event.Scope
	// news are events that the boards of the releases have not seen yet.
	news map[string][]event.Event
	open string // the release whose board is shown, or ""
}

// ofRelease is a message to the board of a release.
type ofRelease struct {
	scope string
	msg   tea.Msg
}

func newStack(ctx context.Context, o Options) *stack {
	s := &stack{model: newModel(ctx, o), ctx: ctx, opts: o, of: map[string]*model{}, news: map[string][]event.Event{}}
	s.zoom = s.show
	s.Scoped = func(e event.Event) {
		scope := e.Scope
		e.Scope = ""
		s.news[scope] = append(s.news[scope], e)
	}
	s.Rewound = func() {
		clear(s.news)
		for _, m := range s.of {
			m.Rewind()
		}
	}
	return s
}

// release returns the board of a release.
func (s *stack) release(scope string) *model {
	m := s.of[scope]
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
		m.back = func() tea.Cmd { s.open = ""; s.stale = true; return nil }
		s.of[scope] = m
	}
	return m
}

// show opens the board of a release.
func (s *stack) show(scope string) tea.Cmd {
	m := s.of[scope]
	if m == nil {
		return s.Say(theme.Quiet, "nothing to do for "+scope)
	}
	s.open = scope
	m.header.Within = s.State.Operation.Name + " " + s.State.Operation.Release
	return s.wrap(scope, m.settle())
}

// Update takes a message into the board that it is for: keys and the mouse into the one
// that is shown, the terminal into all.
func (s *stack) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := s.take(msg)
	return s, tea.Batch(cmd, s.share())
}

func (s *stack) take(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case ofRelease:
		_, cmd := s.release(msg.scope).Update(msg.msg)
		return s.wrap(msg.scope, cmd)
	case tea.WindowSizeMsg, tea.BackgroundColorMsg, tea.ColorProfileMsg:
		_, cmd := s.model.Update(msg)
		cmds := []tea.Cmd{cmd}
		for scope, m := range s.of {
			_, cmd := m.Update(msg)
			cmds = append(cmds, s.wrap(scope, cmd))
		}
		return tea.Batch(cmds...)
	case tea.KeyPressMsg:
		if m := s.of[s.open]; m != nil && m.Modes.Top() == nil && s.isOfWhole(msg.String()) {
			return s.whole(msg)
		}
	}
	if m := s.of[s.open]; m != nil && isInput(msg) {
		_, cmd := m.Update(msg)
		return s.wrap(s.open, cmd)
	}
	_, cmd := s.model.Update(msg)
	return cmd
}

// isOfWhole reports whether a key is about all releases: those that steer or end the run, and
// those of a replay.
func (s *stack) isOfWhole(key string) bool {
	for _, r := range s.replays {
		if _, ok := keys.Find(r.Keys(), key); ok {
			return true
		}
	}
	return slices.Contains([]string{"q", "a", "ctrl+c", "p", "space", "c", "n", "o"}, key)
}

// whole obeys a key that is about all releases. Dialogs open above the stack.
func (s *stack) whole(k tea.KeyPressMsg) tea.Cmd {
	was := s.open
	_, cmd := s.model.Update(k)
	if s.model.Modes.Top() != nil {
		s.open = ""
	} else {
		s.open = was
	}
	return cmd
}

func isInput(msg tea.Msg) bool {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg, tea.MouseClickMsg, tea.MouseWheelMsg:
		return true
	}
	return false
}

// share hands the events of releases to their boards.
func (s *stack) share() tea.Cmd {
	var cmds []tea.Cmd
	for scope, events := range s.news {
		delete(s.news, scope)
		_, cmd := s.release(scope).Update(batchMsg{events, true})
		cmds = append(cmds, s.wrap(scope, cmd))
	}
	return tea.Batch(cmds...)
}

// wrap sends what a command of a release's board answers to that board. Messages to Bubble
// Tea itself stay as they are.
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
			return ofRelease{scope, msg}
		}
	}
}

// View draws the board that is shown.
func (s *stack) View() tea.View {
	if m := s.of[s.open]; m != nil {
		return m.View()
	}
	return s.model.View()
}
