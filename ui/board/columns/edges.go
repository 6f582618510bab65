package columns

import (
	"lockstep/theme"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// wire is the line in a cell of a gutter.
type wire struct {
	arms byte
	net  *graph.Node // the source of the edge
	to   *graph.Node // the target, on the last stretch
	bold bool
}

// wires collects edges before they are drawn, so that edges of one group join and those
// of two groups cross.
type wires struct {
	w, h  int
	cells []wire
}

// add draws arms of a net into a cell. Edges to the same card join on the last stretch.
// Of crossing edges the vertical one is on top; of two parallel ones, the selected
// group's.
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
	case c.arms&(theme.ArmUp|theme.ArmDown) == 0 || arms&(theme.ArmUp|theme.ArmDown) != 0 && arms != theme.ArmUp|theme.ArmDown:
		c.arms = arms
	default:
		return
	}
	c.net, c.to, c.bold = n, to, bold
}

func (ws *wires) across(x0, x1, y int, n, to *graph.Node, bold bool) {
	for x := x0; x <= x1; x++ {
		ws.add(x, y, theme.ArmLeft|theme.ArmRight, n, to, bold)
	}
}

func (ws *wires) upright(x, y0, y1 int, n *graph.Node, bold bool) {
	for y := y0 + 1; y < y1; y++ {
		ws.add(x, y, theme.ArmUp|theme.ArmDown, n, nil, bold)
	}
}

// drawEdges draws the dependencies. The selected group's edges are drawn last, heavy, so
// that they stand out without colour too.
func (b *Board) drawEdges() {
	ws := &wires{w: b.W, h: b.H, cells: make([]wire, b.W*b.H)}
	place := map[*graph.Node]*cards.Card{}
	for i := range b.Cards {
		if c := &b.Cards[i]; len(b.bands) == 0 || b.Area.Has(c.Rect.X, c.Rect.Y) {
			place[c.Node] = c
		}
	}
	chosen := b.Group()
	for k := range b.Columns {
		c := b.Graph.Cols[b.Columns[k].Index]
		for _, n := range c.Nets {
			if !c.Dense() {
				b.wire(ws, place, k, n, false)
			}
		}
		b.passThrough(ws, k)
	}
	if chosen != nil {
		b.wireChosen(ws, place, chosen)
	}
	b.drawWires(ws)
	b.drawArrows(place, chosen)
}

// laneRow returns the screen row of a node's lane. If not all lanes fit, the last one is used
// for the selected group's edges and the others have none.
func (b *Board) laneRow(n *graph.Node, bold bool) (y int, ok bool) {
	lane := n.Lane
	if bold && (lane < 0 || lane >= b.lanes()) {
		lane = b.lanes() - 1
	}
	return b.Area.Y - b.Top + lane, lane >= 0 && lane < b.lanes()
}

// Gutter returns the part between a column in view and the next.
func (b *Board) Gutter(k int) (x0, x1 int) {
	p := b.Columns[k]
	x0 = p.X + p.W
	if k+1 < len(b.Columns) {
		return x0, b.Columns[k+1].X - 1
	}
	return x0, b.W - 1
}

// wire draws the edges of a node in the gutter right of the k-th column in
// view: from its card, or from its lane, to the cards of the next column and
// to the lane of those further on.
func (b *Board) wire(ws *wires, place map[*graph.Node]*cards.Card, k int, n *graph.Node, bold bool) {
	b.wireTo(ws, place, k, n, bold, func(*graph.Node) bool { return true })
}

