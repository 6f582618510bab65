// Package theme defines how the program looks: a table from status to glyph, word and colour, the roles
// of text, and the line drawing characters, for dark and light backgrounds, high contrast, colour
// blindness, 16 colours, no colours and ASCII. Its central types are Theme, Mark and Role. The packages
// of ui import it; it imports no other package of lockstep.
package theme

import (
	"cmp"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
)

// Look is a choice of colours.
type Look string

const (
	Standard     Look = "standard"
	HighContrast Look = "high-contrast"
	// ColourBlind distinguishes good, busy and bad for people who cannot tell red from green.
	ColourBlind Look = "colour-blind"
)

// Background is the background of the terminal.
type Background string

const (
	// Detect lets a screen ask the terminal. Until it answers, the background counts as Dark.
	Detect Background = ""
	Dark   Background = "dark"
	Light  Background = "light"
)

// Depth is how many colours are used.
type Depth uint8

const (
	// Full is 24-bit colour. The writer of the terminal reduces it to the supported colours.
	Full Depth = iota
	// Basic is the terminal's own 16 colours.
	Basic
	// None uses only bold, faint and reverse.
	None
)

// Options determine a Theme. The zero value is the standard look in full colour.
type Options struct {
	Look       Look
	Background Background
	Depth      Depth
	// ASCII draws only with ASCII characters.
	ASCII bool
	// Still turns off animation and the mouse, and redraws less often (ACCESSIBLE).
	Still bool
}

// Role is the purpose of a piece of text.
type Role uint8

const (
	Text     Role = iota // main text
	Strong               // headings
	Quiet                // secondary text
	Faint                // lines, edges
	Accent               // selected items
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

// Theme is the result of Options. It is immutable. Its methods take a pointer because it is large.
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
	for role := range roles {
		style := lipgloss.NewStyle()
		switch c := p[role]; {
		case role == Selected && (c == nil || o.Background == Detect): // the terminal's text may be as dark as a dark background
			style = style.Reverse(true)
		case role == Selected:
			style = style.Background(c)
		case c != nil:
			style = style.Foreground(c)
		}
		switch role {
		case Strong, Accent, Stopped, Bad, Key, Selected:
			style = style.Bold(true)
		case Faint:
			style = style.Faint(o.Depth == None)
		}
		t.styles[role] = style
	}
	return t
}

// Style returns the style of a role.
func (t *Theme) Style(r Role) lipgloss.Style { return t.styles[r] }

// Render gives text the style of a role.
func (t *Theme) Render(r Role, text string) string { return t.styles[r].Render(text) }

// FromEnv reads the options from the environment:
//
//	LOCKSTEP_THEME   a theme, as Parse reads it
//	NO_COLOR         any non-empty value: no colour (no-color.org)
//	LOCKSTEP_ASCII   any non-empty value: ASCII characters only; so does a
//	                 locale (LC_ALL, LC_CTYPE, LANG, the first one set) that
//	                 is not UTF-8
//	ACCESSIBLE       any non-empty value: no animation
//
// getenv is os.Getenv. The only error is about LOCKSTEP_THEME; the other options are valid even then.
func FromEnv(getenv func(string) string) (Options, error) {
	o, err := Parse(getenv("LOCKSTEP_THEME"))
	if err != nil {
		err = fmt.Errorf("LOCKSTEP_THEME: %w", err)
	}
	if getenv("NO_COLOR") != "" {
		o.Depth = None
	}
	o.ASCII = getenv("LOCKSTEP_ASCII") != "" || !utf8Locale(getenv)
	o.Still = getenv("ACCESSIBLE") != ""
	return o, err
}

// utf8Locale reports whether the locale is UTF-8. Without a locale it assumes UTF-8: containers
// often set none, but their output goes to a terminal outside.
func utf8Locale(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"), "utf-8"))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// Parse reads a theme: a comma-separated list of auto, dark, light, high-contrast and colour-blind,
// such as "light,high-contrast". Empty is auto.
func Parse(s string) (Options, error) {
	var o Options
	for word := range strings.SplitSeq(s, ",") {
		switch strings.TrimSpace(strings.ToLower(word)) {
		case "", "auto":
		case "dark":
			o.Background = Dark
		case "light":
			o.Background = Light
		case "high-contrast":
			o.Look = HighContrast
		case "colour-blind", "color-blind":
			o.Look = ColourBlind
		default:
			return Options{}, fmt.Errorf("unknown theme %q: use auto, dark, light, high-contrast or colour-blind", word)
		}
	}
	return o, nil
}
