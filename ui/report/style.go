package report

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
)

// Style says what the output may contain.
type Style struct {
	Theme theme.Theme
	// Codes allows control sequences for colour and the like. Without them
	// the output is plain text.
	Codes bool
}

// glyph is the sign of a status, or of a line that is about none.
func (s Style) glyph(st event.Status) string {
	if st == "" {
		return s.render(theme.Quiet, s.Theme.Lines.Dot)
	}
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph)
}

// mark is a status as a sign and a word.
func (s Style) mark(st event.Status) string {
	m := s.Theme.Mark(string(st))
	return s.render(m.Role, m.Glyph+" "+m.Word)
}

// word is how a status reads.
func (s Style) word(st event.Status) string { return s.Theme.Mark(string(st)).Word }

// render gives text of one line a role; what is not safe in it is left out.
func (s Style) render(r theme.Role, words string) string {
	if !s.Codes {
		return clean(words)
	}
	return s.Theme.Render(r, clean(words))
}

// bar is the line to the left of a quotation.
func (s Style) bar() string { return s.render(theme.Faint, s.Theme.Lines.Light[up|down]) }

// The arms of theme.Lines.
const (
	up = 1 << iota
	right
	down
	left
)

// clean makes text from elsewhere fit for a line.
func clean(s string) string { return text.Line(s) }