func (b *Board) wireTo(ws *wires, place map[*graph.Node]*cards.Card, k int, n *graph.Node, bold bool, wanted func(*graph.Node) bool) {
	col := b.Columns[k].Index
	x0, x1 := b.Gutter(k)
	track := x0 + b.Graph.Cols[col].Track(n)
	if !b.Tight {
		track++
	}
	track = min(track, x1)
	var from int
	switch c := place[n]; {
	case n.Col == col && c != nil:
		from = c.Anchor()
	case n.Col < col && b.Shown(n):
		y, ok := b.laneRow(n, bold)
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
		if !wanted(d) || !b.Shown(d) {
			continue
		}
		switch c := place[d]; {
		case d.Col == b.nextColumn(k) && c != nil:
			ends = append(ends, end{c.Anchor(), d})
		case d.Col > col+1 && n.Col == col:
			if y, ok := b.laneRow(n, bold); ok {
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

// bend draws an edge along its track from one row to another.
func (ws *wires) bend(x, from, to int, n, target *graph.Node, bold bool) {
	switch {
	case to > from:
		ws.add(x, from, theme.ArmLeft|theme.ArmDown, n, nil, bold)
		ws.upright(x, from, to, n, bold)
		ws.add(x, to, theme.ArmUp|theme.ArmRight, n, target, bold)
	case to < from:
		ws.add(x, from, theme.ArmLeft|theme.ArmUp, n, nil, bold)
		ws.upright(x, to, from, n, bold)
		ws.add(x, to, theme.ArmDown|theme.ArmRight, n, target, bold)
	default:
		ws.add(x, from, theme.ArmLeft|theme.ArmRight, n, target, bold)
	}
}

// nextColumn returns the column right of the k-th in view, or -1.
func (b *Board) nextColumn(k int) int {
	if k+1 < len(b.Columns) {
		return b.Columns[k+1].Index
	}
	return -1
}

// passThrough draws the lanes above the cards of a column in view, and over its gutter
// for edges that go further.
func (b *Board) passThrough(ws *wires, k int) {
	col := b.Columns[k].Index
	for _, n := range b.Graph.Nodes {
		if n.Col < col && b.Shown(n) {
			if end := b.shownReach(n); end > col {
				b.pass(ws, k, n, end, false)
			}
		}
	}
}

// shownReach returns the last column on the board that waits for a node.
func (b *Board) shownReach(n *graph.Node) int {
	end := n.Col
	for _, d := range n.Outs {
		if b.Shown(d) {
			end = max(end, d.Col)
		}
	}
	return end
}

func (b *Board) pass(ws *wires, k int, n *graph.Node, until int, bold bool) {
	p := b.Columns[k]
	y, ok := b.laneRow(n, bold)
	if !ok {
		return
	}
	ws.across(p.X, p.X+p.W-1, y, n, nil, bold)
	if until > p.Index+1 {
		x0, x1 := b.Gutter(k)
		ws.across(x0, x1, y, n, nil, bold)
	}
}

// wireChosen draws the selected group's incoming and outgoing edges over the others.
func (b *Board) wireChosen(ws *wires, place map[*graph.Node]*cards.Card, chosen *graph.Node) {
	for k, p := range b.Columns {
		b.wire(ws, place, k, chosen, true)
		if end := b.shownReach(chosen); chosen.Col < p.Index && end > p.Index {
			b.pass(ws, k, chosen, end, true)
		}
		for _, up := range chosen.Ins {
			b.wireTo(ws, place, k, up, true, func(d *graph.Node) bool { return d == chosen })
			if b.Shown(up) && up.Col < p.Index && chosen.Col > p.Index {
				b.pass(ws, k, up, chosen.Col, true)
			}
		}
	}
}

func (b *Board) drawWires(ws *wires) {
	l := b.Theme.Lines
	area := b.Area
	for y := area.Y; y < area.Y+area.H; y++ {
		for x := range ws.w {
			c := ws.cells[y*ws.w+x]
			if c.net == nil {
				continue
			}
			if c.bold {
				b.Canvas.Put(x, y, theme.Accent, l.Heavy[c.arms])
			} else {
				b.Canvas.Put(x, y, theme.Faint, l.Light[c.arms])
			}
		}
	}
}

// drawArrows draws the arrow heads at cards, also for edges from columns out of view.
func (b *Board) drawArrows(place map[*graph.Node]*cards.Card, chosen *graph.Node) {
	for _, c := range place {
		bold, from := false, false
		for _, in := range c.Node.Ins {
			from = true
			bold = bold || in == chosen
		}
		if !from {
			continue
		}
		role := theme.Faint
		if bold || c.Node == chosen {
			role = theme.Accent
		}
		b.Canvas.Put(c.Rect.X-1, c.Anchor(), role, b.Theme.Lines.Arrow)
	}
}
