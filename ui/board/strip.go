package board

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// drawTitles names the columns; where some are out of view, a strip shows all.
func (m *model) drawTitles() {
	y := m.lay.board.Y - 1
	if y < 0 || len(m.lay.cols) == 0 {
		return
	}
	end := m.drawStrip(y)
	for _, p := range m.lay.cols {
		role := theme.Quiet
		if m.columnActive(p.i) {
			role = theme.Strong
		}
		title, room := m.columnTitle(m.Graph.Cols[p.i]), min(p.x+p.w, end)-p.x-1
		if canvas.Width(title) > room && p.cut {
			continue // it says nothing
		}
		if p.prefix != "" {
			said := join(m.Theme, title, p.prefix+m.Theme.Lines.Ellipsis)
			if canvas.Width(said) > room {
				said = strings.TrimPrefix(said, "layer ")
			}
			title = said
		}
		m.canvas.PutFit(p.x+1, y, room, role, title)
	}
}

func (m *model) columnTitle(c *graph.Column) string {
	title := c.Title
	if c.Phase.Kind == event.PhaseApply {
		title = "layer " + title
	}
	if strings.HasPrefix(c.Phase.Name, event.RollbackPrefix) {
		title = m.Theme.Lines.Undo + " " + title
	}
	return title
}

func (m *model) columnActive(i int) bool {
	for _, n := range m.Graph.Cols[i].Nodes {
		if picture.Active(n) {
			return true
		}
	}
	return false
}

// The strip is all columns of the board in a line, a cell each: the sign of what
// needs looking at most in it. Those in view stand in brackets. A click brings
// another one into view.

// strip is where that line is.
type strip struct {
	r    canvas.Rect
	cols []int       // of the graph, from left to right
	per  int         // columns in a cell, more than one where there is no room
	more canvas.Rect // says how many columns are out of view at the right
}

// leastStrip is the width below which a strip tells too little.
const leastStrip = 6

// placeStrip finds room for the strip behind the titles of the columns.
func (m *model) placeStrip() strip {
	s := strip{cols: m.columns(), per: 1}
	shown := m.lay.cols
	if len(shown) == 0 || len(shown) == len(s.cols) {
		return strip{}
	}
	y, end := m.lay.board.Y-1, m.w-1
	if n := m.outRight(s.cols); n > 0 {
		w := canvas.Width(m.moreText(n))
		s.more = canvas.Rect{X: end - w, Y: y, W: w, H: 1}
		end -= w + 1
	}
	last := shown[len(shown)-1]
	if last.cut && len(shown) > 1 { // its title gives way
		last = shown[len(shown)-2]
	}
	room := end - (last.x + 1 + canvas.Width(m.columnTitle(m.Graph.Cols[last.i])) + 2)
	if room < leastStrip {
		return s
	}
	for (len(s.cols)+s.per-1)/s.per+2 > room {
		s.per++
	}
	w := (len(s.cols)+s.per-1)/s.per + 2
	s.r = canvas.Rect{X: end - w, Y: y, W: w, H: 1}
	return s
}

// outRight is how many columns are out of view at the right.
func (m *model) outRight(cols []int) int {
	n := 0
	for _, i := range cols {
		if i > m.lay.cols[len(m.lay.cols)-1].i {
			n++
		}
	}
	return n
}

func (m *model) moreText(n int) string { return fmt.Sprintf("+%d %s", n, m.Theme.Lines.More) }

// drawStrip draws the strip and returns where the titles have to end.
func (m *model) drawStrip(y int) (end int) {
	s := &m.lay.strip
	end = m.w - 1
	if s.more.W > 0 {
		m.canvas.Put(s.more.X, y, theme.Quiet, m.moreText(m.outRight(s.cols)))
		end = s.more.X - 1
	}
	if s.r.W == 0 {
		return end
	}
	was := false
	for _, c := range m.stripCells() {
		if c.in != was {
			m.canvas.Put(c.x-1, y, theme.Accent, map[bool]string{true: "[", false: "]"}[c.in])
		}
		was = c.in
		mark := m.Theme.Mark(string(m.columnsStatus(c.cols)))
		m.canvas.Put(c.x, y, mark.Role, mark.Glyph)
	}
	if was {
		m.canvas.Put(s.r.X+s.r.W-1, y, theme.Accent, "]")
	}
	return s.r.X - 1
}

// stripCell is a cell of the strip.
type stripCell struct {
	x    int
	cols []int
	in   bool // view
}

// stripCells are the cells of the strip, with a bracket before the first and behind
// the last that is in view.
func (m *model) stripCells() []stripCell {
	s := &m.lay.strip
	from, to := m.lay.cols[0].i, m.lay.cols[len(m.lay.cols)-1].i
	var cells []stripCell
	x, was := s.r.X, false
	for k := 0; k < len(s.cols); k += s.per {
		c := stripCell{cols: s.cols[k:min(k+s.per, len(s.cols))]}
		c.in = c.cols[len(c.cols)-1] >= from && c.cols[0] <= to
		if c.in != was {
			x++
		}
		c.x, was = x, c.in
		cells = append(cells, c)
		x++
	}
	return cells
}

// columnsStatus is the status of a group in some columns that needs looking at most.
func (m *model) columnsStatus(cols []int) event.Status {
	if n := m.pressing(cols); n != nil {
		return n.Status
	}
	return event.Waiting
}

// pressing is the group in some columns that needs looking at most, the first of
// several.
func (m *model) pressing(cols []int) *graph.Node {
	var best *graph.Node
	for _, i := range cols {
		for _, n := range m.Graph.Cols[i].Nodes {
			if m.shown(n) && (best == nil || rank(n) < rank(best)) {
				best = n
			}
		}
	}
	return best
}

// rank orders groups by how much they need looking at, the first most.
func rank(n *graph.Node) int {
	for i, s := range []event.Status{event.Failed, event.Held, event.Aborted, event.Running, event.Waiting, event.Skipped, event.Applied} {
		if n.Status == s {
			return i
		}
	}
	return 9
}

// clickStrip brings the columns under the mouse into view, and what needs looking at
// there.
func (m *model) clickStrip(at tea.Mouse) bool {
	s := &m.lay.strip
	if s.more.Has(at.X, at.Y) {
		m.scrollColumns(1)
		return true
	}
	if !s.r.Has(at.X, at.Y) {
		return false
	}
	for _, c := range m.stripCells() {
		if c.x >= at.X {
			m.follow, m.first = false, c.cols[0]
			m.selectNode(m.pressing(c.cols))
			break
		}
	}
	return true
}
