package columns

import (
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// drawTitles names the columns of a band. If some are out of view, it also draws the strip.
func (b *Board) drawTitles(own *band) {
	y := own.title
	if y < 0 || len(own.columns) == 0 {
		return
	}
	end := b.drawStrip(y)
	short := b.shortPhases(end)
	for i, p := range own.columns {
		role := theme.Quiet
		if b.columnActive(p.Index) {
			role = theme.Strong
		}
		c, room := b.Graph.Cols[p.Index], titleRoom(own, i, end)
		if canvas.Width(c.Title) > room && p.Cut {
			continue
		}
		title := c.Title
		if short[c.Phase] {
			title = c.ShortTitle
		}
		b.Canvas.Put(p.X+1, y, role, canvas.FitMiddle(b.headed(p, title, room), room, b.Theme.Lines.Ellipsis))
	}
}

// headed returns the title of a column with how many edges are not drawn, else with the prefix that its names omit.
func (b *Board) headed(p cards.Column, title string, room int) string {
	prefix := ""
	if p.Prefix != "" {
		prefix = p.Prefix + b.Theme.Lines.Ellipsis
	}
	prefixed := b.Join(title, prefix)
	more := b.undrawnText(p.Index, room, prefixed)
	if both := b.Join(prefixed, more); more == "" || canvas.Width(both) <= room {
		return both
	}
	return b.Join(title, more)
}

// titleRoom returns the width for the title of a band's column. Nothing is to the right of the last one.
func titleRoom(own *band, i, end int) int {
	p := own.columns[i]
	if i == len(own.columns)-1 {
		return end - p.X - 1
	}
	return min(p.X+p.W, end) - p.X - 1
}

// shortPhases returns the phases whose titles are all short, since one does not fit: "17" beside "layer 16" reads like something
// else.
func (b *Board) shortPhases(end int) map[*event.PhaseState]bool {
	short := map[*event.PhaseState]bool{}
	for k := range b.bands {
		for i, p := range b.bands[k].columns {
			c, room := b.Graph.Cols[p.Index], titleRoom(&b.bands[k], i, end)
			if !p.Cut && canvas.Width(b.headed(p, c.Title, room)) > room {
				short[c.Phase] = true
			}
		}
	}
	return short
}

func (b *Board) columnActive(i int) bool {
	return slices.ContainsFunc(b.Graph.Cols[i].Nodes, picture.Active)
}

// Strip is a minimap of the board in one line: a cell for each column with the glyph of its most
// urgent group. Brackets enclose the columns in view. A click on a cell scrolls to its column.
type Strip struct {
	Rect canvas.Rect
	cols []int       // indexes of the graph's columns, from left to right
	per  int         // columns per cell, more than one if space is short
	more canvas.Rect // the number of columns out of view on the right
}

// minStripWidth is the minimum width of a strip.
const minStripWidth = 6

// placeStrip finds room for the strip to the right of the titles.
func (b *Board) placeStrip() Strip {
	s := Strip{cols: b.columns(), per: 1}
	shown := b.Columns
	if len(shown) == 0 || len(shown) == len(s.cols) {
		return Strip{}
	}
	y, end := b.Area.Y-1, b.width()-1
	if n := b.outRight(s.cols); n > 0 {
		w := canvas.Width(b.moreText(n))
		s.more = canvas.Rect{X: end - w, Y: y, W: w, H: 1}
		end -= w + 1
	}
	last := shown[len(shown)-1]
	if last.Cut && len(shown) > 1 { // its title is dropped
		last = shown[len(shown)-2]
	}
	room := end - (last.X + 1 + canvas.Width(b.Graph.Cols[last.Index].Title) + 2)
	if room < minStripWidth {
		return s
	}
	for (len(s.cols)+s.per-1)/s.per+2 > room {
		s.per++
	}
	w := (len(s.cols)+s.per-1)/s.per + 2
	s.Rect = canvas.Rect{X: end - w, Y: y, W: w, H: 1}
	return s
}

// outRight returns how many columns are out of view on the right.
func (b *Board) outRight(cols []int) int {
	return len(cols) - 1 - slices.Index(cols, b.Columns[len(b.Columns)-1].Index)
}

func (b *Board) moreText(n int) string { return fmt.Sprintf("+%d %s", n, b.Theme.Lines.More) }

// drawStrip draws the strip and returns the x where the titles must end.
func (b *Board) drawStrip(y int) (end int) {
	s := &b.Strip
	end = b.width() - 1
	if s.more.W > 0 {
		b.Canvas.Put(s.more.X, y, theme.Quiet, b.moreText(b.outRight(s.cols)))
		end = s.more.X - 1
	}
	if s.Rect.W == 0 {
		return end
	}
	was := false
	for _, c := range b.StripCells() {
		switch {
		case c.InView && !was:
			b.Canvas.Put(c.X-1, y, theme.Accent, "[")
		case !c.InView && was:
			b.Canvas.Put(c.X-1, y, theme.Accent, "]")
		}
		was = c.InView
		mark := b.columnsMark(c.cols)
		b.Canvas.Put(c.X, y, mark.Role, mark.Glyph)
	}
	if was {
		b.Canvas.Put(s.Rect.X+s.Rect.W-1, y, theme.Accent, "]")
	}
	return s.Rect.X - 1
}

// StripCell is a cell of the strip.
type StripCell struct {
	X      int
	cols   []int
	InView bool
}

// StripCells returns the cells of the strip, with room for the brackets around those in view.
func (b *Board) StripCells() []StripCell {
	s := &b.Strip
	from, to := b.Columns[0].Index, b.Columns[len(b.Columns)-1].Index
	var cells []StripCell
	x, was := s.Rect.X, false
	for k := 0; k < len(s.cols); k += s.per {
		c := StripCell{cols: s.cols[k:min(k+s.per, len(s.cols))]}
		c.InView = c.cols[len(c.cols)-1] >= from && c.cols[0] <= to
		if c.InView != was {
			x++
		}
		c.X, was = x, c.InView
		cells = append(cells, c)
		x++
	}
	return cells
}

func (b *Board) columnsMark(cols []int) theme.Mark {
	n := b.mostUrgent(cols)
	if n.Degraded > 0 {
		return b.ShortMark(n)
	}
	return b.Theme.Mark(string(n.Shown()))
}

// mostUrgent returns the first of the most urgent visible groups in cols. Each column has at least one.
func (b *Board) mostUrgent(cols []int) *graph.Node {
	var best *graph.Node
	for _, i := range cols {
		for _, n := range b.ShownIn(i) {
			if best == nil || cards.Rank(n) < cards.Rank(best) {
				best = n
			}
		}
	}
	return best
}

// clickStrip scrolls to the columns under the mouse and selects their most urgent group.
func (b *Board) clickStrip(x, y int) bool {
	s := &b.Strip
	if s.more.Has(x, y) {
		b.scrollColumns(1)
		return true
	}
	if !s.Rect.Has(x, y) {
		return false
	}
	for _, c := range b.StripCells() {
		if c.X >= x {
			b.Follow, b.First = false, c.cols[0]
			b.Select(b.mostUrgent(c.cols))
			break
		}
	}
	return true
}
