package board

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
)

// press obeys a key. What is open on top of the board has it first.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case m.typing:
		return m.typeFilter(k)
	case m.seeking:
		return m.typeSearch(k)
	case m.dialog != noDialog:
		return m.choose(name)
	case m.palette != nil:
		return m.typePalette(k)
	case m.pager != nil:
		return m.obey(pagerBindings(), name)
	case m.edit != nil && m.edit.shown:
		return m.obey(editBindings(), name)
	case m.breaks != nil:
		return m.obey(breakBindings(), name)
	}
	return m.obey(m.table(), name)
}

// table is the table of the board, behind those of a replay and of the open inspector:
// of two meanings of a key the first counts.
func (m *model) table() (table []binding) {
	if m.player != nil {
		table = append(table, replayBindings()...)
	}
	if m.insp != nil {
		table = append(table, inspectorBindings()...)
	}
	return append(table, bindings()...)
}

// obey does what a table has for a key.
func (m *model) obey(table []binding, name string) tea.Cmd {
	b, ok := m.find(table, name)
	switch {
	case !ok:
		return nil
	case b.steers && m.ReadOnly():
		if name == "ctrl+c" {
			return m.quit()
		}
		return nil
	}
	return b.do(m)
}

// asks reports whether something on top of the board has the keys and waits for an
// answer. A pager has them as well, and scrolls.
func (m *model) asks() bool {
	return m.dialog != noDialog || m.breaks != nil || m.palette != nil || m.edit != nil && m.edit.shown
}

// find is what a key means now: the first in a table that has it.
func (m *model) find(table []binding, name string) (binding, bool) {
	for _, b := range table {
		if slices.Contains(b.keys, name) && (b.only == nil || b.only(m)) {
			return b, true
		}
	}
	return binding{}, false
}

// hint is a key and its word in the footer.
type hint struct {
	key, word string
	stays     bool
}

func (h hint) width() int { return canvas.Width(h.key) + 1 + canvas.Width(h.word) }

// hints are the keys that can be obeyed now, for the footer.
func (m *model) hints() []hint {
	return m.hintsOf(func(b binding) bool { return !b.way || !held(m) })
}

// ways are the keys that lead out of a failure that is held.
func (m *model) ways() []hint {
	if !held(m) {
		return nil
	}
	return m.hintsOf(func(b binding) bool { return b.way })
}

func (m *model) hintsOf(which func(binding) bool) []hint {
	if m.asks() || m.pager != nil {
		return nil // they say themselves what can be pressed
	}
	table := bindings()
	if m.insp != nil {
		own := inspectorBindings()
		table = slices.DeleteFunc(table, func(b binding) bool { _, taken := m.find(own, b.keys[0]); return taken })
		at := slices.IndexFunc(own, func(b binding) bool { return b.keys[0] == "esc" }) + 1
		for _, b := range table {
			if b.near {
				own = slices.Insert(own, at, b)
				at++
			}
		}
		table = append(own, slices.DeleteFunc(table, func(b binding) bool { return b.near })...)
	}
	if m.player != nil {
		leave := slices.IndexFunc(table, func(b binding) bool { return b.label == "q" })
		table = slices.Insert(table, leave+1, replayBindings()...)
	}
	var out []hint
	for _, b := range table {
		if b.hint == nil || b.only != nil && !b.only(m) || b.steers && m.ReadOnly() || !which(b) {
			continue
		}
		if word := b.hint(m); word != "" {
			key, _, _ := strings.Cut(b.label, "/")
			if key == "" {
				key = b.label
			}
			switch {
			case key == "enter":
				key = m.Theme.Lines.Enter
			case key == "left":
				key = m.Theme.Lines.Left
			case key == "right":
				key = m.Theme.Lines.Right
			case key == "q" && m.leaveOnEnter():
				key += "/" + m.Theme.Lines.Enter
			}
			out = append(out, hint{key, word, b.stays})
		}
	}
	return out
}
