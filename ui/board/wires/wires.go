// Package wires routes the edges between cards: every line of a net runs in tracks between the columns and in
// lanes above them. Its central type is Plan. It knows no groups and draws nothing. Only package columns imports it.
package wires

import (
	"cmp"
	"fmt"
	"slices"

	"lockstep/theme"
)

// Plan is what has to be connected. Bands are parts of the board below each other.
type Plan struct {
	Bands []Band
	Ends  []End // sorted by band, column and row
	Edges []Edge
}

// Band is a row of columns.
type Band struct {
	Gutters     []Gutter // the margin left of the first column, then the space right of each column
	Lane, Lanes int      // the first row for lines to other columns, and how many there are
}

// Gutter is the cells of a row in which lines can turn, To excluded.
type Gutter struct{ From, To int }

// End is where edges start and end: a card, or a line that stands for several groups.
type End struct {
	Band, Column int
	Row          int
	In, Out      int // the cell of the arrow head, and the first cell right of the card
}

// Edge is a dependency between two ends; a bold one is drawn over the others.
type Edge struct {
	From, To int
	Bold     bool
}

// Cell is the arms of the lines in a cell; Bold are those of bold edges.
type Cell struct{ Arms, Bold byte }

// Routed is the lines on a grid of cells, and which edges have none because there is no room for it.
type Routed struct {
	Cells   []Cell
	w, h    int
	Missing []bool // by edge
}

// net is the edges between ends that are all connected: each source with each target. Its sources are in one column.
type net struct {
	from, to []int
	bold     bool
	own      *riser           // right of its sources
	drops    map[place]*riser // left of targets that are further away
	passes   map[int]*riser   // left of the bands that it passes
	lanes    map[int]*lane    // by band
}

type place struct{ band, column int }

// riser is a vertical line of a net in a gutter.
type riser struct {
	net      *net
	stems    []int // rows of its sources
	exits    []int // rows of its targets
	up, down bool  // continues above or below the band
	x        int
	lost     bool // there is no room for it
}

// lane is a horizontal line of a net above a band.
type lane struct {
	above, below []int // where lines come from above, and from below
	row          int
	lost         bool
}

// Route connects as many edges as it can on a screen of w by h cells.
func (p *Plan) Route(w, h int) *Routed { return p.route(w, h, func(int) bool { return true }) }

// route is Route, but draws only some edges.
func (p *Plan) route(w, h int, draws func(edge int) bool) *Routed {
	nets := p.nets()
	gutters := map[place][]*riser{}
	for _, n := range nets {
		p.addRisers(n, gutters)
	}
	for k, b := range p.Bands {
		for i, g := range b.Gutters {
			assignTracks(gutters[place{k, i}], g)
		}
	}
	for k := range p.Bands {
		p.assignLanes(k, nets)
	}
	out := &Routed{Cells: make([]Cell, w*h), w: w, h: h, Missing: make([]bool, len(p.Edges))}
	of := make([]*net, len(p.Ends)) // by source
	for _, n := range nets {
		for _, i := range n.from {
			of[i] = n
		}
	}
	for i, e := range p.Edges {
		path := p.path(of[e.From], e)
		if out.Missing[i] = path == nil; path != nil && draws(i) {
			out.draw(path, e.Bold)
		}
	}
	return out
}

// nets joins the edges: sources of a column with the same targets share their lines.
func (p *Plan) nets() (nets []*net) {
	targets, bold := make([][]int, len(p.Ends)), make([]bool, len(p.Ends))
	for _, e := range p.Edges {
		targets[e.From] = append(targets[e.From], e.To)
		bold[e.From] = bold[e.From] || e.Bold
	}
	known := map[string]*net{}
	for i, to := range targets {
		if len(to) == 0 {
			continue
		}
		slices.Sort(to)
		key := fmt.Sprint(p.Ends[i].Band, p.Ends[i].Column, to)
		n := known[key]
		if n == nil {
			n = &net{to: to, drops: map[place]*riser{}, passes: map[int]*riser{}, lanes: map[int]*lane{}}
			nets, known[key] = append(nets, n), n
		}
		n.from = append(n.from, i)
		n.bold = n.bold || bold[i]
	}
	return nets
}

// addRisers adds the vertical lines of a net to the gutters.
func (p *Plan) addRisers(n *net, gutters map[place][]*riser) {
	add := func(at place, r *riser) *riser {
		gutters[at] = append(gutters[at], r)
		return r
	}
	source := p.Ends[n.from[0]]
	n.own = add(place{source.Band, source.Column + 1}, &riser{net: n})
	for _, i := range n.from {
		n.own.stems = append(n.own.stems, p.Ends[i].Row)
	}
	for _, i := range n.to {
		t := p.Ends[i]
		if t.Band == source.Band && t.Column == source.Column+1 {
			n.own.exits = append(n.own.exits, t.Row)
			continue
		}
		n.own.up, n.own.down = n.own.up || t.Band == source.Band, n.own.down || t.Band != source.Band
		at := place{t.Band, t.Column}
		if n.drops[at] == nil {
			n.drops[at] = add(at, &riser{net: n, up: true})
		}
		n.drops[at].exits = append(n.drops[at].exits, t.Row)
		for k := source.Band + 1; k < t.Band; k++ {
			if n.passes[k] == nil {
				n.passes[k] = add(place{k, 0}, &riser{net: n, up: true, down: true})
			}
		}
	}
}

