package graph

import "slices"

// maxTracks is the maximum number of parallel edges in a gutter. More could not be told
// apart: then only the selected group's are drawn, on denseTracks shared tracks.
const (
	maxTracks   = 6
	denseTracks = 3
)

// maxLanes is the maximum number of rows for edges that skip columns; further edges are
// drawn only for the selected group.
const maxLanes = 2

// route places the edges: those to the next column in the gutter between, longer ones in
// a lane above the cards.
func (p *Graph) route() {
	var until [maxLanes]int // the last column that a lane is taken in
	for _, c := range p.Cols {
		for _, n := range c.Nodes {
			if end := n.reach(); end > n.Col+1 {
				n.Lane = freeLane(until[:], n.Col+1, end-1)
				p.Lanes = max(p.Lanes, n.Lane+1)
			}
		}
	}
	for i, c := range p.Cols {
		c.Nets = p.gutterNets(i)
		disentangle(c.Nets, i)
		c.Gutter = c.tracks() + 2
	}
}

// reach returns the last column that waits for the node.
func (n *Node) reach() int {
	end := n.Col
	for _, d := range n.Outs {
		end = max(end, d.Col)
	}
	return end
}

// freeLane takes the first lane that is free from one column to another; -1 if there is
// none.
func freeLane(until []int, from, to int) int {
	i := slices.IndexFunc(until, func(u int) bool { return u < from })
	if i >= 0 {
		until[i] = to
	}
	return i
}

// gutterNets lists the nodes whose edges use the gutter right of a column: its own, and those
// that arrive on a lane and end in the next column.
func (p *Graph) gutterNets(col int) []*Node {
	var nets []*Node
	for _, n := range p.Cols[col].Nodes {
		if len(n.Outs) > 0 {
			nets = append(nets, n)
		}
	}
	if col+1 < len(p.Cols) {
		for _, n := range p.Cols[col+1].Nodes {
			for _, up := range n.Ins {
				if up.Col < col && up.Lane >= 0 && !slices.Contains(nets, up) {
					nets = append(nets, up)
				}
			}
		}
	}
	return nets
}

// Track returns the place of a node's edges in the gutter right of a column, from 0.
func (c *Column) Track(n *Node) int {
	return max(slices.Index(c.Nets, n), 0) * c.tracks() / max(len(c.Nets), 1)
}

// Dense reports whether the gutter right of a column has more than maxTracks edges.
func (c *Column) Dense() bool { return len(c.Nets) > maxTracks }

func (c *Column) tracks() int {
	if c.Dense() {
		return denseTracks
	}
	return len(c.Nets)
}

// disentangle orders the edges in the gutter right of a column so that they
// cross less, by swapping neighbours as long as that helps.
func disentangle(nets []*Node, col int) {
	for range nets {
		for i := 0; i+1 < len(nets); i++ {
			a, b := newStretch(nets[i], col), newStretch(nets[i+1], col)
			if b.crossings(a) < a.crossings(b) {
				nets[i], nets[i+1] = nets[i+1], nets[i]
			}
		}
	}
}

// stretch is the rows where a node's edges start and end in a gutter, counted in cards
// from the top; -1 is a lane.
type stretch struct {
	from int
	ends []int
}

func newStretch(n *Node, col int) stretch {
	s := stretch{from: n.Row}
	if n.Col < col {
		s.from = -1
	}
	for _, d := range n.Outs {
		switch {
		case d.Col == col+1:
			s.ends = append(s.ends, d.Row)
		case n.Col == col && n.Lane >= 0:
			s.ends = append(s.ends, -1)
		}
	}
	return s
}

// crosses reports whether a line at a row crosses the vertical part of s.
func (s stretch) crosses(row int) bool {
	from, to := s.from, s.from
	for _, e := range s.ends {
		from, to = min(from, e), max(to, e)
	}
	return from < row && row < to
}

// crossings counts how often s and a stretch to its right cross. Edges to the same card
// join instead.
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

func TightGutter(c *Column) int { return c.tracks() + 1 }
