package columns

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// FollowRun moves the selection and the view to the most urgent group.
func (b *Board) FollowRun() {
	n := b.groupToFollow()
	if n == nil {
		return
	}
	to := screen.Spot{Unit: n.Unit()}
	if o := picture.Worst(n); o != nil && (n.Status == event.Running || n.Status == event.Failed || n.Degraded > 0) {
		to.Object = o.Object
	}
	b.Sel = to
	if b.Narrow() || b.TooSmall() {
		return
	}
	first, last := n.Col, n.Col
	for _, other := range b.Graph.Nodes {
		if picture.Active(other) {
			first, last = min(first, other.Col), max(last, other.Col)
		}
	}
	ws := b.Widths()
	if b.First <= first && b.fits(ws, b.First, last) {
		return
	}
	b.First = first
	for _, i := range slices.Backward(b.columns()) {
		if i < first {
			if b.fits(ws, i, last) {
				b.First = i
			}
			break
		}
	}
	b.fill(ws)
}

// groupToFollow returns the most urgent group: a failed or an aborted one if the run is held or ending,
// else one at a breakpoint, a running one, a failed one, or the next one to start. The selected group wins a tie, then
// plan order decides.
func (b *Board) groupToFollow() *graph.Node {
	ending := b.Over() || b.State.Run == event.Aborting
	priority := func(n *graph.Node) int {
		switch {
		case b.Observed != nil && n.Degraded > 0: // since the end
			return 10
		case n.Status == event.Failed && (b.State.Run == event.Held || ending) && b.IsCurrent(n):
			return 9 - n.Vagueness()
		case n.Status == event.Aborted && ending && b.IsCurrent(n):
			return 6
		case n.Status == event.AtBreakpoint:
			return 5
		case n.Status == event.Running:
			return 4
		case ending:
			return 0
		case n.Status == event.Failed && b.IsCurrent(n) && !b.Steers: // a release whose run is elsewhere, or was killed
			return 3
		case n.GroupState == b.Next:
			return 2
		case n.Status == event.Waiting && b.IsCurrent(n) && b.Tally.Groups == 0 && b.Unblocked(n):
			return 1
		}
		return 0
	}
	best, most := b.Group(), 0
	if best != nil && b.Shown(best) {
		most = priority(best)
	} else {
		best = nil
	}
	for _, n := range b.Visible() {
		if r := priority(n); r > most {
			best, most = n, r
		}
	}
	if best == nil {
		best = b.initialGroup()
	}
	return best
}

// initialGroup returns the group to select if none is urgent, for instance in a finished run: the
// first failed or else aborted one, else the first of the last column after a success, else the first.
func (b *Board) initialGroup() *graph.Node {
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
