// Package palette is the mode that lists the current commands with their keys and runs the
// selected one. Its central type is Palette.
package palette

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Part is the heading of the keys of the command list.
const Part = "in the command list"

// Palette is the list of commands; typing filters it.
type Palette struct {
	*screen.Screen
	table  func() []keys.Binding // the board's keys
	input  textinput.Model
	at     int // the selected command; -1 at first, so that enter without input does nothing
	cursor *tea.Cursor
}

func New(s *screen.Screen, table func() []keys.Binding) *Palette {
	return &Palette{Screen: s, table: table}
}

func (p *Palette) Open() tea.Cmd {
	p.input, p.at = keys.NewInput(), -1
	p.Modes.Open(p)
	return p.input.Focus()
}

func (p *Palette) close() { p.Modes.Close(p) }

// Keys returns the keys of the list. All other keys go to the filter.
func (p *Palette) Keys() []keys.Binding {
	move := func(by int) { p.at = min(max(p.at+by, 0), max(len(p.Commands())-1, 0)) }
	page := max(p.room()-1, 1)
	return []keys.Binding{
		{Keys: "up ctrl+p", Label: "up", Do: keys.By(move, -1), About: "up one line"},
		{Keys: "down ctrl+n", Label: "down", Do: keys.By(move, 1), About: "down one line"},
		{Keys: "pgup", Label: "page up", Do: keys.By(move, -page), About: "page up"},
		{Keys: "pgdown", Label: "page down", Do: keys.By(move, page), About: "page down"},
		{Keys: "enter", Do: p.run, About: "run it"},
		{Keys: "esc", Do: keys.Run(p.close), About: "close"},
		{Keys: "ctrl+c", Label: "ctrl-c", Do: p.Abort, About: "abort (asks first)"},
	}
}

func (p *Palette) Update(msg tea.Msg) (cmd tea.Cmd) {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg:
		p.input, cmd = p.input.Update(msg)
		p.at = min(len(p.input.Value()), 1) - 1
	}
	return cmd
}

func (p *Palette) Cursor() *tea.Cursor { return p.cursor }

// Commands returns the commands that contain all typed words, the enabled ones first.
func (p *Palette) Commands() (out []keys.Binding) {
	table := p.table()
	words := strings.Fields(strings.ToLower(p.input.Value()))
	for _, b := range table {
		first, _ := keys.Find(table, b.Key())
		text := strings.ToLower(b.Name() + " " + b.About + " " + b.More)
		switch {
		case first.About != b.About, b.Steers && p.ReadOnly(): // the key has another meaning, or none
		case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }):
		default:
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b keys.Binding) int { return p.rank(a, words) - p.rank(b, words) })
	return out
}

// rank puts enabled commands before disabled ones, and matches at the start before others.
func (p *Palette) rank(b keys.Binding, words []string) int {
	rank := 0
	if !p.enabled(b) {
		rank = 2
	}
	if len(words) > 0 && b.Name() != words[0] && !strings.HasPrefix(b.About, words[0]) {
		rank++
	}
	return rank
}

// enabled reports whether a command works now.
func (p *Palette) enabled(b keys.Binding) bool {
	switch {
	case b.Disabled != nil && b.Disabled() != "", b.Steers && p.Over():
		return false
	case b.Steers && b.Hint != nil:
		return b.Hint() != ""
	}
	return true
}

func (p *Palette) run() tea.Cmd {
	all := p.Commands()
	p.close()
	if p.at < 0 || p.at >= len(all) {
		return nil
	}
	return all[p.at].Press(p.Explain)
}

// room returns how many commands are visible.
func (p *Palette) room() int { return max(p.H-8, 1) }

// Draw draws the list over the board. A long list scrolls to the selected line.
func (p *Palette) Draw() {
	if p.TooSmall() {
		return
	}
	all := p.Commands()
	w, room := min(p.W-4, 92), p.room()
	first := min(max(p.at-room/2, 0), max(len(all)-room, 0))
	lines := []canvas.Line{canvas.Plain(theme.Strong, ":"+p.input.Value()), nil}
	for i, b := range all[first:min(first+room, len(all))] {
		lines = append(lines, p.row(b, first+i == p.at, w-4))
	}
	if len(all) == 0 {
		lines = append(lines, canvas.Plain(theme.Quiet, "no matching command"))
	}
	for len(lines) < min(room, 12)+2 { // the height does not change while typing
		lines = append(lines, nil)
	}
	if p.W-w < 24 {
		p.Canvas.Blank(canvas.Rect{X: 0, Y: 0, W: p.W, H: p.H})
	}
	title := p.Join(text.Count(len(all), "command"), "type to search", p.Theme.Lines.Enter+" run", "esc close")
	inner := p.Canvas.Box(title, w, lines, theme.Accent)
	p.cursor = tea.NewCursor(min(inner.X+1+p.input.Position(), inner.X+inner.W-1), inner.Y)
	p.cursor.Blink = false
}

// row returns the line of a command: name, as much of the explanation as fits, key.
func (p *Palette) row(b keys.Binding, selected bool, width int) canvas.Line {
	cursor, key, name := " ", theme.Key, theme.Text
	if selected {
		cursor, name = p.Theme.Lines.Cursor, theme.Strong
	}
	if !p.enabled(b) {
		key, name = theme.Quiet, theme.Quiet
	}
	names := max(24, canvas.Width(b.About)+1)
	names = min(names, max(width-3-canvas.Width(b.Name()), 1))
	rest := max(width-2-names-canvas.Width(b.Name()), 1)
	more := canvas.Fit(b.More, rest-1, p.Theme.Lines.Ellipsis)
	return canvas.Line{{Role: theme.Key, Text: cursor + " "}, {Role: name, Text: canvas.Pad(canvas.Fit(b.About, names, p.Theme.Lines.Ellipsis), names)},
		{Role: theme.Quiet, Text: canvas.Pad(more, rest)}, {Role: key, Text: b.Name()}}
}
