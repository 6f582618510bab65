package canvas

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

// Piece is text in one role.
type Piece struct {
	Role theme.Role
	Text string
}

// Line is a line of text in several roles.
type Line []Piece

func Plain(role theme.Role, text string) Line { return Line{{role, text}} }

// Text returns the line without its roles.
func (l Line) Text() string {
	if len(l) == 1 {
		return l[0].Text
	}
	var b strings.Builder
	for _, p := range l {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Line draws a line, truncated to w cells.
func (c *Canvas) Line(x, y, w int, l Line) {
	end := x + w
	for _, p := range l {
		x = c.PutFit(x, y, end-x, p.Role, p.Text)
	}
}

// Heading draws a rule across the screen with a title in it.
func (c *Canvas) Heading(y int, title string) { c.HeadingOf(Rect{0, y, c.w, 1}, title) }

// HeadingOf draws a rule across the top of a rectangle with a title in it.
func (c *Canvas) HeadingOf(r Rect, title string) {
	c.Rule(r.X, r.Y, r.W, theme.Faint, c.pens.lines.Rest)
	if title == "" {
		return
	}
	x := c.Put(r.X+1, r.Y, theme.Text, " ")
	x = c.PutFit(x, r.Y, r.X+r.W-x-2, theme.Strong, title)
	c.Put(x, r.Y, theme.Text, " ")
}

// Box draws lines in a frame in the middle of the screen, and returns the area inside.
func (c *Canvas) Box(title string, w int, lines []Line, role theme.Role) Rect {
	l := c.pens.lines
	h, pad := len(lines)+4, 1
	if h > c.h-1 { // no room for padding
		h, pad = min(len(lines)+2, c.h), 0
	}
	w = min(w, c.w-2)
	r := Rect{(c.w - w - 2) / 2, (c.h - h) / 2, w + 2, h}
	c.Frame(r, role, l.Light, l.Round)
	if title != "" {
		c.PutFit(r.X+2, r.Y, r.W-4, theme.Strong, " "+title+" ")
	}
	inner := Rect{r.X + 2, r.Y + 1 + pad, r.W - 4, max(r.H-2-2*pad, 0)}
	for i, ln := range lines[:min(len(lines), inner.H)] {
		c.Line(inner.X, inner.Y+i, inner.W, ln)
	}
	return inner
}

// Indent is before the rest of a line that has been wrapped.
const Indent = "    "

// WrapLines breaks lines longer than w and indents the continuation. The last piece starts on a new
// line if the others leave it almost no room.
func WrapLines(lines []Line, w int) []Line {
	const hang, minRoom = len(Indent), 20
	var out []Line
	for _, l := range lines {
		last := len(l) - 1
		before := 0
		for _, p := range l[:max(last, 0)] {
			before += Width(p.Text)
		}
		if last < 0 || before+Width(l[last].Text) <= w {
			out = append(out, l)
			continue
		}
		head, text, role := slices.Clone(l[:last]), l[last].Text, l[last].Role
		if last > 0 && before > w-minRoom {
			if len(text) > 1 && strings.Contains(",;:", text[:1]) && text[1] == ' ' { // it stays with the word before it
				head[last-1].Text, text = head[last-1].Text+text[:1], text[2:]
			}
			out = append(out, WrapLines([]Line{head}, w)...)
			head, text = Line{{theme.Text, Indent}}, strings.TrimLeft(text, " ")
			before = hang
		}
		parts := WrapAfter(text, w-before, w-hang)
		out = append(out, append(head, Piece{role, parts[0]}))
		for _, s := range parts[1:] {
			out = append(out, Line{{theme.Text, Indent}, {role, s}})
		}
	}
	return out
}

// Labelled wraps text in a column to the right of a label.
func Labelled(label Piece, column int, role theme.Role, text string, w int) (out []Line) {
	for _, s := range Wrap(text, w) {
		out = append(out, Line{{label.Role, Pad(label.Text, column)}, {role, s}})
		label.Text = ""
	}
	return out
}

// Frame clears a rectangle and draws a frame around it.
func (c *Canvas) Frame(r Rect, role theme.Role, edge [16]string, corner [4]string) {
	right, bottom := r.X+r.W-1, r.Y+r.H-1
	c.Blank(r)
	c.Rule(r.X+1, r.Y, r.W-2, role, edge[10])
	c.Rule(r.X+1, bottom, r.W-2, role, edge[10])
	for y := r.Y + 1; y < bottom; y++ {
		c.Put(r.X, y, role, edge[5])
		c.Put(right, y, role, edge[5])
	}
	for i, at := range [4][2]int{{r.X, r.Y}, {right, r.Y}, {r.X, bottom}, {right, bottom}} {
		c.Put(at[0], at[1], role, corner[i])
	}
}

// ScrollBar draws a scroll bar at x for a view of r.H lines that starts at first.
func (c *Canvas) ScrollBar(x int, r Rect, first, lines int) {
	if lines <= r.H || r.H < 1 {
		return
	}
	size := max(r.H*r.H/lines, 1)
	at := first * (r.H - size) / (lines - r.H)
	for i := range size {
		c.Put(x, r.Y+at+i, theme.Faint, c.pens.lines.Heavy[5])
	}
}

// Pad appends spaces up to a width.
func Pad(s string, w int) string { return s + strings.Repeat(" ", max(w-Width(s), 0)) }

// FitMiddle truncates text to a width by replacing its middle with the ellipsis.
func FitMiddle(s string, w int, ellipsis string) string {
	if Width(s) <= w || w < 8 {
		return Fit(s, w, ellipsis)
	}
	end := Tail(s, (w-1)/2)
	return ansi.TruncateWc(s, w-1-Width(end), "") + ellipsis + end
}

// Tail returns the end of a text that fits a width.
func Tail(s string, w int) string {
	for cut := max(Width(s)-w, 0); ; cut++ { // a wide character cannot be cut in half
		if end := ansi.TruncateLeftWc(s, cut, ""); Width(end) <= w {
			return end
		}
	}
}

// WrapWords breaks a line between words, never inside one.
func WrapWords(line string, width int) (out []Line) {
	row := ""
	for word := range strings.SplitSeq(line, " ") {
		if row != "" && Width(row)+1+Width(word) > width {
			out = append(out, Plain(theme.Text, row))
			row = ""
		}
		row = strings.TrimPrefix(row+" "+word, " ")
	}
	return append(out, Plain(theme.Text, row))
}
