package columns

import (
	"fmt"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/wires"
)

// wiring is the edges on the board, as package wires needs them.
type wiring struct {
	plan  wires.Plan
	of    map[*graph.Node]int // the ends of the groups that a card or a fold shows
	nodes []*graph.Node       // of a card, by end; nil for a fold
}

// drawEdges draws the dependencies in all bands, and counts by column those that it cannot draw.
func (b *Board) drawEdges() {
	w := b.ends()
	edges := w.connect(b)
	routed := w.plan.Route(b.W, b.Area.Y+b.Area.H)
	b.drawWires(routed)
	arrows, bold := make([]bool, len(w.plan.Ends)), make([]bool, len(w.plan.Ends))
	for i, e := range w.plan.Edges {
		if routed.Missing[i] {
			b.undrawn[edges[i].Col]++
			continue
		}
		arrows[e.To], bold[e.To] = true, bold[e.To] || e.Bold
	}
	for i, e := range w.plan.Ends {
		if !arrows[i] {
			continue
		}
		role := theme.Faint
		if bold[i] {
			role = theme.Accent
		}
		b.Canvas.Put(e.In, e.Row, role, b.Theme.Lines.Arrow)
	}
}

// ends returns the bands, and the places where edges start and end.
func (b *Board) ends() *wiring {
	w := &wiring{of: map[*graph.Node]int{}}
	add := func(e wires.End, r canvas.Rect, nodes ...*graph.Node) {
		e.In, e.Out = r.X-1, r.X+r.W
		for _, n := range nodes {
			w.of[n] = len(w.plan.Ends)
		}
		w.plan.Ends = append(w.plan.Ends, e)
	}
	for k := range b.bands {
		own := &b.bands[k]
		w.plan.Bands = append(w.plan.Bands, b.wiresOf(own))
		for c, col := range own.columns {
			for i := range b.Cards {
				if card := &b.Cards[i]; card.Node.Col == col.Index {
					w.nodes = append(w.nodes, card.Node)
					add(wires.End{Band: k, Column: c, Row: card.Anchor()}, card.Rect, card.Node)
				}
			}
			for i := range b.Folds {
				if f := &b.Folds[i]; f.Nodes[0].Col == col.Index {
					w.nodes = append(w.nodes, nil)
					add(wires.End{Band: k, Column: c, Row: f.Rect.Y}, f.Rect, f.Nodes...)
				}
			}
		}
	}
	return w
}

// wiresOf returns the space for edges in a band.
func (b *Board) wiresOf(own *band) wires.Band {
	out := wires.Band{Lane: own.lane, Lanes: own.lanes}
	from := 0
	for _, col := range own.columns {
		out.Gutters = append(out.Gutters, wires.Gutter{From: from, To: col.X - 1})
		if from = col.X + col.W; !b.Tight {
			from++
		}
	}
	out.Gutters = append(out.Gutters, wires.Gutter{From: from, To: b.width() - 1})
	return out
}

// connect adds the edges between the ends, and returns the groups that they lead to. Edges from columns out of view
// are counted as not drawn.
func (w *wiring) connect(b *Board) (targets []*graph.Node) {
	selected := b.Group()
	at := map[wires.Edge]int{}
	for _, n := range b.Graph.Nodes {
		to, inView := w.of[n]
		if !inView || !b.Shown(n) {
			continue
		}
		for _, up := range n.Ins {
			from, ok := w.of[up]
			switch {
			case !b.Shown(up):
				continue
			case !ok:
				b.undrawn[n.Col]++
				continue
			}
			e := wires.Edge{From: from, To: to}
			i, known := at[e]
			if !known {
				i, at[e] = len(targets), len(targets)
				w.plan.Edges, targets = append(w.plan.Edges, e), append(targets, n)
			}
			if w.nodes[from] != nil && w.nodes[from] == selected || w.nodes[to] != nil && w.nodes[to] == selected {
				w.plan.Edges[i].Bold = true
			}
		}
	}
	return targets
}

func (b *Board) drawWires(r *wires.Routed) {
	for y := range b.Area.Y + b.Area.H {
		for x := range b.W {
			c := r.Cells[y*b.W+x]
			if c.Arms == 0 {
				continue
			}
			role := theme.Faint
			if c.Bold != 0 {
				role = theme.Accent
			}
			b.Canvas.Put(x, y, role, b.Theme.Lines.Mixed[theme.MixedIndex(c.Arms, c.Bold)])
		}
	}
}

// Undrawn returns how many edges the last frame counted instead of drawing them.
func (b *Board) Undrawn() (n int) {
	for _, more := range b.undrawn {
		n += more
	}
	return n
}

// undrawnText says how many edges to the groups of a column are not drawn, "" for none.
func (b *Board) undrawnText(col, room int, title string) string {
	n := b.undrawn[col]
	if n == 0 {
		return ""
	}
	if long := text.Count(n, "more edge"); canvas.Width(b.Join(title, long)) <= room {
		return long
	}
	return fmt.Sprintf("+%d", n)
}
