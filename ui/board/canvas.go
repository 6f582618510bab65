package board

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

// rect is a part of the screen, right and bottom excluded.
type rect struct{ x, y, w, h int }

func (r rect) has(x, y int) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }

// cell is one character of the screen. An empty text in the second half of a
// wide character draws nothing.
type cell struct {
	text string
	role theme.Role
}

// canvas is a screen of cells. All that is drawn goes through it, so that
// nothing is ever larger than the terminal and no control sequence from a
// cluster ever reaches it.
type canvas struct {
	w, h  int
	clip  rect
	cells []cell
	// selected marks cells that the cursor's line covers.
	selected []bool
	pens     *pens
}

func newCanvas(w, h int, p *pens) *canvas {
	return &canvas{w: w, h: h, clip: rect{0, 0, w, h}, cells: make([]cell, w*h), selected: make([]bool, w*h), pens: p}
}

// reset makes the canvas blank, and of the given size.
func (c *canvas) reset(w, h int, p *pens) {
	if c.w != w || c.h != h {
		*c = *newCanvas(w, h, p)
		return
	}
	clear(c.cells)
	clear(c.selected)
	c.pens = p
	c.clip = rect{0, 0, w, h}
}

// within limits drawing to a rectangle until the function it returns is called.
func (c *canvas) within(r rect) (restore func()) {
	old := c.clip
	x0, y0 := max(r.x, old.x), max(r.y, old.y)
	x1, y1 := min(r.x+r.w, old.x+old.w), min(r.y+r.h, old.y+old.h)
	c.clip = rect{x0, y0, max(x1-x0, 0), max(y1-y0, 0)}
	return func() { c.clip = old }
}

// put writes text from x on and returns the x after it. What lies outside of
// the clipping rectangle is left out.
func (c *canvas) put(x, y int, role theme.Role, text string) int {
	if strings.ContainsFunc(text, unfit) {
		text = Clean(text)
	}
	shown := y >= c.clip.y && y < c.clip.y+c.clip.h
	for len(text) > 0 {
		n, w := cluster(text)
		s := text[:n]
		text = text[n:]
		switch {
		case w == 0:
			continue
		case w > 2: // terminals do not agree on its width
			s, w = "?", 1
		}
		if shown && x >= c.clip.x && x+w <= c.clip.x+c.clip.w {
			c.cells[y*c.w+x] = cell{s, role}
			if w == 2 {
				c.cells[y*c.w+x+1] = cell{"", role}
			}
		}
		x += w
	}
	return x
}

// cluster returns the length in bytes and the width in cells of the first
// character. Where the two ways of measuring it disagree, so do terminals: its
// width is then 3.
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

// putFit writes text cut to a width, and returns the x after it.
func (c *canvas) putFit(x, y, width int, role theme.Role, text string) int {
	return c.put(x, y, role, fit(Clean(text), width, c.pens.lines.Ellipsis))
}

// putRight writes text so that it ends before x, and returns where it begins.
func (c *canvas) putRight(x, y int, role theme.Role, text string) int {
	from := x - width(text)
	c.put(from, y, role, text)
	return from
}

// rule draws a horizontal line.
func (c *canvas) rule(x, y, w int, role theme.Role, char string) {
	for i := range w {
		c.put(x+i, y, role, char)
	}
}

// mark covers a line with the cursor's background.
func (c *canvas) mark(x, y, w int) {
	for i := range w {
		if c.clip.has(x+i, y) {
			c.selected[y*c.w+x+i] = true
		}
	}
}

// blank empties a rectangle.
func (c *canvas) blank(r rect) {
	for y := r.y; y < r.y+r.h; y++ {
		for x := r.x; x < r.x+r.w; x++ {
			if c.clip.has(x, y) {
				c.cells[y*c.w+x] = cell{" ", theme.Text}
				c.selected[y*c.w+x] = false
			}
		}
	}
}

// pens are the control sequences that begin and end each role, made once per
// theme: asking a style for every piece of text would take longer than all the
// rest of a frame.
type pens struct {
	lines         theme.Lines
	plain, marked [theme.Selected + 1]pen
}

// pen begins and ends a role.
type pen struct{ on, off string }

func newPens(t theme.Theme) *pens {
	p := &pens{lines: t.Lines}
	selected := t.Style(theme.Selected)
	for r := theme.Text; r <= theme.Selected; r++ {
		p.plain[r] = newPen(t.Style(r))
		p.marked[r] = newPen(selected.Inherit(t.Style(r)))
		if selected.GetReverse() { // a colour would become the background of its cells alone
			p.marked[r] = newPen(selected)
		}
	}
	return p
}

func newPen(s lipgloss.Style) pen {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return pen{on, off}
}

// String is the canvas as lines with control sequences for its colours.
func (c *canvas) String() string {
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

// writeLine writes a line without the blanks at its end, one control sequence
// for each run of cells that look alike.
func (c *canvas) writeLine(b *strings.Builder, y int) {
	line, sel := c.cells[y*c.w:(y+1)*c.w], c.selected[y*c.w:(y+1)*c.w]
	end := c.w
	for end > 0 && !sel[end-1] && line[end-1].text <= " " && !wideAt(line, end-2) {
		end--
	}
	var now pen
	for x := 0; x < end; x++ {
		text := line[x].text
		switch {
		case text == "":
			text = " "
		case wideAt(line, x):
		case len(text) > 1 && width(text) == 2: // its second half was drawn over
			text = "?"
		}
		next := c.pens.plain[line[x].role]
		switch {
		case sel[x]:
			next = c.pens.marked[line[x].role]
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

// wideAt reports whether a character of two cells begins at x.
func wideAt(line []cell, x int) bool {
	return x >= 0 && x+1 < len(line) && line[x+1].text == "" && len(line[x].text) > 1 && width(line[x].text) == 2
}
