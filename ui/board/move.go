package board

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// selectNode selects a group and brings it into view.
func (m *model) selectNode(n *graph.Node) {
	m.sel = spot{Unit: n.Unit()}
	m.reload()
	m.show()
}

func (m *model) selectObject(n *graph.Node, o plan.Object) {
	m.sel = spot{n.Unit(), o}
	m.reload()
	m.show()
}

// stops are the lines of a column, or of the list, that the selection can be
// on, from top to bottom, and groups that are folded: each in its turn.
func (m *model) stops(col int) []spot {
	rows := map[*graph.Node][]row{}
	for i := range m.lay.cards {
		rows[m.lay.cards[i].n] = m.lay.cards[i].rows
	}
	nodes := m.visible()
	if !m.accordion() {
		nodes = m.Graph.Cols[col].Nodes
	}
	var out []spot
	for _, n := range nodes {
		if !m.shown(n) {
			continue
		}
		out = append(out, spot{Unit: n.Unit()})
		for _, r := range rows[n] {
			if r.kind == objectRow {
				out = append(out, spot{n.Unit(), r.o.Object})
			}
		}
	}
	return out
}

// move goes a line up or down.
func (m *model) move(by int) tea.Cmd {
	m.follow = false
	n := m.group()
	if n == nil {
		return m.moveGroup(by)
	}
	m.show()
	stops := m.stops(n.Col)
	at := slices.Index(stops, m.sel)
	if at < 0 { // the object has no line of its own
		at = slices.Index(stops, spot{Unit: m.sel.Unit})
	}
	if to := at + by; at >= 0 && to >= 0 && to < len(stops) {
		m.sel = stops[to]
		m.reload()
	}
	m.show()
	return nil
}

// moveColumn goes to the group of a neighbouring column that stands nearest.
// The list has one column: there it goes from group to group.
func (m *model) moveColumn(by int) tea.Cmd {
	m.follow = false
	n := m.group()
	if n == nil || m.accordion() {
		return m.moveGroup(by)
	}
	cols := m.columns()
	at := slices.Index(cols, n.Col) + by
	if at < 0 || at >= len(cols) {
		return nil
	}
	from, _ := m.extent(n)
	col := cols[at]
	m.showColumn(col)
	m.place()
	var best *graph.Node
	near := 0
	for i := range m.lay.cards {
		c := &m.lay.cards[i]
		if c.n.Col != col {
			continue
		}
		off := c.r.Y - (m.lay.board.Y - m.top) - from
		if off = max(off, -off); best == nil || off < near {
			best, near = c.n, off
		}
	}
	if best != nil {
		m.selectNode(best)
	}
	return nil
}

// visible are the groups on the board, in plan order.
func (m *model) visible() []*graph.Node {
	var out []*graph.Node
	for _, n := range m.Graph.Nodes {
		if m.shown(n) {
			out = append(out, n)
		}
	}
	return out
}

// moveGroup goes to the next or the previous group in plan order.
func (m *model) moveGroup(by int) tea.Cmd {
	m.follow = false
	nodes := m.visible()
	if len(nodes) == 0 {
		return nil
	}
	at := slices.Index(nodes, m.group())
	m.selectNode(nodes[(at+by+len(nodes))%len(nodes)])
	return nil
}

// moveEnd goes to the first or the last group.
func (m *model) moveEnd(last bool) tea.Cmd {
	m.follow = false
	nodes := m.visible()
	if len(nodes) == 0 {
		return nil
	}
	n := nodes[0]
	if last {
		n = nodes[len(nodes)-1]
	}
	m.selectNode(n)
	return nil
}

// page goes up or down by what the board holds.
func (m *model) page(by int) tea.Cmd {
	for range max(m.lay.board.H-2, 1) {
		m.move(by)
	}
	return nil
}