// assignLanes gives each net a row above a band if it needs one there.
func (p *Plan) assignLanes(k int, nets []*net) {
	var taken []*lane
	for _, n := range nets {
		if l := p.laneAt(k, n); l != nil {
			n.lanes[k] = l
			taken = append(taken, l)
		}
	}
	slices.SortStableFunc(taken, func(a, b *lane) int { // those from above in the upper rows
		return cmp.Or(cmp.Compare(min(len(b.above), 1), min(len(a.above), 1)), cmp.Compare(a.from(), b.from()))
	})
	for i, l := range taken {
		l.row, l.lost = p.Bands[k].Lane, true
		for r := range p.Bands[k].Lanes {
			l.row = p.Bands[k].Lane + r
			if l.lost = slices.ContainsFunc(taken[:i], func(o *lane) bool { return !o.lost && l.conflicts(o) }); !l.lost {
				break
			}
		}
	}
}

// laneAt returns the lane that a net needs above a band, nil if it needs none.
func (p *Plan) laneAt(k int, n *net) *lane {
	source := p.Ends[n.from[0]]
	if n.own.lost || k < source.Band {
		return nil
	}
	l := &lane{}
	for at, r := range n.drops {
		if at.band == k && !r.lost {
			l.below = append(l.below, r.x)
		}
	}
	if r := n.passes[k]; r != nil && !r.lost {
		l.below = append(l.below, r.x)
	}
	if len(l.below) == 0 {
		return nil
	}
	entry := n.own
	if k > source.Band+1 {
		entry = n.passes[k-1]
	}
	switch {
	case entry.lost:
		return nil
	case k == source.Band:
		l.below = append(l.below, entry.x)
	default:
		l.above = append(l.above, entry.x)
	}
	return l
}

func (l *lane) from() int { return slices.Min(append(slices.Clone(l.above), l.below...)) }
func (l *lane) to() int   { return slices.Max(append(slices.Clone(l.above), l.below...)) }

// conflicts reports whether two lanes would touch.
func (l *lane) conflicts(o *lane) bool {
	if l.row == o.row && l.from() <= o.to()+1 && o.from() <= l.to()+1 {
		return true
	}
	shares := func(a, b []int) bool {
		return slices.ContainsFunc(a, func(x int) bool { return slices.Contains(b, x) })
	}
	return shares(l.above, o.above) || shares(l.below, o.below) || l.row >= o.row && shares(l.above, o.below) || o.row >= l.row && shares(o.above, l.below)
}

// point is a cell.
type point struct{ x, y int }

// path returns the corners of an edge's line, nil if a part of it has no room.
func (p *Plan) path(n *net, e Edge) []point {
	from, to := p.Ends[e.From], p.Ends[e.To]
	if n.own.lost {
		return nil
	}
	path := []point{{from.Out, from.Row}}
	end := n.own
	path = append(path, point{end.x, from.Row})
	first := from.Band
	switch drop := n.drops[place{to.Band, to.Column}]; {
	case drop == nil:
		return append(path, point{end.x, to.Row}, point{to.In, to.Row})
	case from.Band != to.Band:
		first++
		fallthrough
	default:
		for k := first; k <= to.Band; k++ {
			l, next := n.lanes[k], n.passes[k]
			if k == to.Band {
				next = drop
			}
			if l == nil || l.lost || next.lost {
				return nil
			}
			path = append(path, point{end.x, l.row}, point{next.x, l.row})
			end = next
		}
	}
	return append(path, point{end.x, to.Row}, point{to.In, to.Row})
}

// draw draws a line through cells.
func (r *Routed) draw(path []point, bold bool) {
	r.add(path[0], theme.ArmLeft, bold)
	at := path[0]
	for _, corner := range path[1:] {
		for at != corner {
			next, out, in := at, byte(0), byte(0)
			switch {
			case at.x < corner.x:
				next.x, out, in = at.x+1, theme.ArmRight, theme.ArmLeft
			case at.x > corner.x:
				next.x, out, in = at.x-1, theme.ArmLeft, theme.ArmRight
			case at.y < corner.y:
				next.y, out, in = at.y+1, theme.ArmDown, theme.ArmUp
			default:
				next.y, out, in = at.y-1, theme.ArmUp, theme.ArmDown
			}
			r.add(at, out, bold)
			r.add(next, in, bold)
			at = next
		}
	}
}

func (r *Routed) add(at point, arms byte, bold bool) {
	if at.x < 0 || at.y < 0 || at.x >= r.w || at.y >= r.h {
		return
	}
	c := &r.Cells[at.y*r.w+at.x]
	c.Arms |= arms
	if bold {
		c.Bold |= arms
	}
}
