// Package line is the mode to type text in the footer, for filter and search. Its one type
// is Line.
package line

import (
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

type Line struct {
	*screen.Screen
	input textinput.Model
	use   Use
}

// Use is the purpose of a line.
type Use struct {
	Prompt     string
	Enter, Esc string // the words for these keys
	Typed      func(string)
	Cleared    func()
	Found      func() string // the result so far
	Kept       func()        // called after enter closed the line; may be nil
	// Next goes to the next or previous result, and the line stays open. Nil: enter
	// closes the line and keeps the result.
	Next  func(by int) tea.Cmd
	Other []keys.Binding // further keys
}

func New(s *screen.Screen, u Use) *Line { return &Line{Screen: s, input: keys.NewInput(), use: u} }

// Open opens the line with its previous text.
func (l *Line) Open() tea.Cmd {
	l.Modes.Open(l)
	return l.input.Focus()
}

func (l *Line) Clear() {
	l.Modes.Close(l)
	l.input.SetValue("")
	l.use.Cleared()
}

// Prompt and Line implement keys.Line.
func (l *Line) Prompt() string { return l.use.Prompt }

func (l *Line) Line() (*textinput.Model, string) {
	hints := "  " + l.Theme.Lines.Enter + " " + l.use.Enter + "  esc " + l.use.Esc
	if l.use.Next != nil {
		hints += "  up previous"
	}
	for _, b := range l.use.Other {
		if b.Active() {
			hints += "  " + b.Name() + " " + b.About
		}
	}
	return &l.input, l.use.Found() + hints
}

func (l *Line) Cursor() *tea.Cursor {
	c := tea.NewCursor(min(1+canvas.Width(l.use.Prompt)+l.input.Position(), l.W-1), l.H-1)
	c.Blink = false
	return c
}

// Keys returns the keys that do not go to the text.
func (l *Line) Keys() []keys.Binding {
	table := append(slices.Clone(l.use.Other),
		keys.Binding{Keys: "esc", Do: keys.Run(l.Clear)},
		keys.Binding{Keys: "ctrl+c", Do: l.Abort})
	if next := l.use.Next; next != nil {
		return append(table,
			keys.Binding{Keys: "enter down", Do: func() tea.Cmd { return next(1) }},
			keys.Binding{Keys: "up", Do: func() tea.Cmd { return next(-1) }})
	}
	return append(table, keys.Binding{Keys: "enter down tab", Do: keys.Run(l.keep)})
}

func (l *Line) keep() {
	l.Close()
	if l.use.Kept != nil {
		l.use.Kept()
	}
}

// Typed returns the text, Reset empties it.
func (l *Line) Typed() string { return l.input.Value() }
func (l *Line) Reset()        { l.input.SetValue("") }

// Close closes the line and keeps the result.
func (l *Line) Close() { l.Modes.Close(l) }

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
