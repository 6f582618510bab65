// Package line is the mode for typing text in the footer, such as a filter or a search. Its
// central type is Line.
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
	input  textinput.Model
	config Config
}

// Config holds the texts and the callbacks of a line.
type Config struct {
	Prompt     string
	Enter, Esc string // the words for these keys
	OnInput    func(string)
	OnClear    func()
	Status     func() string  // the result so far
	OnAccept   func() tea.Cmd // called after enter closed the line; may be nil
	// Next goes to the next or previous result and keeps the line open. Nil: enter closes the
	// line and keeps the result.
	Next  func(by int) tea.Cmd
	Other []keys.Binding // further keys
}

func New(s *screen.Screen, c Config) *Line {
	return &Line{Screen: s, input: keys.NewInput(), config: c}
}

// Open opens the line with its previous text.
func (l *Line) Open() tea.Cmd {
	l.Modes.Open(l)
	return l.input.Focus()
}

func (l *Line) Clear() {
	l.Modes.Close(l)
	l.input.SetValue("")
	l.config.OnClear()
}

// Prompt and Line implement keys.Line.
func (l *Line) Prompt() string { return l.config.Prompt }

func (l *Line) Line() (*textinput.Model, string, []string) {
	hints := []string{l.Theme.Lines.Enter + " " + l.config.Enter, "esc " + l.config.Esc}
	if l.config.Next != nil {
		hints = append(hints, l.Theme.Lines.Up+" previous")
	}
	for _, b := range l.config.Other {
		if b.Active() {
			hints = append(hints, b.Name()+" "+b.About)
		}
	}
	return &l.input, l.config.Status(), hints
}

func (l *Line) Cursor() *tea.Cursor {
	c := tea.NewCursor(min(1+canvas.Width(l.config.Prompt)+l.input.Position(), l.W-1), l.H-1)
	c.Blink = false
	return c
}

// Keys returns the keys that are not typed into the text.
func (l *Line) Keys() []keys.Binding {
	table := append(slices.Clone(l.config.Other),
		keys.Binding{Keys: "esc", Do: keys.Run(l.Clear)},
		keys.Binding{Keys: "ctrl+c", Do: l.Abort})
	if next := l.config.Next; next != nil {
		return append(table,
			keys.Binding{Keys: "enter down", Do: func() tea.Cmd { return next(1) }},
			keys.Binding{Keys: "up", Do: func() tea.Cmd { return next(-1) }})
	}
	return append(table, keys.Binding{Keys: "enter down tab", Do: l.accept})
}

func (l *Line) accept() tea.Cmd {
	l.Close()
	if l.config.OnAccept == nil {
		return nil
	}
	return l.config.OnAccept()
}

// Value returns the text, Set replaces it, Reset empties it.
func (l *Line) Value() string { return l.input.Value() }
func (l *Line) Reset()        { l.input.SetValue("") }
func (l *Line) Set(text string) {
	l.input.SetValue(text)
	l.input.CursorEnd()
}

// Close closes the line and keeps the result.
func (l *Line) Close() { l.Modes.Close(l) }

func (l *Line) Update(msg tea.Msg) (cmd tea.Cmd) {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg:
		l.input, cmd = l.input.Update(msg)
		l.config.OnInput(l.input.Value())
	}
	return cmd
}

// Draw draws nothing: the footer shows the line.
func (l *Line) Draw() {}
