package report

import (
	"regexp"
	"strings"
	"unicode"

	"lockstep/engine/event"
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

func (s Style) render(r theme.Role, text string) string {
	if !s.Codes {
		return text
	}
	return s.Theme.Render(r, text)
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

// escapes are the control sequences of terminals: CSI, OSC and its like, and
// those of two characters.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?")

// clean makes text from a cluster fit for a line of a terminal: no control
// sequences, no line ends.
func clean(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, escapes.ReplaceAllString(s, ""))
}
