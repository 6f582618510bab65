package columns

import (
	"slices"

	"lockstep/theme"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// edge is a dependency on the board. Until its last stretch, it is drawn without a target, so that
// the edges of one source join.
type edge struct {
	from *graph.Node
	to   *graph.Node // nil before the last stretch
	bold bool        // of the selected group
}

// wires collects edges before they are drawn: edges of one group join, edges of two groups cross.
type wires struct {
	*Board
	place map[*graph.Node]*cards.Card // the cards in view
	cells []cell
}

// cell is the part of an edge in one cell.
type cell struct {
	edge
	arms byte
}

// The weight of edges.
const lightEdge, boldEdge = false, true

const vertical, horizontal = theme.ArmUp | theme.ArmDown, theme.ArmLeft | theme.ArmRight

// add draws arms of an edge into a cell. Edges to the same card join on the last stretch. Where
// edges cross, the vertical one is on top; the selected group's edges are on top of all others.
func (ws *wires) add(x, y int, arms byte, e edge) {
	if x < 0 || y < 0 || x >= ws.W || y >= ws.H {
		return
	}
	c := &ws.cells[y*ws.W+x]
	switch {
	case c.from == nil || c.bold == e.bold && (c.from == e.from || e.to != nil && c.to == e.to):
		arms |= c.arms
	case c.bold && !e.bold:
		return
	case e.bold && !c.bold:
		if c.from == e.from { // its other edges still start here
			arms |= c.arms
		}
	case c.arms&vertical != 0 && (arms&vertical == 0 || arms == vertical):
		return
	}
	*c = cell{e, arms}
}

// horizontalRun draws an edge along a row.
func (ws *wires) horizontalRun(x0, x1, y int, e edge) {
	for x := x0; x <= x1; x++ {
		ws.add(x, y, horizontal, e)
	}
}

// bend draws an edge along its track at x from one row to another.
func (ws *wires) bend(x, from, to int, e edge) {
	start := edge{from: e.from, bold: e.bold}
	if from == to {
		ws.add(x, from, horizontal, e)
		return
	}
	leave, arrive := byte(theme.ArmDown), byte(theme.ArmUp)
	if to < from {
		leave, arrive = arrive, leave
	}
	ws.add(x, from, theme.ArmLeft|leave, start)
	for y := min(from, to) + 1; y < max(from, to); y++ {
		ws.add(x, y, vertical, start)
	}
	ws.add(x, to, arrive|theme.ArmRight, e)
}

// drawEdges draws the dependencies. The selected group's edges are drawn last and with heavy lines,
// so that they also stand out without colour.
func (b *Board) drawEdges() {
	ws := &wires{Board: b, place: map[*graph.Node]*cards.Card{}, cells: make([]cell, b.W*b.H)}
	for i := range b.Cards {
		if c := &b.Cards[i]; len(b.bands) == 0 || b.Area.Has(c.Rect.X, c.Rect.Y) {
			ws.place[c.Node] = c
		}
	}
	for k, p := range b.Columns {
		if c := b.Graph.Cols[p.Index]; !c.Dense() {
			for _, n := range c.Sources {
				ws.drawFrom(k, n, lightEdge, n.Outs)
			}
		}
		for _, n := range b.Graph.Nodes {
			if n.Col < p.Index && b.Shown(n) {
				ws.pass(k, n, b.shownReach(n), lightEdge)
			}
		}
	}
	selected := b.Group()
	if selected != nil {
		ws.drawSelected(selected)
	}
	ws.draw()
	ws.drawArrows(selected)
}

// drawSelected draws the selected group's incoming and outgoing edges over the others.
func (ws *wires) drawSelected(selected *graph.Node) {
	for k, p := range ws.Columns {
		ws.drawFrom(k, selected, boldEdge, selected.Outs)
		if selected.Col < p.Index {
			ws.pass(k, selected, ws.shownReach(selected), boldEdge)
		}
		for _, up := range selected.Ins {
			ws.drawFrom(k, up, boldEdge, []*graph.Node{selected})
			if ws.Shown(up) && up.Col < p.Index {
				ws.pass(k, up, selected.Col, boldEdge)
			}
		}
	}
}

// laneRow returns the screen row of a node's lane; ok is false if the node has none, or if it does not
// fit. Bold edges then use the last lane.
func (b *Board) laneRow(n *graph.Node, bold bool) (y int, ok bool) {
	lane := n.Lane
	if bold && (lane < 0 || lane >= b.lanes()) {
		lane = b.lanes() - 1
	}
	return b.Area.Y - b.Top + lane, lane >= 0 && lane < b.lanes()
}

// Gutter returns the cells between the k-th column in view and the next.
func (b *Board) Gutter(k int) (x0, x1 int) {
	p := b.Columns[k]
	x0 = p.X + p.W
	if k+1 < len(b.Columns) {
		return x0, b.Columns[k+1].X - 1
	}
	return x0, b.W - 1
}

// drawFrom draws the edges from a node to some others in the gutter right of the k-th column in view:
// from its card or lane to the cards of the next column, and to the lane that leads further.
func (ws *wires) drawFrom(k int, n *graph.Node, bold bool, outs []*graph.Node) {
	col, next := ws.Columns[k].Index, -1
	if k+1 < len(ws.Columns) {
		next = ws.Columns[k+1].Index
	}
	x0, x1 := ws.Gutter(k)
	track := x0 + ws.Graph.Cols[col].Track(n)
	if !ws.Tight {
		track++
	}
	track = min(track, x1)
	lane, hasLane := ws.laneRow(n, bold)
	from := lane
	switch c := ws.place[n]; {
	case n.Col == col && c != nil:
		from = c.Anchor()
	case n.Col >= col || !ws.Shown(n) || !hasLane:
		return
	}
	started := false
	for _, d := range outs {
		e, row := edge{n, d, bold}, lane
		switch c := ws.place[d]; {
		case !ws.Shown(d):
			continue
		case d.Col == next && c != nil:
			row = c.Anchor()
		case d.Col > col+1 && n.Col == col && hasLane:
			e.to = nil
		default:
			continue
		}
		if !started {
			ws.horizontalRun(x0, track-1, from, edge{from: n, bold: bold})
			started = true
		}
		ws.bend(track, from, row, e)
		ws.horizontalRun(track+1, x1, row, e)
	}
}

// shownReach returns the last column with a visible group that waits for a node.
func (b *Board) shownReach(n *graph.Node) int {
	end := n.Col
	for _, d := range n.Outs {
		if b.Shown(d) {
			end = max(end, d.Col)
		}
	}
	return end
}

// pass draws the lane of a node above the cards of the k-th column in view if it leads to a later
// column, and across the gutter if it leads past the next column.
func (ws *wires) pass(k int, n *graph.Node, until int, bold bool) {
	p := ws.Columns[k]
	y, ok := ws.laneRow(n, bold)
	if !ok || until <= p.Index {
		return
	}
	e := edge{from: n, bold: bold}
	ws.horizontalRun(p.X, p.X+p.W-1, y, e)
	if until > p.Index+1 {
		x0, x1 := ws.Gutter(k)
		ws.horizontalRun(x0, x1, y, e)
	}
}

func (ws *wires) draw() {
	l := ws.Theme.Lines
	for y := ws.Area.Y; y < ws.Area.Y+ws.Area.H; y++ {
		for x := range ws.W {
			switch c := ws.cells[y*ws.W+x]; {
			case c.from == nil:
			case c.bold:
				ws.Canvas.Put(x, y, theme.Accent, l.Heavy[c.arms])
			default:
				ws.Canvas.Put(x, y, theme.Faint, l.Light[c.arms])
			}
		}
	}
}

// drawArrows draws the arrow heads at cards, even for edges from columns out of view.
func (ws *wires) drawArrows(selected *graph.Node) {
	for n, c := range ws.place {
		if len(n.Ins) == 0 {
			continue
		}
		role := theme.Faint
		if n == selected || selected != nil && slices.Contains(n.Ins, selected) {
			role = theme.Accent
		}
		ws.Canvas.Put(c.Rect.X-1, c.Anchor(), role, ws.Theme.Lines.Arrow)
	}
}
