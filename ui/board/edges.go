package board

import (
	"lockstep/theme"
	"lockstep/ui/board/graph"
)

// The arms of a line in a cell, the index into theme.Lines.
const (
	up = 1 << iota
	right
	down
	left
)

// wire is what runs through a cell of a gutter.
type wire struct {
	arms byte
	net  *graph.Node // whose edge it is
	to   *graph.Node // where it leads, on the last stretch
	bold bool
}

// wires collects lines before they are drawn, so that those of one group join
// and those of two cross.
type wires struct {
	w, h  int
	cells []wire
}

// add lays arms of a net into a cell. Edges that lead to the same card join on
// the last stretch. Where others cross, the upright one is seen and the other
// passes under it; of two that run the same way the selected group's is seen.
func (ws *wires) add(x, y int, arms byte, n, to *graph.Node, bold bool) {
	if x < 0 || y < 0 || x >= ws.w || y >= ws.h {
		return
	}
	c := &ws.cells[y*ws.w+x]
	switch {
	case c.net == nil || c.net == n && c.bold == bold || to != nil && c.to == to && c.bold == bold:
		c.arms |= arms
	case c.bold && !bold:
		return
	case bold && !c.bold:
		if c.net == n { // its quiet edges still begin there
			arms |= c.arms
		}
		c.arms = arms
	case c.arms&(up|down) == 0 || arms&(up|down) != 0 && arms != up|down:
		c.arms = arms
	default:
		return
	}
	c.net, c.to, c.bold = n, to, bold
}

func (ws *wires) across(x0, x1, y int, n, to *graph.Node, bold bool) {
	for x := x0; x <= x1; x++ {
		ws.add(x, y, left|right, n, to, bold)
	}
}

func (ws *wires) upright(x, y0, y1 int, n *graph.Node, bold bool) {
	for y := y0 + 1; y < y1; y++ {
		ws.add(x, y, up|down, n, nil, bold)
	}
}

// drawEdges draws what waits for what. The edges of the selected group are
// drawn last, heavy, so that they stand out without colour too.
func (m *model) drawEdges() {
	ws := &wires{w: m.w, h: m.h, cells: make([]wire, m.w*m.h)}
	place := map[*graph.Node]*card{}
	for i := range m.lay.cards {
		place[m.lay.cards[i].n] = &m.lay.cards[i]
	}
	chosen := m.group()
	for k := range m.lay.cols {
		c := m.Graph.Cols[m.lay.cols[k].i]
		for _, n := range c.Nets {
			if !c.Dense() {
				m.wire(ws, place, k, n, false)
			}
		}
		m.passThrough(ws, k)
	}
	if chosen != nil {
		m.wireChosen(ws, place, chosen)
	}
	m.drawWires(ws)
	m.drawArrows(place, chosen)
}

// laneRow is the row of a node's lane on the screen. Where there is no room for
// all lanes, some have no row, and only the selected group's edges are drawn,
// in the last.
func (m *model) laneRow(n *graph.Node, bold bool) (y int, ok bool) {
	lane := n.Lane
	if bold && (lane < 0 || lane >= m.lanes()) {
		lane = m.lanes() - 1
	}
	return m.lay.board.Y - m.top + lane, lane >= 0 && lane < m.lanes()
}

// gutter is the part between a column in view and the next.
func (m *model) gutter(k int) (x0, x1 int) {
	p := m.lay.cols[k]
	x0 = p.x + p.w
	if k+1 < len(m.lay.cols) {
		return x0, m.lay.cols[k+1].x - 1
	}
	return x0, m.w - 1
}

// wire draws the edges of a node in the gutter right of the k-th column in
// view: from its card, or from its lane, to the cards of the next column and
// to the lane of those further on.
func (m *model) wire(ws *wires, place map[*graph.Node]*card, k int, n *graph.Node, bold bool) {
	m.wireTo(ws, place, k, n, bold, func(*graph.Node) bool { return true })
}

