// Package page shows scrollable text on top of the board. Its central types are Page, the mode,
// and Text, the scrolling that other modes embed.
package page

import (
	"fmt"

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
func (t *Text) room() int { return max(t.H-5, 1) }
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
			t.Canvas.Blank(canvas.Rect{X: 0, Y: 0, W: t.W, H: t.H})
		}
	}
	inner := t.Canvas.Box(title, w, lines, role)
	t.Canvas.ScrollBar(inner.X+inner.W, inner, t.top, all)
}

type Page struct {
	Text
	title string
	lines func(width int) []canvas.Line
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
	p.DrawText(p.title+" "+p.Theme.Lines.Dot+" esc close", w, p.lines(w-4), theme.Accent)
}
