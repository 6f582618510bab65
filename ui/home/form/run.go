package form

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Run shows a form alone until it is over. It returns the command to run, nil if the user cancelled.
func Run(ctx context.Context, t board.Terminal, look theme.Options, o Options) (args []string, err error) {
	var h *host
	err = board.RunModel(ctx, t, func(ctx context.Context) tea.Model {
		h = newHost(ctx, look, o)
		return h
	})
	return h.args, err
}

// host is the screen of a form that is not opened on another one.
type host struct {
	*screen.Screen
	form *Form
	args []string // what to run after the screen has closed
}

func newHost(ctx context.Context, look theme.Options, o Options) *host {
	h := &host{Screen: screen.New(nil, screen.Run{})}
	h.SetTheme(look)
	o.Done = func(args []string) tea.Cmd {
		h.args = args
		return tea.Quit
	}
	h.form = New(ctx, h.Screen, o)
	return h
}

func (h *host) Init() tea.Cmd { return tea.Batch(h.AskBackground(), h.form.Init()) }

func (h *host) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if h.Take(msg) {
		return h, nil
	}
	if key, ok := msg.(tea.KeyPressMsg); ok {
		h.Flash.Text = ""
		table := h.form.Keys()
		if top := h.Modes.Top(); top != nil { // the help
			table = top.Keys()
		}
		if b, ok := keys.Find(table, key.String()); ok {
			return h, b.Press(h.Explain)
		}
	}
	if top := h.Modes.Top(); top != nil {
		switch msg.(type) {
		case tea.KeyPressMsg, tea.MouseWheelMsg:
			return h, top.Update(msg)
		}
	}
	return h, h.form.Update(msg)
}

func (h *host) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	if h.W <= 0 || h.H <= 0 {
		return v
	}
	h.Clear()
	if h.TooSmall() {
		h.DrawNeededSize()
	}
	h.form.Draw()
	v.Cursor = h.form.Cursor()
	for _, open := range h.Modes {
		open.Draw()
		v.Cursor = nil
	}
	h.DrawFlash()
	v.SetContent(h.Canvas.String())
	if !h.Theme.Still {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}
