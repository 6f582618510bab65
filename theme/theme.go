// Package theme holds what the program looks like: one table from status to
// glyph, word and colour, the roles that colours are given by, and the line
// drawing characters, each in dark, light, high-contrast, colour-blind-safe,
// 16-colour, colourless and ASCII form. It knows neither the engine nor a
// screen, keeps no state and reads no environment of its own.
package theme

import (
	"image/color"

	"charm.land/lipgloss/v2"
)

// Look is a choice of colours.
type Look string

const (
	Standard     Look = "standard"
	HighContrast Look = "high-contrast"
	// ColourBlind tells good, busy and bad apart for people who do not tell
	// red from green.
	ColourBlind Look = "colour-blind"
)

// Background is what colours have to be seen on.
type Background string

const (
	// Detect lets a screen ask the terminal; until that answers, and where
	// nobody asks, it is Dark.
	Detect Background = ""
	Dark   Background = "dark"
	Light  Background = "light"
)

// Depth is how many colours there are.
type Depth uint8

const (
	// Full is 24-bit colour; who writes to the terminal reduces it to what
	// that can do.
	Full Depth = iota
	// Basic is the terminal's own 16 colours.
	Basic
	// None uses no colour at all, only bold, faint and reverse.
	None
)

// Options are what a Theme is made from. The zero value is the standard look
// in full colour.
type Options struct {
	Look       Look
	Background Background
	Depth      Depth
	// ASCII draws with plain ASCII characters only.
	ASCII bool
	// Still asks for no animation and as few changes as can be (ACCESSIBLE).
	Still bool
}

// Role says what a piece of text is there for.
type Role uint8

const (
	Text     Role = iota // what is read
	Strong               // headings
	Quiet                // what is read second
	Faint                // lines, edges
	Accent               // what is selected
	Good                 // ready
	Busy                 // in progress
	Idle                 // waiting
	Stopped              // paused, held by a breakpoint
	Bad                  // failed
	Never                // never started
	Key                  // a key to press
	Selected             // the line the cursor is on
	roles
)

// Theme is a look made from Options. It is a value and never changes.
type Theme struct {
	Options
	Lines  Lines
	styles [roles]lipgloss.Style
}

// New makes a theme.
func New(o Options) Theme {
	t := Theme{Options: o, Lines: unicodeLines}
	if o.ASCII {
		t.Lines = asciiLines
	}
	p := paletteFor(o)
	fg := func(c color.Color) lipgloss.Style {
		if c == nil {
			return lipgloss.NewStyle()
		}
		return lipgloss.NewStyle().Foreground(c)
	}
	bare := o.Depth == None
	t.styles = [roles]lipgloss.Style{
		Text:     lipgloss.NewStyle(),
		Strong:   lipgloss.NewStyle().Bold(true),
		Quiet:    fg(p.quiet),
		Faint:    fg(p.faint).Faint(bare),
		Accent:   fg(p.accent).Bold(true),
		Good:     fg(p.good),
		Busy:     fg(p.busy),
		Idle:     fg(p.quiet),
		Stopped:  fg(p.stopped).Bold(true),
		Bad:      fg(p.bad).Bold(true),
		Never:    fg(p.never),
		Key:      fg(p.key).Bold(true),
		Selected: lipgloss.NewStyle().Bold(true).Reverse(bare || p.selected == nil),
	}
	if p.selected != nil {
		t.styles[Selected] = t.styles[Selected].Background(p.selected)
	}
	return t
}

// Style returns the style of a role.
func (t Theme) Style(r Role) lipgloss.Style { return t.styles[r] }

// Render gives text the style of a role.
func (t Theme) Render(r Role, text string) string { return t.styles[r].Render(text) }
