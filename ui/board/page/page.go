// Package page shows scrollable text on top of the board. Its central types are Page, the mode,
// and Text, the scrolling that other modes embed.
package page

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Part is the heading of the keys of a page.
const Part = "in the help, warnings and other pages"

type Text struct {
	*screen.Screen
	top  int
	last int // the maximum of top
}

// Home scrolls to the top.
func (t *Text) Home() { t.top, t.last = 0, 0 }

func (t *Text) scroll(by int) { t.top = min(max(t.top+by, 0), t.last) }

// room returns the number of visible lines, page by how many a page scrolls.
func (t *Text) room() int { return max(t.H-3, 1) }
func (t *Text) page() int { return max(t.room()-1, 1) }

// ScrollKeys returns the keys that scroll by lines and pages.
func (t *Text) ScrollKeys() []keys.Binding {
	return []keys.Binding{
		{Keys: "up k", Do: keys.By(t.scroll, -1), About: "up one line"},
		{Keys: "down j", Do: keys.By(t.scroll, 1), About: "down one line"},
		{Keys: "pgup ctrl+b", Label: "page up", Do: keys.By(t.scroll, -t.page()), About: "page up"},
		{Keys: "pgdown ctrl+f space", Label: "page down", Do: keys.By(t.scroll, t.page()), About: "page down"},
	}
}

func (t *Text) Update(msg tea.Msg) tea.Cmd {
	if wheel, ok := msg.(tea.MouseWheelMsg); ok {
		switch wheel.Button {
		case tea.MouseWheelUp:
			t.scroll(-3)
		case tea.MouseWheelDown:
			t.scroll(3)
		}
	}
	return nil
}

// DrawText draws the visible part of lines in a box.
func (t *Text) DrawText(title string, w int, lines []canvas.Line, role theme.Role) {
	room, all := t.room(), len(lines)
	if t.last = max(all-room, 0); t.last > 0 {
		t.scroll(0)
		title = fmt.Sprintf("%s %s %d%%", title, t.Theme.Lines.Dot, 100*(t.top+room)/all)
		lines = lines[t.top:][:room]
		if t.W-w < 24 { // slivers of the board on both sides would distract
			t.Canvas.Blank(canvas.Rect{X: 0, Y: 0, W: t.W, H: t.H - 1}) // the last row has the keys of the mode
		}
	}
	inner := t.Canvas.Box(title, w, lines, role)
	t.Canvas.ScrollBar(inner.X+inner.W, inner, t.top, all)
}

type Page struct {
	Text
	// Columns means that the parts of the text, which empty lines separate, may stand side by side.
	Columns bool
	title   string
	lines   func(width int) []canvas.Line
}

// New returns a closed page; lines returns its text for a width.
func New(s *screen.Screen, title string, lines func(width int) []canvas.Line) *Page {
	return &Page{Text: Text{Screen: s}, title: title, lines: lines}
}

func (p *Page) Open() tea.Cmd {
	p.Home()
	p.Modes.Open(p)
	return nil
}

func (p *Page) Keys() []keys.Binding {
	return append(p.ScrollKeys(),
		keys.Binding{Keys: "home", Do: keys.Run(p.Home), About: "to the beginning"},
		keys.Binding{Keys: "end", Do: keys.Run(func() { p.top = p.last }), About: "to the end"},
		keys.Binding{Keys: "esc enter ? w", Label: "esc", Do: keys.Run(func() { p.Modes.Close(p) }), About: "close"},
		keys.Binding{Keys: "ctrl+c", Label: "ctrl-c", Do: p.Abort, About: "abort (asks first)"})
}

func (p *Page) Draw() {
	if p.TooSmall() {
		return
	}
	w := min(p.W-4, 92)
	lines := p.lines(w - 4)
	for n := 2; p.Columns && len(lines) > p.room(); n++ {
		each := (p.W - 8 - (n-1)*columnGap) / n
		if each < minColumn {
			break
		}
		w, lines = p.W-4, sideBySide(p.lines(each), n, each)
	}
	p.DrawText(p.title+" "+p.Theme.Lines.Dot+" esc close", w, lines, theme.Accent)
}

// The width of a column of a page, and what is between two.
const minColumn, columnGap = 60, 3

// sideBySide puts the parts of a text, which empty lines separate, into n columns that are as low as possible.
func sideBySide(lines []canvas.Line, n, width int) []canvas.Line {
	var parts [][]canvas.Line
	for from, i := 0, 0; i <= len(lines); i++ {
		if i == len(lines) || lines[i] == nil {
			parts, from = append(parts, lines[from:i]), i+1
		}
	}
	var columns [][]canvas.Line
	for rows := len(lines) / n; rows <= len(lines); rows++ {
		if columns = fill(parts, rows); len(columns) <= n {
			break
		}
	}
	out := make([]canvas.Line, 0, len(lines))
	for row, more := 0, true; more; row++ {
		more = false
		var line canvas.Line
		for at, column := range columns {
			if row >= len(column) {
				continue
			}
			more = true
			if before := at*(width+columnGap) - canvas.Width(line.Text()); before > 0 {
				line = append(line, canvas.Piece{Text: strings.Repeat(" ", before)})
			}
			line = append(line, column[row]...)
		}
		if more {
			out = append(out, line)
		}
	}
	return out
}

// fill puts parts into columns of at most some rows; only a part that is higher by itself makes its column higher.
func fill(parts [][]canvas.Line, rows int) (columns [][]canvas.Line) {
	var column []canvas.Line
	for _, p := range parts {
		switch {
		case column == nil:
			column = slices.Clone(p)
		case len(column)+1+len(p) > rows:
			columns, column = append(columns, column), slices.Clone(p)
		default:
			column = slices.Concat(column, []canvas.Line{nil}, p)
		}
	}
	return append(columns, column)
}
