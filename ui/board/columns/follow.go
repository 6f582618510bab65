package columns

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Chase moves the selection and the view to where the action is.
func (b *Board) Chase() {
	n := b.action()
	if n == nil {
		return
	}
	to := screen.Spot{Unit: n.Unit()}
	if o := picture.Worst(n); o != nil && (n.Status == event.Running || n.Status == event.Failed) {
		to.Object = o.Object
	}
	if to != b.Sel {
		b.Sel = to
	}
	if b.Narrow() || b.TooSmall() {
		return
	}
	first, last := n.Col, n.Col
	for _, other := range b.Graph.Nodes {
		if picture.Active(other) {
			first, last = min(first, other.Col), max(last, other.Col)
		}
	}
	if b.First <= first && b.fits(b.First, last) {
		return
	}
	b.First = first
	if before := b.columnBefore(first); before >= 0 && b.fits(before, last) {
		b.First = before
	}
	b.fill()
}

func (b *Board) columnBefore(col int) int {
	before := -1
	for _, i := range b.columns() {
		if i < col {
			before = i
		}
	}
	return before
}

// action is the group to look at: the one that failed while that is held, the
// one that a breakpoint holds, else the first that is running, else the one that a
// step lets go. The selected one stays while it is one of them.
func (b *Board) action() *graph.Node {
	ending := b.Over() || b.State.Run == event.Aborting
	urgency := func(n *graph.Node) int {
		switch {
		case n.Status == event.Failed && (b.State.Run == event.Held || ending) && b.Back(n) == b.RollingBack():
			return 5
		case n.Status == event.Aborted && ending && b.Back(n) == b.RollingBack():
			return 4
		case n.Status == event.Held:
			return 3
		case n.Status == event.Running:
			return 2
		case ending:
			return 0
		case n.GroupState == b.Next, n.Status == event.Waiting && b.Back(n) == b.RollingBack() && b.Tally.Groups == 0 && b.Ready(n):
			return 1
		}
		return 0
	}
	best := b.Group()
	most := 0
	if best != nil && !b.Shown(best) {
		best = nil
	}
	if best != nil {
		most = urgency(best)
	}
	for _, n := range b.Visible() {
		if r := urgency(n); r > most {
			best, most = n, r
		}
	}
	if best == nil {
		best = b.opening()
	}
	return best
}

// opening is the group to look at where no action has led to one, as in a run
// that was over when the screen was opened: the first that failed, else where
// it has come to an end, else the first.
func (b *Board) opening() *graph.Node {
	nodes := b.Visible()
	if len(nodes) == 0 {
		return nil
	}
	for _, status := range []event.Status{event.Failed, event.Aborted} {
		if i := slices.IndexFunc(nodes, func(n *graph.Node) bool { return n.Status == status }); i >= 0 && b.Over() {
			return nodes[i]
		}
	}
	best := nodes[0]
	for _, n := range nodes {
		if b.State.Status == event.Succeeded && n.Col > best.Col {
			best = n
		}
	}
	return best
}
