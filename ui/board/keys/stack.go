package keys

import (
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// Mode has the keys while it is on top of the stack. It knows the state and the
// canvas, and no other mode.
type Mode interface {
	// Keys are the keys that mean something in it. It gets all others by Update.
	Keys() []Binding
	// Update takes keys, pastes, the wheel of the mouse, Changed, and what it has
	// asked for itself.
	Update(tea.Msg) tea.Cmd
	// Draw draws it over the board.
	Draw()
}

// Changed tells a mode that events have changed the state.
type Changed struct{}

// Line is a mode in which text is typed in the footer. It does not cover the board.
type Line interface {
	// Prompt is before what is typed. Line is what is typed into, and what is found
	// by it, with the keys that there are.
	Prompt() string
	Line() (input *textinput.Model, found string)
}

// Cursor is a mode that shows the terminal's cursor.
type Cursor interface{ Cursor() *tea.Cursor }

// Stack are the modes that are open, the last one on top.
type Stack []Mode

// Top is the mode that has the keys, nil where the board has them.
func (s Stack) Top() Mode {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// Covers reports whether a mode lies over the board.
func (s Stack) Covers() bool {
	_, line := s.Top().(Line)
	return len(s) > 0 && !line
}

// Has reports whether a mode is open.
func (s Stack) Has(m Mode) bool { return slices.Contains(s, m) }

// Open puts a mode on top.
func (s *Stack) Open(m Mode) {
	s.Close(m)
	*s = append(*s, m)
}

// OpenBelow opens a mode that nobody has asked for just now below the others.
func (s *Stack) OpenBelow(m Mode) {
	s.Close(m)
	*s = slices.Insert(*s, 0, m)
}

// Close takes a mode away, if it is open.
func (s *Stack) Close(m Mode) {
	*s = slices.DeleteFunc(*s, func(other Mode) bool { return other == m })
}

// NewInput is a line to type into, drawn by whoever shows it.
func NewInput() textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.SetVirtualCursor(false)
	return in
}
