// Package line is the mode in which text is typed in the footer: what is shown, or
// searched for. Its one type is Line.
package line

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Line is what is typed.
type Line struct {
	*screen.Screen
	input textinput.Model
	use   Use
}

// Use is what is made of it.
type Use struct {
	Typed   func(string)
	Cleared func()
	Found   func() string
}

// New is an empty line.
func New(s *screen.Screen, u Use) *Line { return &Line{Screen: s, input: keys.NewInput(), use: u} }

// Open begins to type, after what was typed before.
func (l *Line) Open() tea.Cmd {
	l.Modes.Open(l)
	return l.input.Focus()
}

// Clear forgets what was typed.
func (l *Line) Clear() {
	l.Modes.Close(l)
	l.input.SetValue("")
	l.use.Cleared()
}

// Line is what is typed into, and what is found by it.
func (l *Line) Line() (*textinput.Model, string) { return &l.input, l.use.Found() }

// Cursor is where one types.
func (l *Line) Cursor() *tea.Cursor {
	c := tea.NewCursor(min(2+l.input.Position(), l.W-1), l.H-1)
	c.Blink = false
	return c
}

// Keys are the keys that are not typed.
func (l *Line) Keys() []keys.Binding {
	return []keys.Binding{
		{Keys: []string{"enter", "down", "tab"}, Do: keys.Run(func() { l.Modes.Close(l) })},
		{Keys: []string{"esc"}, Do: keys.Run(l.Clear)},
		{Keys: []string{"ctrl+c"}, Do: l.Abort},
	}
}

// Update takes a key or a paste.
func (l *Line) Update(msg tea.Msg) (cmd tea.Cmd) {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg:
		l.input, cmd = l.input.Update(msg)
		l.use.Typed(l.input.Value())
	}
	return cmd
}

// Draw draws nothing: the footer shows the line.
func (l *Line) Draw() {}
