package board

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// partPalette is the heading of the keys of the list of commands.
const partPalette = "in the list of commands"

// palette is the list of all commands that there are now, with their keys, on top
// of the board. What is typed leaves those that it is about.
type palette struct {
	input  textinput.Model
	at     int // which of them is selected, -1 for none: enter alone does nothing to a run
	cursor *tea.Cursor
}

// paletteBindings are the keys of the list. All others are typed.
func paletteBindings() []binding {
	move := func(by int) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd {
			m.palette.at = min(max(m.palette.at+by, 0), max(len(m.commands())-1, 0))
			return nil
		}
	}
	return []binding{
		{keys: []string{"up", "ctrl+p"}, label: "up", do: move(-1), about: "line up"},
		{keys: []string{"down", "ctrl+n"}, label: "down", do: move(1), about: "line down"},
		{keys: []string{"pgup"}, label: "page up", do: move(-10), about: "page up"},
		{keys: []string{"pgdown"}, label: "page down", do: move(10), about: "page down"},
		{keys: []string{"enter"}, label: "enter", do: (*model).runCommand, about: "do it, as its key does"},
		{keys: []string{"esc"}, label: "esc", do: func(m *model) tea.Cmd { m.palette = nil; return nil }, about: "close"},
		{keys: []string{"ctrl+c"}, label: "ctrl-c", do: func(m *model) tea.Cmd { m.palette = nil; return m.askAbort() }, about: "abort: asks"},
	}
}

func (m *model) openPalette() tea.Cmd {
	m.palette = &palette{input: newInput(), at: -1}
	return m.palette.input.Focus()
}

// typePalette takes a key or a paste.
func (m *model) typePalette(msg tea.Msg) tea.Cmd {
	if k, ok := msg.(tea.KeyPressMsg); ok {
		if b, ok := m.find(paletteBindings(), k.String()); ok {
			return b.do(m)
		}
	}
	var cmd tea.Cmd
	m.palette.input, cmd = m.palette.input.Update(msg)
	m.palette.at = min(len(m.palette.input.Value()), 1) - 1
	m.stale = true
	return cmd
}

// commands are those that the keys now stand for, as far as they have all words that
// were typed: those that can be obeyed first.
func (m *model) commands() (out []binding) {
	table := m.table()
	words := strings.Fields(strings.ToLower(m.palette.input.Value()))
	for _, b := range table {
		first, _ := m.find(table, b.keys[0])
		text := strings.ToLower(b.label + " " + b.about)
		switch {
		case first.about != b.about, b.steers && m.ReadOnly(): // the key means something else, or nothing
		case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }):
		default:
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b binding) int { return m.rank(a, words) - m.rank(b, words) })
	return out
}

// rank puts what can be obeyed before what cannot, and what begins with what was
// typed before what has it somewhere.
func (m *model) rank(b binding, words []string) int {
	rank := 0
	if !m.offers(b) {
		rank = 2
	}
	if len(words) > 0 && b.label != words[0] && !strings.HasPrefix(b.about, words[0]) {
		rank++
	}
	return rank
}

// offers reports whether a command can be obeyed now, as far as the footer knows.
func (m *model) offers(b binding) bool { return b.hint == nil || b.hint(m) != "" }

// runCommand does what the selected command's key does.
func (m *model) runCommand() tea.Cmd {
	all := m.commands()
	at := m.palette.at
	m.palette = nil
	if at < 0 || at >= len(all) {
		return nil
	}
	return all[at].do(m)
}

// drawPalette draws the list over the board, the part of it that is about the
// selected line where it is long.
func (m *model) drawPalette() {
	all, p := m.commands(), m.palette
	w := min(m.w-4, 92)
	room := max(m.h-8, 1)
	first := min(max(p.at-room/2, 0), max(len(all)-room, 0))
	prompt := ":" + p.input.Value()
	lines := []canvas.Line{canvas.Plain(theme.Strong, prompt), nil}
	for i, b := range all[first:min(first+room, len(all))] {
		cursor, key, role := " ", theme.Key, theme.Text
		if !m.offers(b) {
			key, role = theme.Quiet, theme.Quiet
		}
		if first+i == p.at {
			cursor = m.Theme.Lines.Cursor
			if role == theme.Text {
				role = theme.Strong
			}
		}
		lines = append(lines, canvas.Line{{Role: theme.Key, Text: cursor + " "}, {Role: key, Text: fmt.Sprintf("%-10s", b.label)}, {Role: role, Text: b.about}})
	}
	if len(all) == 0 {
		lines = append(lines, canvas.Plain(theme.Quiet, "nothing is called that"))
	}
	dot := " " + m.Theme.Lines.Dot + " "
	title := canvas.Count(len(all), "command") + dot + "type to find" + dot + m.Theme.Lines.Enter + " does it" + dot + "esc"
	for len(lines) < min(room, 12)+2 { // it does not jump while one types
		lines = append(lines, nil)
	}
	if m.w-w < 24 {
		m.canvas.Blank(canvas.Rect{X: 0, Y: 0, W: m.w, H: m.h})
	}
	inner := m.canvas.Box(title, w, lines, theme.Accent)
	p.cursor = tea.NewCursor(min(inner.X+1+p.input.Position(), inner.X+inner.W-1), inner.Y)
	p.cursor.Blink = false
}
