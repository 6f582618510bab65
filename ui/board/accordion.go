package board

import (
	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// placeList lays groups out one below the other, for a screen too narrow for
// columns: one line each, and the objects of those that are under way; of others as
// well where there is room.
func (m *model) placeList() {
	nodes := m.visible()
	switch {
	case m.wish == wantsAll:
		m.stackList(nodes, listed)
	case m.wish == wantsLines:
		m.stackList(nodes, lines)
	default:
		for _, d := range []density{listed, foldDone, foldIdle} {
			if d < foldIdle && m.leastRows(nodes, d) > m.lay.board.H {
				continue
			}
			m.lay.cards = m.lay.cards[:0]
			if m.stackList(nodes, d) <= m.lay.board.H {
				break
			}
		}
		m.foldList()
	}
	m.top = max(min(m.top, m.lay.rows-m.lay.board.H), 0)
	for i := range m.lay.cards {
		m.lay.cards[i].r.Y += m.lay.board.Y - m.top
	}
	for i := range m.lay.folds {
		m.lay.folds[i].r.Y += m.lay.board.Y - m.top
	}
}

// foldList makes a line of finished groups where the list is too long, as far as that
// helps; where something has failed, also for what there is to say of that.
func (m *model) foldList() {
	room := m.lay.board.H
	for _, want := range []int{min(m.paneWants(), room/3), 0} {
		if over := m.lay.rows - (room - want); over <= 0 || m.foldUp(colPlace{w: m.w}, 0, 0, over, scarce) {
			break
		}
	}
	if len(m.lay.folds) > 0 {
		m.lay.rows = m.lay.folds[0].r.Y + 1
	}
}

// leastRows is how many rows the list takes at least, told without making them.
func (m *model) leastRows(nodes []*graph.Node, d density) int {
	rows := len(nodes)
	for _, n := range nodes {
		if m.unfolded(n, d) {
			rows += min(len(m.shownObjects(n)), d.rows(m.lay.board.H+m.lay.given+6))
		}
	}
	return rows
}

// stackList places the groups of the list, and returns where they end.
func (m *model) stackList(nodes []*graph.Node, d density) int {
	y := 0
	for _, n := range nodes {
		c := card{n: n, r: canvas.Rect{X: 0, Y: y, W: m.w, H: 1}, flat: true}
		if m.unfolded(n, d) {
			c.rows = m.contents(n, d.rows(m.lay.board.H+m.lay.given+6))
			c.r.H += len(c.rows)
		}
		m.lay.cards = append(m.lay.cards, c)
		y += c.r.H
	}
	m.lay.rows = y
	return y
}

// unfolded reports whether the list shows what is in a group.
func (m *model) unfolded(n *graph.Node, d density) bool {
	switch {
	case d == lines:
		return false
	case n.Status == event.Waiting && m.lay.terse:
		return false
	case d == listed, d < foldIdle && n.Status == event.Waiting:
		return true
	case picture.Active(n), n.Status == event.Failed, n.Status == event.Aborted:
		return true
	case m.filter.on() && !m.filter.whole[n.Unit()]:
		return true
	}
	return m.chosen(n) && !m.follow && n.Status != event.Waiting
}

func (m *model) drawList() {
	restore := m.canvas.Within(m.lay.board)
	defer restore()
	if len(m.lay.cards) == 0 {
		m.drawEmpty()
		return
	}
	name := m.listNames()
	for i := range m.lay.cards {
		c := &m.lay.cards[i]
		if c.r.Y+c.r.H <= m.lay.board.Y || c.r.Y >= m.lay.board.Y+m.lay.board.H {
			continue
		}
		m.drawListHead(c, name)
		for j, r := range c.rows {
			m.drawListRow(c, r, j, c.r.Y+1+j)
		}
	}
	for i := range m.lay.folds {
		m.drawFold(&m.lay.folds[i])
	}
	m.drawScroll()
}

// listNames is how wide the column of names is.
func (m *model) listNames() int {
	w := 12
	for _, n := range m.Graph.Nodes {
		w = max(w, canvas.Width(m.listName(n)))
	}
	return min(w, m.w/2-6)
}

// listName is a group's name with its phase, where the board has a column for
// that.
func (m *model) listName(n *graph.Node) string {
	title, phase := graph.PhaseTitle(n.Phase), m.Graph.Cols[n.Col].Phase
	switch {
	case m.Back(n):
	case phase.Kind == event.PhaseApply:
		return n.Name
	case len(phase.Groups) == 1:
		return title
	}
	if m.Back(n) {
		title = m.Theme.Lines.Undo + " " + title
	}
	return title + " " + m.Theme.Lines.Dot + " " + n.Name
}

func (m *model) drawListHead(c *card, name int) {
	n, cv, y := c.n, m.canvas, c.r.Y
	mark := m.GroupMark(n)
	role := theme.Text
	switch {
	case picture.Active(n), n.Status == event.Failed:
		role = theme.Strong
	case n.Status == event.Waiting, n.Status == event.Skipped:
		role = theme.Quiet
	}
	if m.chosen(n) && m.sel.object == (plan.Object{}) {
		cv.Mark(0, y, m.w-1)
	}
	x := cv.Put(1, y, mark.Role, mark.Glyph+" ")
	if m.broken(n) {
		cv.Put(0, y, theme.Stopped, m.Theme.Lines.Break)
	}
	if m.Next == n.GroupState {
		cv.Put(0, y, theme.Key, m.Theme.Lines.Next)
	}
	cv.PutFit(x, y, name, role, m.listName(n))
	counted := countOf(n)
	x = x + name + 1 + 5
	cv.PutRight(x, y, theme.Quiet, counted)
	x += 7
	if d, over, ok := m.Spent(n); ok && n.Outcome == "" {
		cv.PutRight(x, y, theme.Quiet, canvas.Span(d, over))
	}
	x += 2
	m.canvas.Line(x, y, m.w-2-x, m.listStatus(n, mark))
}

// listStatus is the end of a group's line: its status in words, or what it
// waits for.
func (m *model) listStatus(n *graph.Node, mark theme.Mark) canvas.Line {
	if n.Status == event.Waiting {
		text := ""
		for _, up := range n.Ins {
			if !picture.Passed(up) {
				text += ", " + up.Name
			}
		}
		if text != "" {
			return canvas.Plain(theme.Quiet, "after "+text[2:])
		}
	}
	role := mark.Role
	if role == theme.Good {
		role = theme.Quiet
	}
	return canvas.Plain(role, mark.Word)
}

func (m *model) drawListRow(c *card, r row, i, y int) { m.drawRow(c, r, i, 5, y, m.w-7) }
