package board

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// fold is a line of a column that stands for groups that there is no room for.
type fold struct {
	r     canvas.Rect
	nodes []*graph.Node
}

// placeColumn stacks the cards of a column, as detailed as fits. Where even a line
// for each group does not, those that need looking at least become one line, which
// finished ones do before others lose their objects.
func (m *model) placeColumn(p colPlace, top int) {
	nodes := make([]*graph.Node, 0, len(m.Graph.Cols[p.i].Nodes))
	for _, n := range m.Graph.Cols[p.i].Nodes {
		if m.shown(n) {
			nodes = append(nodes, n)
		}
	}
	switch m.wish {
	case wantsAll:
		m.stack(p, top, nodes, listed)
		return
	case wantsLines:
		m.stack(p, top, nodes, lines)
		return
	}
	room := m.lay.board.H
	from := len(m.lay.cards)
	for d := listed; d < densities; d++ {
		if d == listed && m.listedRows(nodes) > room-top {
			continue // which is told without making the rows of many objects
		}
		m.lay.cards = m.lay.cards[:from]
		end := m.stack(p, top, nodes, d)
		if end <= room || d >= scarce && m.foldUp(p, top, from, end-room, d) {
			return
		}
	}
}

// listedRows is how many rows groups take at least with all their objects.
func (m *model) listedRows(nodes []*graph.Node) int {
	rows := 0
	for _, n := range nodes {
		rows += 2 + len(m.shownObjects(n))
		if n.Single() {
			rows--
		}
	}
	return rows
}

// stack places cards below each other, and returns where they end.
func (m *model) stack(p colPlace, y int, nodes []*graph.Node, d density) int {
	for _, n := range nodes {
		c := card{n: n, r: canvas.Rect{X: p.x, Y: y, W: p.w, H: 1}, flat: d.flat(n)}
		if !c.flat {
			c.rows = m.cardRows(n, d, m.lay.board.H+m.lay.given)
			c.r.H = len(c.rows) + 2
			if len(n.Ins)+len(n.Outs) > 0 {
				c.r.H = max(c.r.H, 3) // edges need a line to end at
			}
		}
		y += c.r.H
		m.lay.cards = append(m.lay.cards, c)
	}
	return y
}

// foldUp takes cards of a column, those from an index on, out of view until it is so
// many rows and the line that stands for them lower: those first that need looking at
// least, but never the selected one. It reports whether that is enough; as long as
// groups can still be made lower it takes finished ones only.
func (m *model) foldUp(p colPlace, top, from, over int, d density) bool {
	own := m.lay.cards[from:]
	order := make([]int, len(own))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { // of those that are alike the last ones go first, but for finished ones
		if ra, rb := rank(own[a].n), rank(own[b].n); ra != rb || own[a].n.Status.Over() {
			return rb - ra
		}
		return b - a
	})
	gone := map[*graph.Node]bool{}
	saved := -1 // for the line
	for _, i := range order {
		if n := own[i].n; saved < over && !m.chosen(n) && (d >= lines || n.Status.Over() && !picture.CutShort(n.Status)) {
			gone[n] = true
			saved += own[i].r.H
		}
	}
	if saved < over {
		return false
	}
	f := fold{}
	y := top
	kept := m.lay.cards[:from]
	for _, c := range slices.Clone(own) {
		if gone[c.n] {
			f.nodes = append(f.nodes, c.n)
			continue
		}
		c.r.Y = y
		y += c.r.H
		kept = append(kept, c)
	}
	f.r = canvas.Rect{X: p.x, Y: y, W: p.w, H: 1}
	m.lay.cards, m.lay.folds = kept, append(m.lay.folds, f)
	return true
}

// drawFold says how many groups a line stands for, and how they are.
func (m *model) drawFold(f *fold) {
	l := m.Theme.Lines
	counts := map[theme.Mark]int{}
	var marks []theme.Mark
	for _, n := range f.nodes {
		mark := m.GroupMark(n)
		if counts[mark] == 0 {
			marks = append(marks, mark)
		}
		counts[mark]++
	}
	text := fmt.Sprintf("%d more", len(f.nodes))
	long, short := text+" "+marks[0].Word, text+" "+marks[0].Glyph
	if len(marks) > 1 {
		var words, glyphs []string
		for _, mark := range marks {
			words = append(words, fmt.Sprintf("%d %s", counts[mark], mark.Word))
			glyphs = append(glyphs, fmt.Sprintf("%d%s", counts[mark], mark.Glyph))
		}
		long, short = text+": "+strings.Join(words, ", "), text+": "+strings.Join(glyphs, " ")
	}
	for _, longer := range []string{short, long} {
		if canvas.Width(longer)+4 <= f.r.W {
			text = longer
		}
	}
	m.canvas.Blank(f.r)
	m.canvas.PutFit(f.r.X+1, f.r.Y, f.r.W-1, theme.Text, text+" "+l.Open)
}

// clickFold shows every group on a line of its own, and goes to the first of those
// that one has stood for.
func (m *model) clickFold(at tea.Mouse) bool {
	for _, f := range m.lay.folds {
		if f.r.Has(at.X, at.Y) {
			m.follow, m.wish = false, wantsLines
			m.selectNode(f.nodes[0])
			return true
		}
	}
	return false
}

// steadyRows is how many rows the board takes with all its groups and all in them,
// whatever is in view, so that the pane stays where it is as the run goes on and the
// selection moves. Only reasons that make a column higher than that move it.
func (m *model) steadyRows() int {
	if m.wish != asFits {
		return m.lay.rows
	}
	if m.accordion() {
		return m.listedRows(m.visible()) - len(m.visible())
	}
	rows := 0
	for _, i := range m.columns() {
		h := m.lanes()
		for _, n := range m.Graph.Cols[i].Nodes {
			if m.shown(n) {
				h += 2 + max(len(m.shownObjects(n)), 1)
				if n.Single() {
					h--
				}
				if n.Status == event.Waiting {
					h += len(n.Ins)
				}
			}
		}
		rows = max(rows, h)
	}
	return rows
}
