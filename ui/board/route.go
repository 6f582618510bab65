package board

import "slices"

// maxTracks is how many edges may run beside each other in a gutter. Where
// there are more they would run into each other, and say what is not so: only
// the selected group's are drawn then, on denseTracks that they share.
const (
	maxTracks   = 6
	denseTracks = 3
)

// maxLanes is how many rows edges past columns may take; edges beyond are drawn
// only for the selected group.
const maxLanes = 2

// route gives edges their place: those to the next column run in the gutter
// between, those that go further run along a lane above the cards between.
func (p *graph) route() {
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
		disentangle(c.nets, i)
		c.gutter = c.tracks() + 2
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
func (p *graph) netsOf(col int) []*node {
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
	return i * c.tracks() / len(c.nets)
}

// dense reports whether the gutter right of a column has more edges than can be
// told apart.
func (c *column) dense() bool { return len(c.nets) > maxTracks }

func (c *column) tracks() int {
	if c.dense() {
		return denseTracks
	}
	return len(c.nets)
}

// disentangle orders the edges in the gutter right of a column so that they
// cross less, by swapping neighbours as long as that helps.
func disentangle(nets []*node, col int) {
	for range nets {
		for i := 0; i+1 < len(nets); i++ {
			a, b := stretchOf(nets[i], col), stretchOf(nets[i+1], col)
			if b.crossings(a) < a.crossings(b) {
				nets[i], nets[i+1] = nets[i+1], nets[i]
			}
		}
	}
}

// stretch is where a node's edges begin and end in a gutter, counted in cards
// from the top; lanes are above them.
type stretch struct {
	from int
	ends []int
}

func stretchOf(n *node, col int) stretch {
	s := stretch{from: n.row}
	if n.col < col {
		s.from = -1
	}
	for _, d := range n.outs {
		switch {
		case d.col == col+1:
			s.ends = append(s.ends, d.row)
		case n.col == col && n.lane >= 0:
			s.ends = append(s.ends, -1)
		}
	}
	return s
}

// crosses reports whether a line at a row crosses the upright part of s.
func (s stretch) crosses(row int) bool {
	from, to := s.from, s.from
	for _, e := range s.ends {
		from, to = min(from, e), max(to, e)
	}
	return from < row && row < to
}

// crossings counts how often s and one to its right cross. Edges that lead to
// the same card join.
func (s stretch) crossings(right stretch) int {
	n := 0
	if s.crosses(right.from) {
		n++
	}
	for _, e := range s.ends {
		if right.crosses(e) && !slices.Contains(right.ends, e) {
			n++
		}
	}
	return n
}

// tightGutter is the width of a gutter without air.
func tightGutter(c *column) int { return c.tracks() + 1 }