func (m *model) wireTo(ws *wires, place map[*graph.Node]*card, k int, n *graph.Node, bold bool, wanted func(*graph.Node) bool) {
	col := m.lay.cols[k].i
	x0, x1 := m.gutter(k)
	track := x0 + m.Graph.Cols[col].Track(n)
	if !m.lay.tight {
		track++
	}
	track = min(track, x1)
	var from int
	switch c := place[n]; {
	case n.Col == col && c != nil:
		from = c.anchor()
	case n.Col < col && m.shown(n):
		y, ok := m.laneRow(n, bold)
		if !ok {
			return
		}
		from = y
	default:
		return
	}
	type end struct {
		row int
		to  *graph.Node
	}
	var ends []end
	for _, d := range n.Outs {
		if !wanted(d) || !m.shown(d) {
			continue
		}
		switch c := place[d]; {
		case d.Col == m.nextColumn(k) && c != nil:
			ends = append(ends, end{c.anchor(), d})
		case d.Col > col+1 && n.Col == col:
			if y, ok := m.laneRow(n, bold); ok {
				ends = append(ends, end{y, nil})
			}
		}
	}
	if len(ends) == 0 {
		return
	}
	ws.across(x0, track-1, from, n, nil, bold)
	for _, e := range ends {
		ws.bend(track, from, e.row, n, e.to, bold)
		ws.across(track+1, x1, e.row, n, e.to, bold)
	}
}

// bend leads an edge along its track from one row to another.
func (ws *wires) bend(x, from, to int, n, target *graph.Node, bold bool) {
	switch {
	case to > from:
		ws.add(x, from, left|down, n, nil, bold)
		ws.upright(x, from, to, n, bold)
		ws.add(x, to, up|right, n, target, bold)
	case to < from:
		ws.add(x, from, left|up, n, nil, bold)
		ws.upright(x, to, from, n, bold)
		ws.add(x, to, down|right, n, target, bold)
	default:
		ws.add(x, from, left|right, n, target, bold)
	}
}

// nextColumn is the column right of the k-th in view, or -1.
func (m *model) nextColumn(k int) int {
	if k+1 < len(m.lay.cols) {
		return m.lay.cols[k+1].i
	}
	return -1
}

// passThrough draws the lanes above the cards of a column in view, and over
// its gutter where the edge goes further.
func (m *model) passThrough(ws *wires, k int) {
	col := m.lay.cols[k].i
	for _, n := range m.Graph.Nodes {
		if n.Col < col && m.shown(n) {
			if end := m.shownReach(n); end > col {
				m.pass(ws, k, n, end, false)
			}
		}
	}
}

// shownReach is the last column on the board that waits for a node.
func (m *model) shownReach(n *graph.Node) int {
	end := n.Col
	for _, d := range n.Outs {
		if m.shown(d) {
			end = max(end, d.Col)
		}
	}
	return end
}

func (m *model) pass(ws *wires, k int, n *graph.Node, until int, bold bool) {
	p := m.lay.cols[k]
	y, ok := m.laneRow(n, bold)
	if !ok {
		return
	}
	ws.across(p.x, p.x+p.w-1, y, n, nil, bold)
	if until > p.i+1 {
		x0, x1 := m.gutter(k)
		ws.across(x0, x1, y, n, nil, bold)
	}
}

// wireChosen draws the edges of the selected group over the others: those to
// what waits for it, and of what it waits for those that lead to it.
func (m *model) wireChosen(ws *wires, place map[*graph.Node]*card, chosen *graph.Node) {
	for k, p := range m.lay.cols {
		m.wire(ws, place, k, chosen, true)
		if end := m.shownReach(chosen); chosen.Col < p.i && end > p.i {
			m.pass(ws, k, chosen, end, true)
		}
		for _, up := range chosen.Ins {
			m.wireTo(ws, place, k, up, true, func(d *graph.Node) bool { return d == chosen })
			if m.shown(up) && up.Col < p.i && chosen.Col > p.i {
				m.pass(ws, k, up, chosen.Col, true)
			}
		}
	}
}

func (m *model) drawWires(ws *wires) {
	l := m.Theme.Lines
	b := m.lay.board
	for y := b.Y; y < b.Y+b.H; y++ {
		for x := range ws.w {
			c := ws.cells[y*ws.w+x]
			if c.net == nil {
				continue
			}
			if c.bold {
				m.canvas.Put(x, y, theme.Accent, l.Heavy[c.arms])
			} else {
				m.canvas.Put(x, y, theme.Faint, l.Light[c.arms])
			}
		}
	}
}

// drawArrows ends edges at the cards they lead to, also those that come from
// out of view.
func (m *model) drawArrows(place map[*graph.Node]*card, chosen *graph.Node) {
	for _, c := range place {
		bold, from := false, false
		for _, in := range c.n.Ins {
			from = true
			bold = bold || in == chosen
		}
		if !from {
			continue
		}
		role := theme.Faint
		if bold || c.n == chosen {
			role = theme.Accent
		}
		m.canvas.Put(c.r.X-1, c.anchor(), role, m.Theme.Lines.Arrow)
	}
}
