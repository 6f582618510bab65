package board

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// chase moves the selection and the view to where the action is.
func (m *model) chase() {
	n := m.action()
	if n == nil {
		return
	}
	to := spot{Unit: n.Unit()}
	if o := picture.Worst(n); o != nil && (n.Status == event.Running || n.Status == event.Failed) {
		to.object = o.Object
	}
	if to != m.sel {
		m.sel = to
		m.reload()
	}
	if m.accordion() || m.tooSmall() {
		return
	}
	first, last := n.Col, n.Col
	for _, other := range m.Graph.Nodes {
		if picture.Active(other) {
			first, last = min(first, other.Col), max(last, other.Col)
		}
	}
	if m.first <= first && m.fits(m.first, last) {
		return
	}
	m.first = first
	if before := m.columnBefore(first); before >= 0 && m.fits(before, last) {
		m.first = before
	}
	m.fill()
}

func (m *model) columnBefore(col int) int {
	before := -1
	for _, i := range m.columns() {
		if i < col {
			before = i
		}
	}
	return before
}

// action is the group to look at: the one that failed while that is held, the
// one that a breakpoint holds, else the first that is under way, else the one that a
// step lets go. The selected one stays while it is one of them.
func (m *model) action() *graph.Node {
	ending := m.Over() || m.State.Run == event.Aborting
	rank := func(n *graph.Node) int {
		switch {
		case n.Status == event.Failed && (m.State.Run == event.Held || ending) && m.Back(n) == m.RollingBack():
			return 5
		case n.Status == event.Aborted && ending && m.Back(n) == m.RollingBack():
			return 4
		case n.Status == event.Held:
			return 3
		case n.Status == event.Running:
			return 2
		case ending:
			return 0
		case n.GroupState == m.Next, n.Status == event.Waiting && m.Back(n) == m.RollingBack() && m.Tally.Groups == 0 && m.Ready(n):
			return 1
		}
		return 0
	}
	best := m.group()
	most := 0
	if best != nil {
		most = rank(best)
	}
	for _, n := range m.Graph.Nodes {
		if r := rank(n); r > most {
			best, most = n, r
		}
	}
	if best == nil {
		best = m.opening()
	}
	return best
}

// opening is the group to look at where no action has led to one, as in a run
// that was over when the screen was opened: the first that failed, else where
// it has come to an end, else the first.
func (m *model) opening() *graph.Node {
	nodes := m.Graph.Nodes
	if len(nodes) == 0 {
		return nil
	}
	for _, status := range []event.Status{event.Failed, event.Aborted} {
		if i := slices.IndexFunc(nodes, func(n *graph.Node) bool { return n.Status == status }); i >= 0 && m.Over() {
			return nodes[i]
		}
	}
	best := nodes[0]
	for _, n := range nodes {
		if m.State.Status == event.Succeeded && n.Col > best.Col {
			best = n
		}
	}
	return best
}
