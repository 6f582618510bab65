// Package keys is what keys mean: bindings in tables, from which keys are obeyed
// and footer, help, list of commands and the page of keys are made, so that none of them
// can say what is not so; and the stack of modes that have the keys.
package keys

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
)

// Binding is a key in one context.
type Binding struct {
	Keys  []string // as the terminal names them
	Label string   // as people read them
	About string   // what it does, in a word or three
	More  string   // what the help adds to that, if anything
	Part  string   // heading in the help
	// Only tells when the key means this, where it means something else otherwise.
	// Nil: always.
	Only func() bool
	// Hint is the word in the footer while the key can be obeyed, empty
	// while it cannot. Nil: never in the footer.
	Hint func() string
	// Disabled says why the key cannot be obeyed now, "" where it can; it is said
	// instead. Nil: it can be, or the run decides.
	Disabled func() string
	Do       func() tea.Cmd
	// Steers means that a read-only screen does not have the key.
	Steers bool
	// Way means that the key is a way out of a failure that is held (R44):
	// its hint is below the state then, and not in the footer.
	Way bool
	// Near means that its hint stands among the inspector's own, while that is open: it
	// shows the same thing in another way.
	Near bool
	// Stays means that others leave the footer before it does.
	Stays bool
	// Alias means that another binding documents it.
	Alias bool
}

// Active reports whether the key means this now.
func (b Binding) Active() bool { return b.Only == nil || b.Only() }

// Obey does it, or has it said why that cannot be now.
func (b Binding) Obey(say func(why string) tea.Cmd) tea.Cmd {
	if b.Disabled != nil {
		if why := b.Disabled(); why != "" {
			return say(why)
		}
	}
	return b.Do()
}

// Unless is why a key cannot be obeyed while something is not so.
func Unless(ok func() bool, why string) func() string {
	return func() string {
		if ok() {
			return ""
		}
		return why
	}
}

// Find is what a key means now: the first in a table that has it.
func Find(table []Binding, name string) (Binding, bool) {
	for _, b := range table {
		if slices.Contains(b.Keys, name) && b.Active() {
			return b, true
		}
	}
	return Binding{}, false
}

// Always is a hint that is always in the footer.
func Always(word string) func() string { return func() string { return word } }

// When is a hint that is there while something is so.
func When(word string, ok func() bool) func() string {
	return func() string {
		if ok() {
			return word
		}
		return ""
	}
}

// Run is a binding's action for something that leads to no command.
func Run(do func()) func() tea.Cmd {
	return func() tea.Cmd { do(); return nil }
}

// Key is a key of the screen, for documents: the keys as people read them, their
// heading, what they do and what is to be said about that.
type Key struct{ Keys, Part, About, More string }

// Document lists the keys of a table under a heading.
func Document(part string, table []Binding) []Key {
	var out []Key
	for _, b := range table {
		out = append(out, Key{b.Label, part, b.About, b.More})
	}
	return out
}

// Hint is a key and its word in the footer; Press is the key's name. A click on it presses
// the key.
type Hint struct {
	Key, Word, Press string
	Stays            bool
}

func (h Hint) Width() int { return canvas.Width(h.Key) + 1 + canvas.Width(h.Word) }

// Cells is how wide hints are with a gap between.
func Cells(hints []Hint, gap int) int {
	w := -gap
	for _, h := range hints {
		w += h.Width() + gap
	}
	return w
}
