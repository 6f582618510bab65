package graph

import (
	"fmt"
	"slices"
)

// maxTracks is the maximum number of lines side by side in a gutter.
const maxTracks = 8

// Net is the edges from nodes of a column to the same nodes; they share a line.
type Net struct {
	From []*Node
	cols []int // with nodes at the other end, the last one last
}

// route joins the edges to nets, and counts the lines in the gutters.
func (g *Graph) route() {
	for i, c := range g.Cols {
		known := map[string]int{} // indexes of nets
		for _, n := range c.Nodes {
			if len(n.Outs) == 0 {
				continue
			}
			key := ""
			for _, d := range n.Outs {
				key += fmt.Sprint(d.index, " ")
			}
			at, ok := known[key]
			if !ok {
				at = len(g.Nets)
				known[key] = at
				g.Nets = append(g.Nets, &Net{cols: columns(n.Outs)})
			}
			g.Nets[at].From = append(g.Nets[at].From, n)
		}
		c.leaving = len(known)
		for _, net := range g.Nets[len(g.Nets)-len(known):] {
			for _, col := range net.cols {
				g.Cols[col].entering++
				if col > i+1 {
					g.Cols[col].dropping++
				}
			}
		}
	}
	for i, c := range g.Cols {
		c.tracks = c.leaving
		if i+1 < len(g.Cols) {
			c.tracks += g.Cols[i+1].dropping
		}
		c.tracks = min(c.tracks, maxTracks)
		c.Gutter = c.tracks + 2
	}
	g.Lanes = g.LanesOf(0, len(g.Cols)-1)
}

// columns returns the columns of nodes in order.
func columns(nodes []*Node) (out []int) {
	for _, d := range nodes {
		if !slices.Contains(out, d.Col) {
			out = append(out, d.Col)
		}
	}
	slices.Sort(out)
	return out
}

// TightGutter returns the width of the gutter right of a column between tight cards.
func TightGutter(c *Column) int { return c.tracks + 1 }

// LeftMargin returns the cells for edges left of columns that begin below others; RightMargin those right of a column
// that ends a band.
func (g *Graph) LeftMargin(first, last int) int {
	passing := 0
	for _, n := range g.Nets {
		switch {
		case n.From[0].Col >= first: // they are sorted by column
			return min(g.Cols[first].entering+passing, maxTracks)
		case n.cols[len(n.cols)-1] > last:
			passing++
		}
	}
	return min(g.Cols[first].entering+passing, maxTracks)
}

func RightMargin(c *Column) int { return min(c.leaving, maxTracks) }

// LanesOf returns how many rows the edges take that skip columns, if the columns from first to last are side by side and
// those before first above them.
func (g *Graph) LanesOf(first, last int) int {
	var until []int // the last gutter that a lane is taken in
	for _, n := range g.Nets {
		from, to := n.From[0].Col, -1
		for _, col := range n.cols {
			switch {
			case from >= first && col > from+1 && col <= last, from < first && col >= first && col <= last:
				to = max(to, col-1)
			case from < first && col > last: // passes on the left
				to = max(to, first)
			}
		}
		if to < 0 {
			continue
		}
		if from < first { // it may come from anywhere above
			from, to = -1, last
		}
		i := slices.IndexFunc(until, func(u int) bool { return u < from })
		if i < 0 {
			i, until = len(until), append(until, 0)
		}
		until[i] = to
	}
	return len(until)
}
