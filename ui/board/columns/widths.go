package columns

import (
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// Widths holds the widths of a board's columns.
type Widths struct {
	Columns []Width // with visible groups
	tight   bool    // no padding in cards and gutters
}

// Width holds the widths of a column's cards and of the gutter behind it.
type Width struct{ Index, Card, gutter int }

// widthsOf gives columns their preferred widths, up to a limit, and gutters. Cards below
// graph.MinCard are tight.
func (b *Board) widthsOf(cols []int, limit int, tight bool) Widths {
	ws := Widths{tight: tight}
	for _, i := range cols {
		c := b.Graph.Cols[i]
		w := Width{i, min(c.Width, limit), c.Gutter}
		if tight {
			w.gutter = graph.TightGutter(c)
		}
		ws.Columns = append(ws.Columns, w)
	}
	return ws
}

// room returns how many cells are free behind the last column; negative if some lack.
func (b *Board) room(ws Widths) int {
	x := 1
	for k, w := range ws.Columns {
		x += w.Card
		if k < len(ws.Columns)-1 {
			x += w.gutter
		}
	}
	return b.W - 1 - x
}

// spread distributes free room over the columns, a cell at a time from the left: first
// for names, then for reasons.
func (b *Board) spread(ws Widths) {
	room := b.room(ws)
	for _, most := range []func(*graph.Column) int{
		func(c *graph.Column) int { return c.Width },
		func(c *graph.Column) int { return max(c.Width, min(c.Width*3/2, graph.MaxCard)) },
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

// Widths finds the widest columns that all fit, down to tight ones. If even those do not
// fit, the columns are wide enough for names, and the view scrolls. Widths depend on
// names and the screen's size only, so that nothing moves with the run or the selection.
func (b *Board) Widths() Widths {
	cols := b.columns()
	for limit := graph.MaxCard; limit >= graph.TightCard; limit-- {
		if ws := b.widthsOf(cols, limit, limit < graph.MinCard); b.room(ws) >= 0 {
			b.spread(ws)
			return ws
		}
	}
	if b.W >= 110 {
		return b.widthsOf(cols, 30, false)
	}
	return b.widthsOf(cols, 28, false)
}

func (b *Board) columns() []int {
	var out []int
	for i, c := range b.Graph.Cols {
		if slices.ContainsFunc(c.Nodes, b.Shown) {
			out = append(out, i)
		}
	}
	return out
}

// across places columns side by side, from the given one on. It omits one that would be
// narrower than the narrowest card.
func (b *Board) across(ws Widths, first int) []cards.Column {
	var out []cards.Column
	x := 1
	for _, w := range ws.Columns {
		if w.Index < first {
			continue
		}
		room := min(b.W-1-x, w.Card)
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
// fit a width.
func (b *Board) prefixIn(i, w int) string {
	c := b.Graph.Cols[i]
	if len(c.Prefix) < 4 {
		return ""
	}
	for _, n := range c.Nodes {
		if canvas.Width(n.Name)+len(n.Count())+8 > w {
			return c.Prefix
		}
	}
	return ""
}

// fits reports whether the columns first to last fit the screen.
func (b *Board) fits(first, last int) bool {
	for _, p := range b.across(b.Widths(), first) {
		if p.Index == last {
			return !p.Cut
		}
	}
	return false
}
