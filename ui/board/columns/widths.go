package columns

import (
	"cmp"
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// Widths holds the widths of a board's columns.
type Widths struct {
	Columns []Width // with visible groups
	tight   bool    // cards and gutters have no padding
}

// Width holds the widths of a column's cards and of the gutter to its right.
type Width struct{ Index, Card, gutter int }

// longNames is the limit above graph.MaxCard: columns as wide as names with long kinds need them.
const longNames = graph.MaxCard + 1

// widthsOf returns the least widths of columns that hold all names, up to a limit. Cards narrower than
// graph.MinCard are tight.
func (b *Board) widthsOf(cols []int, limit int) Widths {
	ws := Widths{Columns: make([]Width, 0, len(cols)), tight: limit < graph.MinCard}
	for _, i := range cols {
		ws.Columns = append(ws.Columns, b.columnWidth(i, limit))
	}
	return ws
}

func (b *Board) columnWidth(i, limit int) Width {
	c := b.Graph.Cols[i]
	switch {
	case limit < graph.TightCard: // lines
		return Width{i, min(max(c.NameWidth, thinLine), limit), graph.TightGutter(c)}
	case limit < graph.MinCard:
		return Width{i, min(max(c.ObjectWidth, graph.TightCard), limit), graph.TightGutter(c)}
	}
	names := c.ObjectWidth
	if limit == longNames {
		names = c.LongWidth
	}
	return Width{i, min(max(names, min(c.Width, graph.MinCard)), limit), c.Gutter}
}

// width returns the width of the board.
func (b *Board) width() int { return cmp.Or(b.Area.W, b.W) }

// room returns how many cells are free next to some columns; negative if they do not fit.
func (b *Board) room(cols []int, limit int) int {
	room := b.width() - 2
	for k, i := range cols {
		w := b.columnWidth(i, limit)
		room -= w.Card
		if k < len(cols)-1 {
			room -= w.gutter
		}
	}
	return room
}

// spread distributes free room over the columns, a cell at a time from the left: first for names with short kinds, then for reasons
// in columns that have no rows to wrap them, then for names with long kinds, for what a group waits for, for reasons, in those
// columns first, for all that a group waits for, and last again for reasons.
func (b *Board) spread(ws Widths, room int) {
	crowded := map[*graph.Column]int{}
	for _, w := range ws.Columns {
		if b.crowded(w.Index) {
			crowded[b.Graph.Cols[w.Index]] = graph.WideCard
		}
	}
	for _, most := range []func(*graph.Column) int{
		func(c *graph.Column) int { return c.NameWidth },
		func(c *graph.Column) int { return c.ObjectWidth },
		func(c *graph.Column) int { return min(crowded[c], graph.MaxCard) },
		func(c *graph.Column) int { return c.Width },
		func(c *graph.Column) int { return min(c.WaitsWidth, graph.MaxCard) },
		func(c *graph.Column) int { return crowded[c] },
		func(c *graph.Column) int { return max(c.Width, min(c.Width*3/2, graph.MaxCard)) },
		func(c *graph.Column) int { return c.WaitsWidth },
		func(*graph.Column) int { return graph.WideCard },
	} {
		for was := -1; was != room && room > 0; {
			was = room
			for k := range ws.Columns {
				if w := &ws.Columns[k]; room > 0 && w.Card < most(b.Graph.Cols[w.Index]) {
					w.Card++
					room--
				}
			}
		}
	}
}

// crowded reports whether a column has no rows to wrap the reasons of all its groups.
func (b *Board) crowded(col int) bool {
	need := 0
	for _, n := range b.ShownIn(col) {
		need += b.FullRows(n) + 1
	}
	return need > b.UsualRoom
}

// Widths returns the widest columns that all fit, down to tight ones. If even those do not fit,
// columns are wide enough for names, and the view scrolls. Widths depend only on names and the
// size of the screen, so that nothing moves with the run or the selection.
func (b *Board) Widths() Widths {
	cols := b.columns()
	for limit := longNames; limit >= graph.TightCard; limit-- {
		if room := b.room(cols, limit); room >= 0 {
			ws := b.widthsOf(cols, limit)
			b.spread(ws, room)
			return ws
		}
	}
	if b.width() >= 110 {
		return b.widthsOf(cols, 30)
	}
	return b.widthsOf(cols, 28)
}

// columns returns the indexes of the columns with visible groups.
func (b *Board) columns() []int {
	var out []int
	for i, c := range b.Graph.Cols {
		if slices.ContainsFunc(c.Nodes, b.Shown) {
			out = append(out, i)
		}
	}
	return out
}

// across places columns side by side from x on, starting with the given one. It omits a column that would be
// narrower than the narrowest card.
func (b *Board) across(ws Widths, first, x int) []cards.Column {
	var out []cards.Column
	for _, w := range ws.Columns {
		if w.Index < first {
			continue
		}
		room := min(b.width()-1-x, w.Card)
		cut := room < w.Card
		if cut && room < graph.TightCard {
			break
		}
		out = append(out, cards.Column{Index: w.Index, X: x, W: room, Cut: cut, Prefix: b.prefixIn(w.Index, room)})
		if cut {
			break
		}
		x += w.Card + w.gutter
	}
	return out
}

// prefixIn returns the common prefix of a column's group names if a name and its count do not
// fit a width. The card of a release has its counts below.
func (b *Board) prefixIn(i, w int) string {
	c := b.Graph.Cols[i]
	if len(c.Prefix) < 4 {
		return ""
	}
	for _, n := range c.Nodes {
		count := n.Count()
		if b.State.Operation.IsStack() {
			count = ""
		}
		if canvas.Width(n.Name)+len(count)+8 > w {
			return c.Prefix
		}
	}
	return ""
}

// fits reports whether the columns first to last fit the screen.
func (b *Board) fits(ws Widths, first, last int) bool {
	for _, p := range b.across(ws, first, 1) {
		if p.Index == last {
			return !p.Cut
		}
	}
	return false
}
