package board

import (
	"slices"

	"lockstep/ui/board/graph"
)

const (
	// focusRoom is what is left for the selected column while others could be
	// wider than tight ones; less than leastFocus is not worth moving for.
	focusRoom  = 8
	leastFocus = 4
	mostFocus  = 14
	// narrowest is the least width that a cut column is still drawn with.
	narrowest = 14
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

// set gives every column a width and a gutter.
func (ws *widths) set(p *graph.Graph, card func(c *graph.Column) int, gutter func(c *graph.Column) int) {
	for _, i := range ws.cols {
		ws.card[i], ws.gutter[i] = card(p.Cols[i]), gutter(p.Cols[i])
	}
}

// widths finds the widest columns that let all of them be seen. Where they are
// tight, what room is left is the selected column's: apart from that they
// depend on names and the size of the screen only, so that nothing moves while
// a run goes on. Where even that cannot be, they are so wide that names can be
// read, and the view scrolls.
func (m *model) widths() widths {
	ws := widths{cols: m.columns(), card: make([]int, len(m.Graph.Cols)), gutter: make([]int, len(m.Graph.Cols))}
	airy := func(c *graph.Column) int { return c.Gutter }
	for limit := graph.MaxCard; limit >= graph.MinCard; limit-- {
		ws.set(&m.Graph, func(c *graph.Column) int { return min(c.Width, limit) }, airy)
		if ws.end() < m.w {
			return ws
		}
	}
	ws.tight = true
	for limit := graph.MinCard - 1; limit >= graph.TightCard; limit-- {
		room, card := focusRoom, func(c *graph.Column) int { return min(c.Width, limit) }
		if limit <= graph.MaxTightCard {
			room, card = 0, func(c *graph.Column) int { return min(c.Least, limit) }
		}
		ws.set(&m.Graph, card, graph.TightGutter)
		if ws.end()+room < m.w {
			m.widenSelected(&ws)
			return ws
		}
	}
	ws.tight = false
	limit := 28
	if m.w >= 110 {
		limit = 30
	}
	ws.set(&m.Graph, func(c *graph.Column) int { return min(c.Width, limit) }, airy)
	return ws
}

// widenSelected gives the room that is left to the selected column: as much to
// each that can be, so that what is right of the old and the new one stays.
func (m *model) widenSelected(ws *widths) {
	room := m.w - 1 - ws.end()
	if n := m.group(); n != nil && room >= leastFocus && slices.Contains(ws.cols, n.Col) {
		ws.card[n.Col] += min(room, mostFocus)
	}
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

// across places columns side by side, from the given one on.
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
			if room >= narrowest {
				out = append(out, colPlace{i, x, room, true})
			}
			break
		}
		out = append(out, colPlace{i, x, w, false})
		x += w + ws.gutter[i]
	}
	return out
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
