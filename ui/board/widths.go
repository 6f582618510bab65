package board

import (
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// widths is how wide the columns of a board are, by their index.
type widths struct {
	cols   []int // those that hold something to show
	card   []int
	gutter []int
	tight  bool // cards and gutters are without air
}

// end is where the last column ends.
func (ws *widths) end() int {
	x := 1
	for k, i := range ws.cols {
		x += ws.card[i]
		if k < len(ws.cols)-1 {
			x += ws.gutter[i]
		}
	}
	return x
}

// set gives every column the width it would like to have, up to a limit, and a gutter.
func (ws *widths) set(p *graph.Graph, limit int) {
	for _, i := range ws.cols {
		c := p.Cols[i]
		ws.card[i], ws.gutter[i] = min(c.Width, limit), c.Gutter
		if ws.tight {
			ws.gutter[i] = graph.TightGutter(c)
		}
	}
}

// spread gives room that is left to the columns, a cell each from the left: first to
// those that would like more for their names, then to those that could say more of why
// something is not ready.
func (ws *widths) spread(p *graph.Graph, room int) {
	for _, most := range []func(*graph.Column) int{
		func(c *graph.Column) int { return c.Width },
		func(c *graph.Column) int { return max(c.Width, min(c.Width*3/2, graph.MaxCard)) },
	} {
		for was := -1; was != room && room > 0; {
			was = room
			for _, i := range ws.cols {
				if room > 0 && ws.card[i] < most(p.Cols[i]) {
					ws.card[i]++
					room--
				}
			}
		}
	}
}

// widths finds the widest columns that let all of them be seen, down to tight ones.
// Where even that cannot be, they are so wide that names can be read, and the view
// scrolls. They depend on names and the size of the screen only, so that nothing
// moves while a run goes on, or with the selection.
func (m *model) widths() widths {
	ws := widths{cols: m.columns(), card: make([]int, len(m.Graph.Cols)), gutter: make([]int, len(m.Graph.Cols))}
	for limit := graph.MaxCard; limit >= graph.TightCard; limit-- {
		ws.tight = limit < graph.MinCard
		ws.set(&m.Graph, limit)
		if room := m.w - 1 - ws.end(); room >= 0 {
			ws.spread(&m.Graph, room)
			return ws
		}
	}
	ws.tight = false
	limit := 28
	if m.w >= 110 {
		limit = 30
	}
	ws.set(&m.Graph, limit)
	return ws
}

// columns are the columns that hold something to show.
func (m *model) columns() []int {
	var out []int
	for i, c := range m.Graph.Cols {
		if slices.ContainsFunc(c.Nodes, m.shown) {
			out = append(out, i)
		}
	}
	return out
}

// across places columns side by side, from the given one on. One that would have
// less than the narrowest of cards is not in view.
func (m *model) across(ws widths, first int) []colPlace {
	var out []colPlace
	x := 1
	for _, i := range ws.cols {
		if i < first {
			continue
		}
		w := ws.card[i]
		room := m.w - 1 - x
		if room < w {
			if room >= graph.TightCard {
				out = append(out, colPlace{i, x, room, true, m.prefixIn(i, room)})
			}
			break
		}
		out = append(out, colPlace{i, x, w, false, m.prefixIn(i, w)})
		x += w + ws.gutter[i]
	}
	return out
}

// prefixIn is what the names of a column's groups begin with, where they are too long
// for a width with the count beside them.
func (m *model) prefixIn(i, w int) string {
	c := m.Graph.Cols[i]
	if len(c.Prefix) < 4 {
		return ""
	}
	for _, n := range c.Nodes {
		if canvas.Width(n.Name)+len(countOf(n))+8 > w {
			return c.Prefix
		}
	}
	return ""
}

// fits reports whether columns first to last are in view as a whole.
func (m *model) fits(first, last int) bool {
	for _, p := range m.across(m.widths(), first) {
		if p.i == last {
			return !p.cut
		}
	}
	return false
}
