// Package canvas draws text and boxes on a grid of cells. Its central types are Canvas and Line. Every
// package of the board may import it; it imports only theme and engine/text.
package canvas

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

// Rect is a part of the screen, right and bottom excluded.
type Rect struct{ X, Y, W, H int }

func (r Rect) Has(x, y int) bool { return x >= r.X && x < r.X+r.W && y >= r.Y && y < r.Y+r.H }

// Cell is one character of the screen. The second cell of a wide character is empty.
type Cell struct {
	Text string
	Role theme.Role
	wide bool // it takes two cells
}

// Canvas is a screen of cells. All drawing goes through it, so nothing is drawn outside the terminal,
// and no control sequence from a cluster reaches the terminal.
type Canvas struct {
	w, h  int
	clip  Rect
	Cells []Cell
	// selected marks the cells with the background of the selected line.
	selected []bool
	pens     *Pens
}

func New(w, h int, p *Pens) *Canvas {
	return &Canvas{w: w, h: h, clip: Rect{0, 0, w, h}, Cells: make([]Cell, w*h), selected: make([]bool, w*h), pens: p}
}

// Reset clears and resizes the canvas.
func (c *Canvas) Reset(w, h int, p *Pens) {
	if c.w != w || c.h != h {
		*c = *New(w, h, p)
		return
	}
	clear(c.Cells)
	clear(c.selected)
	c.pens = p
	c.clip = Rect{0, 0, w, h}
}

// Within limits drawing to a rectangle until the function it returns is called.
func (c *Canvas) Within(r Rect) (restore func()) {
	old := c.clip
	x0, y0 := max(r.X, old.X), max(r.Y, old.Y)
	x1, y1 := min(r.X+r.W, old.X+old.W), min(r.Y+r.H, old.Y+old.H)
	c.clip = Rect{x0, y0, max(x1-x0, 0), max(y1-y0, 0)}
	return func() { c.clip = old }
}

// Put writes text at x, y, clipped to the rectangle of Within. It returns the x after the text.
func (c *Canvas) Put(x, y int, role theme.Role, text string) int {
	text = Clean(text)
	for len(text) > 0 {
		n, w := cluster(text)
		s := text[:n]
		text = text[n:]
		switch {
		case w == 0:
			continue
		case w > 2: // terminals disagree about its width
			s, w = "?", 1
		}
		if c.pens.theme.ASCII && s[0] >= utf8.RuneSelf {
			_, first := utf8.DecodeRuneInString(s)
			ascii := c.pens.theme.Plain(s[:first])
			for ; w > 0; w-- {
				c.set(x, y, 1, Cell{Text: ascii, Role: role})
				x++
			}
			continue
		}
		c.set(x, y, w, Cell{Text: s, Role: role, wide: w == 2})
		x += w
	}
	return x
}

// set writes a character of w cells, if all of them are within the clipping rectangle.
func (c *Canvas) set(x, y, w int, cell Cell) {
	if y < c.clip.Y || y >= c.clip.Y+c.clip.H || x < c.clip.X || x+w > c.clip.X+c.clip.W {
		return
	}
	c.Cells[y*c.w+x] = cell
	if w == 2 {
		c.Cells[y*c.w+x+1] = Cell{Role: cell.Role}
	}
}

// cluster returns the length in bytes and the width in cells of the first grapheme cluster. The width
// is 3 if the two ways of measuring it disagree, since terminals will disagree too.
func cluster(s string) (n, w int) {
	if s[0] < utf8.RuneSelf && (len(s) == 1 || s[1] < 0xc0) {
		return 1, 1
	}
	text, w := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	if ansi.StringWidthWc(text) != w {
		w = 3
	}
	return len(text), w
}

// PutFit writes text truncated to a width, and returns the x after it.
func (c *Canvas) PutFit(x, y, width int, role theme.Role, text string) int {
	return c.Put(x, y, role, Fit(Clean(text), width, c.pens.lines.Ellipsis))
}

// PutRight writes text that ends before x, and returns where it starts.
func (c *Canvas) PutRight(x, y int, role theme.Role, text string) int {
	from := x - Width(text)
	c.Put(from, y, role, text)
	return from
}

// Rule repeats a character over w cells.
func (c *Canvas) Rule(x, y, w int, role theme.Role, char string) {
	for i := range w {
		if i > 0 && c.clip.Has(x+i-1, y) {
			c.set(x+i, y, 1, c.Cells[y*c.w+x+i-1]) // Put has measured the character
			continue
		}
		c.Put(x+i, y, role, char)
	}
}

// Highlight gives cells the background of the selected line.
func (c *Canvas) Highlight(x, y, w int) {
	for i := range w {
		if c.clip.Has(x+i, y) {
			c.selected[y*c.w+x+i] = true
		}
	}
}

// Blank clears a rectangle.
func (c *Canvas) Blank(r Rect) {
	for y := r.Y; y < r.Y+r.H; y++ {
		for x := r.X; x < r.X+r.W; x++ {
			if c.clip.Has(x, y) {
				c.Cells[y*c.w+x] = Cell{Text: " ", Role: theme.Text}
				c.selected[y*c.w+x] = false
			}
		}
	}
}

// Pens are the control sequences that start and end each role. They are made once per theme, since
// rendering a style for every piece of text would take most of a frame's time.
type Pens struct {
	theme           theme.Theme
	lines           theme.Lines
	plain, selected [theme.Selected + 1]pen
}

// pen starts and ends a role.
type pen struct{ on, off string }

func NewPens(t theme.Theme) *Pens {
	p := &Pens{theme: t, lines: t.Lines}
	selected := t.Style(theme.Selected)
	for r := theme.Text; r <= theme.Selected; r++ {
		p.plain[r] = newPen(t.Style(r))
		p.selected[r] = newPen(selected.Inherit(t.Style(r)))
		if selected.GetReverse() { // reversed, a role's own colour would interrupt the background
			p.selected[r] = newPen(selected)
		}
	}
	return p
}

func newPen(s lipgloss.Style) pen {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return pen{on, off}
}

// String renders the canvas as lines with control sequences for its colours.
func (c *Canvas) String() string {
	var b strings.Builder
	b.Grow(c.w * c.h * 2)
	for y := range c.h {
		if y > 0 {
			b.WriteByte('\n')
		}
		c.writeLine(&b, y)
	}
	return b.String()
}

// writeLine writes a line without trailing blanks, with one control sequence per run of cells that look
// alike.
func (c *Canvas) writeLine(b *strings.Builder, y int) {
	line, sel := c.Cells[y*c.w:(y+1)*c.w], c.selected[y*c.w:(y+1)*c.w]
	end := c.w
	for end > 0 && !sel[end-1] && line[end-1].Text <= " " && !wideAt(line, end-2) {
		end--
	}
	var now pen
	for x := 0; x < end; x++ {
		text := line[x].Text
		switch {
		case text == "":
			text = " "
		case wideAt(line, x):
		case line[x].wide: // its second cell was overwritten
			text = "?"
		}
		next := c.pens.plain[line[x].Role]
		switch {
		case sel[x]:
			next = c.pens.selected[line[x].Role]
		case text == " ":
			next = pen{}
		}
		if next != now {
			b.WriteString(now.off)
			b.WriteString(next.on)
			now = next
		}
		b.WriteString(text)
		if wideAt(line, x) {
			x++
		}
	}
	b.WriteString(now.off)
}

// wideAt reports whether a character of two cells starts at x.
func wideAt(line []Cell, x int) bool {
	return x >= 0 && x+1 < len(line) && line[x].wide && line[x+1].Text == ""
}