// problems are what needs looking at: what failed, and what is under way and
// waited for, each in plan order.
func (m *model) problems() (failed, blocking []spot) {
	for _, n := range m.visible() {
		if n.Status != event.Failed && n.Status != event.Running && n.Status != event.Held && n.Status != event.Applied {
			continue
		}
		found := false
		for _, o := range n.Objects {
			switch {
			case o.Status == event.Failed, picture.Urgency(o) == 1 && n.Status == event.Failed:
				failed = append(failed, spot{n.Unit(), o.Object})
				found = true
			case picture.Urgency(o) == 1 && n.Status == event.Running:
				blocking = append(blocking, spot{n.Unit(), o.Object})
				found = true
			}
		}
		switch {
		case found:
		case n.Status == event.Failed:
			failed = append(failed, spot{Unit: n.Unit()})
		case n.Status == event.Held:
			blocking = append(blocking, spot{Unit: n.Unit()})
		}
	}
	return failed, blocking
}

// anyProblem reports whether there is something for nextProblem to find.
func (m *model) anyProblem() bool {
	failed, blocking := m.problems()
	return len(failed)+len(blocking) > 0
}

// nextProblem goes to the next of the problems after the selected one: to what
// failed before anything that may still come.
func (m *model) nextProblem() tea.Cmd {
	failed, blocking := m.problems()
	list := append(failed, blocking...)
	if len(list) == 0 {
		return m.say(theme.Quiet, "nothing is failing or blocking")
	}
	m.follow = false
	at := slices.Index(list, m.sel)
	if at >= len(failed) && len(failed) > 0 {
		at = -1
	}
	s := list[(at+1)%len(list)]
	m.selectObject(m.Graph.ByKey[s.Unit], s.object)
	return nil
}

// click selects what is under the mouse; on what is selected already it opens
// the inspector.
func (m *model) click(at tea.Mouse) tea.Cmd {
	if at.Button != tea.MouseLeft || m.asks() || m.pager != nil || m.tooSmall() {
		return nil
	}
	if cmd, ok := m.clickTimeline(at); ok {
		return cmd
	}
	if m.insp != nil && m.lay.pane.Has(at.X, at.Y) {
		return m.clickTab(at)
	}
	if m.clickStrip(at) || m.clickFold(at) || !m.lay.board.Has(at.X, at.Y) {
		return nil
	}
	for i := range m.lay.cards {
		c := &m.lay.cards[i]
		if !c.r.Has(at.X, at.Y) {
			continue
		}
		to := spot{Unit: c.n.Unit()}
		line := at.Y - c.r.Y - 1
		if line >= 0 && line < len(c.rows) && c.rows[line].o != nil {
			to.object = c.rows[line].o.Object
		}
		if to == m.sel && m.insp == nil {
			return m.inspect()
		}
		m.follow = false
		m.sel = to
		m.reload()
		m.stale = true
		return nil
	}
	return nil
}

// wheel scrolls what is under the mouse.
func (m *model) wheel(at tea.Mouse) {
	by := 0
	switch at.Button {
	case tea.MouseWheelUp:
		by = -3
	case tea.MouseWheelDown:
		by = 3
	case tea.MouseWheelLeft:
		m.scrollColumns(-1)
	case tea.MouseWheelRight:
		m.scrollColumns(1)
	}
	switch {
	case by == 0 || m.asks() || m.tooSmall():
	case m.pager != nil:
		m.pager.scroll(by)
	case m.insp != nil && m.lay.pane.Has(at.X, at.Y):
		m.insp.Scroll(by)
	case at.Mod.Contains(tea.ModShift):
		m.scrollColumns(by / 3)
	default:
		m.follow = false
		m.top = max(m.top+by, 0)
	}
}

// scrollColumns moves the view sideways and leaves the selection where it is.
func (m *model) scrollColumns(by int) {
	cols := m.columns()
	at := slices.IndexFunc(cols, func(i int) bool { return i >= m.first }) + by
	if at < 0 || at >= len(cols) || m.accordion() {
		return
	}
	if last := cols[len(cols)-1]; by > 0 && m.fits(m.first, last) {
		return
	}
	m.follow = false
	m.first = cols[at]
}
