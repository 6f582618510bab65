package columns

import (
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
)

// Widths holds the widths of a board's columns, by index.
type Widths struct {
	cols   []int // the columns with visible groups
	Card   []int
	gutter []int
	tight  bool // no padding in cards and gutters
}

// end returns the x after the last column.
func (ws *Widths) end() int {
	x := 1
	for k, i := range ws.cols {
		x += ws.Card[i]
		if k < len(ws.cols)-1 {
			x += ws.gutter[i]
		}
	}
	return x
}

// set gives every column its preferred width, up to a limit, and a gutter.
func (ws *Widths) set(p *graph.Graph, limit int) {
	for _, i := range ws.cols {
		c := p.Cols[i]
		ws.Card[i], ws.gutter[i] = min(c.Width, limit), c.Gutter
		if ws.tight {
			ws.gutter[i] = graph.TightGutter(c)
		}
	}
}

// spread distributes free room over the columns, a cell at a time from the left: first
// for names, then for reasons.
func (ws *Widths) spread(p *graph.Graph, room int) {
	for _, most := range []func(*graph.Column) int{
		func(c *graph.Column) int { return c.Width },
		func(c *graph.Column) int { return max(c.Width, min(c.Width*3/2, graph.MaxCard)) },
	} {
		for was := -1; was != room && room > 0; {
			was = room
			for _, i := range ws.cols {
				if room > 0 && ws.Card[i] < most(p.Cols[i]) {
					ws.Card[i]++
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
	ws := Widths{cols: b.columns(), Card: make([]int, len(b.Graph.Cols)), gutter: make([]int, len(b.Graph.Cols))}
	for limit := graph.MaxCard; limit >= graph.TightCard; limit-- {
		ws.tight = limit < graph.MinCard
		ws.set(&b.Graph, limit)
		if room := b.W - 1 - ws.end(); room >= 0 {
			ws.spread(&b.Graph, room)
			return ws
		}
	}
	ws.tight = false
	limit := 28
	if b.W >= 110 {
		limit = 30
	}
	ws.set(&b.Graph, limit)
	return ws
}

// columns returns the columns with visible groups.
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
	for _, i := range ws.cols {
		if i < first {
			continue
		}
		w := ws.Card[i]
		room := b.W - 1 - x
		if room < w {
			if room >= graph.TightCard {
				out = append(out, cards.Column{Index: i, X: x, W: room, Cut: true, Prefix: b.prefixIn(i, room)})
			}
			break
		}
		out = append(out, cards.Column{Index: i, X: x, W: w, Prefix: b.prefixIn(i, w)})
		x += w + ws.gutter[i]
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
