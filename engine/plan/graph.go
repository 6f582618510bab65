package plan

import (
	"cmp"
	"slices"
)

// Group returns the group of that id, nil if there is none.
func (p *Plan) Group(id string) *Group {
	for _, g := range p.Groups {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// Gates returns the ids of the groups that some group waits for: those whose
// resources are checked for readiness (R21).
func (p *Plan) Gates() map[string]bool {
	gates := make(map[string]bool, len(p.Groups))
	for _, g := range p.Groups {
		for _, id := range g.After {
			gates[id] = true
		}
	}
	return gates
}

// Reverse returns the graph by which groups are removed (R31): the same ids
// and objects, where each group waits for those that waited for it, and its
// objects go in the reverse of the order they were applied in. The result is
// in plan order and shares nothing with groups.
func Reverse(groups []*Group) []*Group {
	d := newDAG(groups)
	reversed := make([]*Group, len(groups))
	for i, g := range groups {
		r := *g
		r.After, r.Why = []string{}, nil
		r.Objects = slices.Clone(g.Objects)
		slices.Reverse(r.Objects)
		r.Waves = g.cut()
		slices.Reverse(r.Waves)
		for n := range r.Waves {
			r.Waves[n].Established = nil
		}
		reversed[i] = &r
	}
	for i, after := range d.after {
		for _, j := range after {
			reversed[j].After = append(reversed[j].After, groups[i].ID)
		}
	}
	settle(reversed)
	return reversed
}

// Subset returns the graph with only those objects that keep wants. A group
// that is left without objects vanishes, but not the order through it: what
// waited for it waits for what it waited for. The result is in plan order and
// shares nothing with groups.
func Subset(groups []*Group, keep func(Object) bool) []*Group {
	d := newDAG(groups)
	left := make([]*Group, len(groups))
	after := make([][]string, len(groups)) // what to wait for instead of a group
	order, _ := Ordered(d.after)
	for _, i := range order {
		g := groups[i].filter(keep)
		g.After = []string{}
		for _, j := range d.after[i] {
			g.After = append(g.After, after[j]...)
		}
		slices.Sort(g.After)
		g.After = slices.Compact(g.After)
		after[i] = g.After
		if len(g.Objects) > 0 {
			left[i] = g
			after[i] = []string{g.ID}
		}
	}
	left = slices.DeleteFunc(left, func(g *Group) bool { return g == nil })
	settle(left)
	return left
}

// filter returns a copy of the group, After excepted, with the objects that
// keep wants.
func (g *Group) filter(keep func(Object) bool) *Group {
	f := *g
	f.Objects, f.Waves = nil, nil
	at := 0
	for _, w := range g.cut() {
		n := len(f.Objects)
		for _, o := range g.Objects[at : at+w.Count] {
			if keep(o) {
				f.Objects = append(f.Objects, o)
			}
		}
		at += w.Count
		if count := len(f.Objects) - n; count > 0 {
			wave := Wave{Count: count}
			for _, o := range w.Established {
				if keep(o) {
					wave.Established = append(wave.Established, o)
				}
			}
			f.Waves = append(f.Waves, wave)
		}
	}
	return &f
}

// cut returns the group's waves. Where those of a plan that was read back do
// not add up to its objects, the rest is one more wave.
func (g *Group) cut() []Wave {
	var waves []Wave
	left := len(g.Objects)
	for _, w := range append(slices.Clone(g.Waves), Wave{Count: left}) {
		if w.Count = min(w.Count, left); w.Count > 0 {
			waves = append(waves, w)
			left -= w.Count
		}
	}
	return waves
}

// Reduce returns for each group the gates that no other of its gates waits
// for, directly or not: the edges worth drawing. They are sorted and never nil.
func Reduce(groups []*Group) map[string][]string {
	d := newDAG(groups)
	order, _ := Ordered(d.after)
	rank := make([]int, len(groups))
	for at, i := range order {
		rank[i] = at
	}
	// What is behind each group is found out for one block of groups at a time: for
	// all of them at once it would take memory by the square of their number. The last
	// block comes first, so that few edges are left to be followed back to the others.
	behind := make([]block, len(groups)) // by rank
	for start := (len(groups) - 1) / blockSize * blockSize; start >= 0; start -= blockSize {
		clear(behind[start:])
		inBlock := func(j int) bool { return rank[j] >= start && rank[j] < start+blockSize }
		for at, i := range order[start:] {
			b := &behind[start+at]
			for _, j := range d.after[i] {
				if rank[j] >= start {
					b.merge(&behind[rank[j]])
				}
			}
			d.after[i] = slices.DeleteFunc(d.after[i], func(j int) bool { return j == i || inBlock(j) && b.has(rank[j]-start) })
			for _, j := range d.after[i] {
				if inBlock(j) {
					b.add(rank[j] - start)
				}
			}
		}
	}
	direct := make(map[string][]string, len(groups))
	for i, after := range d.after {
		ids := make([]string, 0, len(after))
		for _, j := range after {
			ids = append(ids, groups[j].ID)
		}
		slices.Sort(ids)
		direct[groups[i].ID] = slices.Compact(ids)
	}
	return direct
}

// settle sorts gates, finds the layers and puts groups into plan order. It
// reports whether the graph is free of cycles; layers mean nothing otherwise.
func settle(groups []*Group) bool {
	for _, g := range groups {
		slices.Sort(g.After)
		g.After = slices.Compact(g.After)
	}
	layer, acyclic := newDAG(groups).layers()
	for i, g := range groups {
		g.Layer = layer[i]
	}
	slices.SortFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.ID, b.ID))
	})
	return acyclic
}

