package board

import "slices"

// maxTracks is how many edges may run beside each other in a gutter; more
// share the tracks.
const maxTracks = 4

// maxLanes is how many rows edges past columns may take; edges beyond are drawn
// only for the selected group.
const maxLanes = 2

// route gives edges their place: those to the next column run in the gutter
// between, those that go further run along a lane above the cards between.
func (p *plan) route() {
	p.lanes = 0
	var until [maxLanes]int // the column a lane is taken up to
	for _, c := range p.cols {
		for _, n := range c.nodes {
			if end := n.reach(); end > n.col+1 {
				n.lane = freeLane(until[:], n.col+1, end-1)
				p.lanes = max(p.lanes, n.lane+1)
			}
		}
	}
	for i, c := range p.cols {
		c.nets = p.netsOf(i)
		c.gutter = min(len(c.nets), maxTracks) + 2
		if len(c.nets) == 0 {
			c.gutter = 2
		}
	}
}

// reach is the last column that waits for the node.
func (n *node) reach() int {
	end := n.col
	for _, d := range n.outs {
		end = max(end, d.col)
	}
	return end
}

// freeLane takes the first lane that is free from one column to another, -1
// where none is.
func freeLane(until []int, from, to int) int {
	for i, u := range until {
		if u < from {
			until[i] = to
			return i
		}
	}
	return -1
}

// netsOf lists the nodes whose edges use the gutter right of a column: those
// of the column itself, and those that come along a lane and go to the next.
func (p *plan) netsOf(col int) []*node {
	var nets []*node
	for _, n := range p.cols[col].nodes {
		if len(n.outs) > 0 {
			nets = append(nets, n)
		}
	}
	if col+1 < len(p.cols) {
		for _, n := range p.cols[col+1].nodes {
			for _, up := range n.ins {
				if up.col < col && up.lane >= 0 && !slices.Contains(nets, up) {
					nets = append(nets, up)
				}
			}
		}
	}
	return nets
}

// track is the place of a node's edges in the gutter right of a column, from 0.
func (c *column) track(n *node) int {
	i := slices.Index(c.nets, n)
	if i < 0 {
		return 0
	}
	if len(c.nets) <= maxTracks {
		return i
	}
	return i * maxTracks / len(c.nets)
}

// tightGutter is the width of a gutter without air.
func tightGutter(c *column) int { return min(len(c.nets), maxTracks) + 1 }
