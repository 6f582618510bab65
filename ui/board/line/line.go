// Package line is the mode in which text is typed in the footer: what is shown, or
// searched for. Its one type is Line.
package line

import (
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
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
	Prompt     string // before what is typed
	Enter, Esc string // the words for these keys
	Typed      func(string)
	Cleared    func()
	Found      func() string
	// Kept is called when enter has closed the line; it may be nil.
	Kept func()
	// Next goes to the next thing that was found, or to the one before, and the line
	// stays open. Nil: enter closes it and keeps what was found.
	Next func(by int) tea.Cmd
	// Other are further keys.
	Other []keys.Binding
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

// Prompt and Line are what keys.Line asks for.
func (l *Line) Prompt() string { return l.use.Prompt }

func (l *Line) Line() (*textinput.Model, string) {
	hints := "  " + l.Theme.Lines.Enter + " " + l.use.Enter + "  esc " + l.use.Esc
	if l.use.Next != nil {
		hints += "  up previous"
	}
	for _, b := range l.use.Other {
		if b.Active() {
			hints += "  " + b.Label + " " + b.About
		}
	}
	return &l.input, l.use.Found() + hints
}

// Cursor is where one types.
func (l *Line) Cursor() *tea.Cursor {
	c := tea.NewCursor(min(1+canvas.Width(l.use.Prompt)+l.input.Position(), l.W-1), l.H-1)
	c.Blink = false
	return c
}

// Keys are the keys that are not typed.
func (l *Line) Keys() []keys.Binding {
	table := append(slices.Clone(l.use.Other),
		keys.Binding{Keys: []string{"esc"}, Do: keys.Run(l.Clear)},
		keys.Binding{Keys: []string{"ctrl+c"}, Do: l.Abort})
	if next := l.use.Next; next != nil {
		return append(table,
			keys.Binding{Keys: []string{"enter", "down"}, Do: func() tea.Cmd { return next(1) }},
			keys.Binding{Keys: []string{"up"}, Do: func() tea.Cmd { return next(-1) }})
	}
	return append(table, keys.Binding{Keys: []string{"enter", "down", "tab"}, Do: keys.Run(l.keep)})
}

func (l *Line) keep() {
	l.Close()
	if l.use.Kept != nil {
		l.use.Kept()
	}
}

// Typed is what was typed, Reset forgets it.
func (l *Line) Typed() string { return l.input.Value() }
func (l *Line) Reset()        { l.input.SetValue("") }

// Close stops typing and keeps what was found.
func (l *Line) Close() { l.Modes.Close(l) }

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
