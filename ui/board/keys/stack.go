package keys

import (
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// Mode gets the keys while it is on top of the stack.
type Mode interface {
	// Keys returns its bindings. Update gets all other keys.
	Keys() []Binding
	// Update handles keys, pastes, the mouse wheel, Changed and the mode's own messages.
	Update(tea.Msg) tea.Cmd
	// Draw draws the mode over the board.
	Draw()
}

// Changed tells a mode that events have changed the state.
type Changed struct{}

// Line is a mode for typing text in the footer. It does not cover the board.
type Line interface {
	Prompt() string
	// Line returns the input, its status, and the hints for its keys, the most important first.
	Line() (input *textinput.Model, status string, hints []string)
}

// Cursor is a mode that shows the terminal's cursor.
type Cursor interface{ Cursor() *tea.Cursor }

// Stack holds the open modes, the last one on top.
type Stack []Mode

// Top returns the mode that gets the keys, nil if the board gets them.
func (s Stack) Top() Mode {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// Covers reports whether a mode covers the board.
func (s Stack) Covers() bool {
	_, line := s.Top().(Line)
	return len(s) > 0 && !line
}

func (s Stack) Has(m Mode) bool { return slices.Contains(s, m) }

// Open opens a mode on top, or moves it there.
func (s *Stack) Open(m Mode) {
	s.Close(m)
	*s = append(*s, m)
}

// OpenBelow opens a mode below the others, so that it does not get keys meant for them.
func (s *Stack) OpenBelow(m Mode) {
	s.Close(m)
	*s = slices.Insert(*s, 0, m)
}

// Close removes a mode, if it is open.
func (s *Stack) Close(m Mode) {
	*s = slices.DeleteFunc(*s, func(other Mode) bool { return other == m })
}

// NewInput returns an input without a prompt or a cursor; its mode draws them.
func NewInput() textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.SetVirtualCursor(false)
	return in
}
