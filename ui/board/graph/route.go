package graph

import "slices"

// maxTracks is the maximum number of parallel edges in a gutter. More would be indistinguishable:
// then only the selected group's edges are drawn, on denseTracks shared tracks.
const (
	maxTracks   = 6
	denseTracks = 3
)

// maxLanes is the maximum number of rows for edges that skip columns. Edges without a lane are
// drawn only for the selected group.
const maxLanes = 2

// route places the edges: those to the next column in the gutter between them, longer ones in a
// lane above the cards.
func (g *Graph) route() {
	var until [maxLanes]int // the last column that a lane is taken in
	for _, c := range g.Cols {
		for _, n := range c.Nodes {
			if end := n.reach(); end > n.Col+1 {
				n.Lane = takeLane(until[:], n.Col+1, end-1)
				g.Lanes = max(g.Lanes, n.Lane+1)
			}
		}
	}
	for i, c := range g.Cols {
		c.Sources = g.gutterSources(i)
		disentangle(c.Sources, i)
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

// takeLane takes the first lane that is free from one column to another; -1 if there is none.
func takeLane(until []int, from, to int) int {
	i := slices.IndexFunc(until, func(u int) bool { return u < from })
	if i >= 0 {
		until[i] = to
	}
	return i
}

// gutterSources lists the nodes whose edges use the gutter right of a column: the column's own
// nodes, and those whose lane ends in the next column.
func (g *Graph) gutterSources(col int) []*Node {
	var sources []*Node
	for _, n := range g.Cols[col].Nodes {
		if len(n.Outs) > 0 {
			sources = append(sources, n)
		}
	}
	if col+1 < len(g.Cols) {
		for _, n := range g.Cols[col+1].Nodes {
			for _, up := range n.Ins {
				if up.Col < col && up.Lane >= 0 && !slices.Contains(sources, up) {
					sources = append(sources, up)
				}
			}
		}
	}
	return sources
}

// Track returns the place of a node's edges in the gutter right of a column, from 0.
func (c *Column) Track(n *Node) int {
	return max(slices.Index(c.Sources, n), 0) * c.tracks() / max(len(c.Sources), 1)
}

// Dense reports whether the gutter right of a column has more than maxTracks edges.
func (c *Column) Dense() bool { return len(c.Sources) > maxTracks }

func (c *Column) tracks() int {
	if c.Dense() {
		return denseTracks
	}
	return len(c.Sources)
}

// disentangle reorders the edges in the gutter right of a column: it swaps neighbours as long as
// that reduces crossings.
func disentangle(sources []*Node, col int) {
	for range sources {
		for i := 0; i+1 < len(sources); i++ {
			a, b := newStretch(sources[i], col), newStretch(sources[i+1], col)
			if b.crossings(a) < a.crossings(b) {
				sources[i], sources[i+1] = sources[i+1], sources[i]
			}
		}
	}
}

// stretch holds the rows where a node's edges start and end in a gutter, counted in cards from the
// top; -1 is a lane.
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

// TightGutter returns the width of the gutter right of a column between tight cards.
func TightGutter(c *Column) int { return c.tracks() + 1 }
