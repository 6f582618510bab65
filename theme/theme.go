// Package theme decides what the program looks like. It holds one table from
// status to glyph, word and colour, the roles that colours belong to, and the
// line drawing characters, for dark and light backgrounds, high contrast,
// colour blindness, 16 colours, no colours and ASCII. It knows neither the
// engine nor the screen, keeps no state and does not read the environment
// itself.
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
	// ColourBlind keeps good, busy and bad apart for people who cannot tell red
	// from green.
	ColourBlind Look = "colour-blind"
)

// Background is the terminal's.
type Background string

const (
	// Detect lets a screen ask the terminal. Until there is an answer it counts
	// as Dark.
	Detect Background = ""
	Dark   Background = "dark"
	Light  Background = "light"
)

// Depth is how many colours are used.
type Depth uint8

const (
	// Full is 24-bit colour. Whatever writes to the terminal reduces it to what
	// the terminal supports.
	Full Depth = iota
	// Basic is the terminal's own 16 colours.
	Basic
	// None is bold, faint and reverse only.
	None
)

// Options determine a Theme. The zero value is the standard look in full colour.
type Options struct {
	Look       Look
	Background Background
	Depth      Depth
	// ASCII draws with plain ASCII characters only.
	ASCII bool
	// Still avoids animation and keeps changes on the screen few (ACCESSIBLE).
	Still bool
}

// Role is the purpose of a piece of text.
type Role uint8

const (
	Text     Role = iota // main text
	Strong               // headings
	Quiet                // secondary text
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

// Theme is what Options look like. Nothing changes it; it is large, so what is asked
// often takes a pointer.
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
func (t *Theme) Style(r Role) lipgloss.Style { return t.styles[r] }

// Render gives text the style of a role.
func (t *Theme) Render(r Role, text string) string { return t.styles[r].Render(text) }