// Layers returns the layer of each group by its ID: the longest way to it among these
// groups. That of a removal differs from the plan's.
func Layers(groups []*Group) map[string]int {
	layer, _ := newDAG(groups).layers()
	byID := make(map[string]int, len(groups))
	for i, g := range groups {
		byID[g.ID] = layer[i]
	}
	return byID
}

// layers returns the longest ways to each group, which mean nothing where there are cycles.
func (d *dag) layers() (layer []int, acyclic bool) {
	order, acyclic := Ordered(d.after)
	layer = make([]int, len(d.after))
	for _, i := range order {
		for _, j := range d.after[i] {
			layer[i] = max(layer[i], layer[j]+1)
		}
	}
	return layer, acyclic
}

// dag is a graph of groups by index.
type dag struct {
	// after lists what each group waits for. Gates that are not in the graph
	// are left out.
	after [][]int
}

func newDAG(groups []*Group) *dag {
	index := make(map[string]int, len(groups))
	edges := 0
	for i, g := range groups {
		index[g.ID] = i
		edges += len(g.After)
	}
	d := &dag{after: make([][]int, len(groups))}
	all := make([]int, 0, edges)
	for i, g := range groups {
		begin := len(all)
		for _, id := range g.After {
			if j, ok := index[id]; ok {
				all = append(all, j)
			}
		}
		d.after[i] = all[begin:len(all):len(all)]
	}
	return d
}

// turned returns a graph with its edges turned round.
func turned(next [][]int) [][]int {
	degree := make([]int, len(next))
	edges := 0
	for _, list := range next {
		edges += len(list)
		for _, j := range list {
			degree[j]++
		}
	}
	all := make([]int, edges)
	prev := make([][]int, len(next))
	for j, n := range degree {
		prev[j], all = all[:0:n], all[n:]
	}
	for i, list := range next {
		for _, j := range list {
			prev[j] = append(prev[j], i)
		}
	}
	return prev
}

// Ordered lists the nodes of a graph, each after those that it waits for, by number
// where nothing else decides. What is on or behind a cycle comes last, and the graph
// is reported as not acyclic.
func Ordered(waits [][]int) (order []int, acyclic bool) {
	n := len(waits)
	waiters := turned(waits)
	left := make([]int, n)
	order = make([]int, 0, n)
	for i, after := range waits {
		left[i] = len(after)
		if len(after) == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, i := range waiters[order[at]] {
			if left[i]--; left[i] == 0 {
				order = append(order, i)
			}
		}
	}
	if acyclic = len(order) == n; !acyclic {
		for i := range left {
			if left[i] > 0 {
				order = append(order, i)
			}
		}
	}
	return order, acyclic
}

// maxCycles is how many cycles are told: nobody reads more, and to find
// thousands takes minutes.
const maxCycles = 50

// findCycles returns cycles of a graph, none if it has none. Each begins with
// its smallest node, goes along next, and is the shortest through that node;
// the node does not come again at the end. Taking the first nodes of all
// cycles away leaves the graph without any, unless there are maxCycles. The lists
// of next are sorted.
func findCycles(next [][]int) [][]int {
	gone := make([]bool, len(next))
	prev := turned(next)
	dropAcyclic(next, prev, gone)
	var cycles [][]int
	for i := range next {
		if gone[i] {
			continue
		}
		if len(cycles) == maxCycles {
			break
		}
		if cycle := shortestCycle(next, gone, i); cycle != nil {
			cycles = append(cycles, cycle)
			gone[i] = true
			dropAcyclic(next, prev, gone)
		}
	}
	return cycles
}

// dropAcyclic marks the nodes from which no cycle can be reached as gone; prev is
// next, turned round.
func dropAcyclic(next, prev [][]int, gone []bool) {
	left := make([]int, len(next))
	var ends []int
	for i := range next {
		if gone[i] {
			continue
		}
		for _, j := range next[i] {
			if !gone[j] {
				left[i]++
			}
		}
		if left[i] == 0 {
			ends = append(ends, i)
		}
	}
	for at := 0; at < len(ends); at++ {
		gone[ends[at]] = true
		for _, i := range prev[ends[at]] {
			if left[i]--; left[i] == 0 {
				ends = append(ends, i)
			}
		}
	}
}

// shortestCycle searches breadth first for the way from start back to it.
func shortestCycle(next [][]int, gone []bool, start int) []int {
	from := map[int]int{}
	queue := []int{start}
	for at := 0; at < len(queue); at++ {
		i := queue[at]
		for _, j := range next[i] {
			if j == start {
				cycle := []int{i}
				for i != start {
					i = from[i]
					cycle = append(cycle, i)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := from[j]; !seen && !gone[j] {
				from[j] = i
				queue = append(queue, j)
			}
		}
	}
	return nil
}

// blockSize is the number of groups that a block can hold.
const blockSize = 512

// block is a set of the numbers below blockSize.
type block [blockSize / 64]uint64

func (b *block) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *block) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *block) merge(c *block) {
	for i, word := range c {
		b[i] |= word
	}
}
