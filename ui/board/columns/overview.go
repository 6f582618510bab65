package columns

import (
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// grid is the layout of the overview. The overview shows all groups at once, one line each, in
// one column per layer; columns that do not fit side by side go into bands below each other. If
// names do not fit, it shows only each group's glyph.
type grid struct {
	cell  int // the width of a cell
	per   int // columns in a band
	rows  int // rows of groups in a band
	bands int
}

// dotWidths are the widths of a cell without a name.
var dotWidths = []int{3, 2}

// placeOverview lays the board out as an overview, if the user asked for it, or if cards do not
// fit but names do.
func (b *Board) placeOverview() bool {
	cols := b.columns()
	asked := b.Detail == screen.Compact
	if len(cols) == 0 || !asked && (b.Detail != screen.Auto || b.Narrow() || b.allFitAsCards(cols)) {
		return false
	}
	groups := make([]int, len(cols))
	for n, i := range cols {
		groups[n] = len(b.ShownIn(i))
	}
	g, ok := b.named(groups)
	for i := 0; !ok && asked && i < len(dotWidths); i++ {
		g, ok = b.grid(groups, dotWidths[i])
	}
	if !ok && asked { // the overview scrolls
		cell := dotWidths[len(dotWidths)-1]
		per := (b.width() - 1) / cell
		g, ok = grid{cell: cell, per: per, rows: 1, bands: len(b.Visible())/per + len(cols)}, true
	}
	if ok {
		b.placeGrid(g, cols)
	}
	return ok
}

// allFitAsCards reports whether all groups fit as cards or lines in columns. It depends only on
// the plan, so that nothing moves during the run.
func (b *Board) allFitAsCards(cols []int) bool {
	tallest := 0
	for _, i := range cols {
		tallest = max(tallest, len(b.ShownIn(i)))
	}
	return tallest+b.lanes() < b.Room && b.fits(b.Widths(), cols[0], cols[len(cols)-1])
}

// named returns the grid with the widest cells that show names. groups has the number of groups in
// each column.
func (b *Board) named(groups []int) (grid, bool) {
	widest := cards.MinNamedCell
	for _, n := range b.Visible() {
		widest = max(widest, min(b.CellWidth(n), graph.MaxCard))
	}
	for w := widest; w >= cards.MinNamedCell; w-- {
		if g, ok := b.grid(groups, w); ok {
			return g, true
		}
	}
	return grid{}, false
}

// grid divides the board into the fewest bands of cells that hold all groups.
func (b *Board) grid(groups []int, cell int) (grid, bool) {
	g := grid{cell: cell, per: max((b.width()-2)/cell, 1)}
	for g.bands = 1; 2*g.bands <= b.Area.H; g.bands++ {
		g.rows = b.Area.H/g.bands - 1
		parts := 0
		for _, n := range groups {
			parts += (n + g.rows - 1) / g.rows
		}
		if parts > g.per*g.bands {
			continue
		}
		if per := (parts + g.bands - 1) / g.bands; cell >= cards.MinNamedCell { // widen the cells
			g.per, g.cell = per, min((b.width()-2)/per, max(cell, graph.MaxCard))
		}
		return g, true
	}
	return g, false
}

// placeGrid places the groups. Free rows of a column show why a group is not ready, and waiting will not help.
func (b *Board) placeGrid(g grid, cols []int) {
	b.ShowsAll, b.LinesOnly = true, true
	at, top, end := 0, 0, 0 // the column in the band, the band's first row and its end
	for _, i := range cols {
		nodes := b.ShownIn(i)
		for first := true; len(nodes) > 0; first = false {
			if at == g.per {
				at, top = 0, end
			}
			x, y := 1+at*g.cell, top
			b.heads = append(b.heads, head{canvas.Rect{X: x, Y: y, W: g.cell - 1, H: 1}, i, first})
			part := nodes[:min(g.rows, len(nodes))]
			free := g.rows - len(part)
			for _, n := range part {
				y++
				took := b.AddCell(n, canvas.Rect{X: x, Y: y, W: g.cell, H: 1}, free)
				y, free = y+took, free-took
			}
			nodes, end = nodes[len(part):], max(end, y+1)
			at++
		}
	}
	b.FinishColumns()
}

// head is the title of a layer in the overview.
type head struct {
	rect  canvas.Rect // in rows of the board
	col   int
	first bool // not a part that continues the layer
}

// countEdges says how many edges lead to the groups of a column, none of which the overview draws.
func (b *Board) countEdges(col int) string {
	n := 0
	for _, d := range b.ShownIn(col) {
		for _, up := range d.Ins {
			if b.Shown(up) {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return text.Count(n, "edge")
}

// drawOverview draws the overview, and marks the dependencies and the dependents of the
// selected group.
func (b *Board) drawOverview() {
	defer b.Canvas.Within(b.Area)()
	for _, h := range b.heads {
		role := theme.Quiet
		if b.columnActive(h.col) {
			role = theme.Strong
		}
		c, title, edges := b.Graph.Cols[h.col], "", ""
		if h.first {
			edges = b.countEdges(h.col)
		}
		for _, t := range []string{strings.TrimPrefix(c.ShortTitle, event.RollbackTitle), c.ShortTitle, b.Join(c.ShortTitle, edges), c.Title, b.Join(c.Title, edges)} {
			if h.rect.W >= cards.MinNamedCell && (title == "" || canvas.Width(t) <= h.rect.W) {
				title = t
			}
		}
		b.Canvas.PutFit(h.rect.X, h.rect.Y+b.Area.Y-b.Top, h.rect.W, role, title)
	}
	b.DrawCells()
	selected := b.Group()
	if selected == nil {
		return
	}
	for _, c := range b.Cards {
		switch {
		case slices.Contains(selected.Ins, c.Node):
			b.Canvas.Put(c.Rect.X-1, c.Rect.Y, theme.Accent, b.Theme.Lines.Less)
		case slices.Contains(selected.Outs, c.Node):
			b.Canvas.Put(c.Rect.X-1, c.Rect.Y, theme.Accent, b.Theme.Lines.More)
		}
	}
}
