// Package keys defines key bindings and the stack of modes. Dispatch, footer, help, command
// palette and documentation all read the same tables of Binding. Its central types are Binding,
// Mode and Stack. Every package of the board except canvas may import it.
package keys

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// Binding is a key in one context.
type Binding struct {
	Keys  string // Bubble Tea's names, separated by spaces
	Label string // shown instead of Keys, if set
	Also  string // a second Label
	About string // what it does, in a few words
	More  string // more about it, if there is room
	Part  string // heading in the help
	// Only reports whether the binding applies now. Nil: always.
	Only func() bool
	// Hint returns the words in the footer, "" while the key does nothing. Nil: never in the
	// footer.
	Hint func() string
	// Disabled says why the key does not work now, "" if it does. The screen shows the reason.
	// Nil: the key works, or the run decides.
	Disabled  func() string
	Do        func() tea.Cmd
	Steers    bool // controls the run: not on a read-only screen
	OnFailure bool // resolves a held failure (R44); while one is held, its hint is below the state
	Near      bool // its hint is next to the inspector's while that is open
	Pinned    bool // stays in a footer that is too narrow for all hints
	Alias     bool // another binding documents it
}

// Key returns the first of its keys.
func (b Binding) Key() string {
	return strings.Fields(b.Keys)[0]
}

// Name returns the names of its keys as shown to users.
func (b Binding) Name() string {
	if b.Label == "" {
		return strings.Join(strings.Fields(b.Keys), ", ")
	}
	return text.Join(", ", b.Label, b.Also)
}

// FirstName returns the name of its first key.
func (b Binding) FirstName() string { return cmp.Or(b.Label, b.Key()) }

func (b Binding) Active() bool { return b.Only == nil || b.Only() }

// Press runs the binding, or says why it is disabled.
func (b Binding) Press(say func(why string) tea.Cmd) tea.Cmd {
	if b.Disabled != nil {
		if why := b.Disabled(); why != "" {
			return say(why)
		}
	}
	return b.Do()
}

// Find returns the first active binding of a key in a table.
func Find(table []Binding, name string) (Binding, bool) {
	i := slices.IndexFunc(table, func(b Binding) bool { return slices.Contains(strings.Fields(b.Keys), name) && b.Active() })
	if i < 0 {
		return Binding{}, false
	}
	return table[i], true
}

// Unless returns a Disabled with the given reason while ok is false.
func Unless(ok func() bool, why string) func() string {
	return When(why, func() bool { return !ok() })
}

// When returns a Hint that is in the footer while ok is true.
func When(word string, ok func() bool) func() string {
	return func() string {
		if ok() {
			return word
		}
		return ""
	}
}

// Always returns a Hint that is always in the footer.
func Always(word string) func() string { return func() string { return word } }

// Run returns a Do that calls do and returns no command.
func Run(do func()) func() tea.Cmd {
	return func() tea.Cmd { do(); return nil }
}

// By returns a Do that calls do with n.
func By(do func(int), n int) func() tea.Cmd { return Run(func() { do(n) }) }

// Key documents a binding: keys, heading, action and explanation.
type Key struct{ Keys, Part, About, More string }

// Width is the width of the keys in a Table.
const Width = 14

// Table returns the lines of keys, with the heading of each part above it and an empty line between two parts.
func Table(all []Key, width int) (out []canvas.Line) {
	names := 0
	for _, k := range all {
		if k.More != "" {
			names = max(names, canvas.Width(k.About)+2)
		}
	}
	part := ""
	for _, k := range all {
		if k.Part != part {
			if part != "" {
				out = append(out, nil)
			}
			part = k.Part
			out = append(out, canvas.Plain(theme.Strong, part))
		}
		out = append(out, k.lines(names, width)...)
	}
	return out
}

// lines returns the lines of a key, whose name takes some columns. The explanation is omitted if little room is left for it.
func (k Key) lines(names, width int) (out []canvas.Line) {
	name := canvas.Line{{Role: theme.Key, Text: canvas.Pad(k.Keys, Width)}, {Role: theme.Text, Text: k.About}}
	room := width - Width - names
	if k.More == "" || room < names {
		return []canvas.Line{name}
	}
	name[1].Text = canvas.Pad(k.About, names)
	for _, more := range canvas.Wrap(k.More, room) {
		out = append(out, append(name, canvas.Piece{Role: theme.Quiet, Text: more}))
		name = canvas.Line{{Text: strings.Repeat(" ", Width+names)}}
	}
	return out
}

// Document documents the keys of a table under a heading.
func Document(part string, table []Binding) []Key {
	var out []Key
	for _, b := range table {
		out = append(out, Key{b.Name(), part, b.About, b.More})
	}
	return out
}

// Hint is a key and its word in the footer. A click on it presses the key named Press.
type Hint struct {
	Key, Word, Press string
	Pinned           bool
	Dim              bool // the key does not work now; pressing it says why
}

func (h Hint) Width() int { return canvas.Width(h.Key) + 1 + canvas.Width(h.Word) }

// Fit returns the hints that fit room cells with a gap between them. Pinned ones take precedence.
func Fit(hints []Hint, room, gap int) (fit []Hint) {
	reserved := 0 // for the pinned hints that follow
	for _, h := range hints {
		if h.Pinned {
			reserved += h.Width() + gap
		}
	}
	for _, h := range hints {
		if h.Pinned {
			reserved -= h.Width() + gap
		}
		if h.Width()+reserved <= room {
			fit = append(fit, h)
			room -= h.Width() + gap
		}
	}
	return fit
}

// Cells returns the width of hints with a gap between them.
func Cells(hints []Hint, gap int) int {
	w := -gap
	for _, h := range hints {
		w += h.Width() + gap
	}
	return w
}
