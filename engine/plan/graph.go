package plan

import (
	"cmp"
	"slices"
)

// Group returns the group with an id, or nil.
func (p *Plan) Group(id string) *Group {
	if i := slices.IndexFunc(p.Groups, func(g *Group) bool { return g.ID == id }); i >= 0 {
		return p.Groups[i]
	}
	return nil
}

// Dependencies returns the ids of the groups that others wait for: all but the leaves (R21).
func (p *Plan) Dependencies() map[string]bool { return dependenciesOf(p.Groups) }

func dependenciesOf(groups []*Group) map[string]bool {
	dependencies := make(map[string]bool, len(groups))
	for _, g := range groups {
		for _, id := range g.After {
			dependencies[id] = true
		}
	}
	return dependencies
}

// Subset returns the graph with only those objects for which keep returns true. It drops
// groups without objects, but keeps the order through them: groups that waited for a dropped
// group wait for its dependencies. The result is in plan order and shares only Why with groups.
func Subset(groups []*Group, keep func(Object) bool) []*Group {
	dependencies := dependencyIndexes(groups)
	kept := make([]*Group, len(groups))
	after := make([][]string, len(groups)) // the ids to wait for instead of a group
	order, _ := TopologicalOrder(dependencies)
	for _, i := range order {
		g := groups[i].filter(keep)
		g.After = []string{}
		for _, j := range dependencies[i] {
			g.After = append(g.After, after[j]...)
		}
		slices.Sort(g.After)
		g.After = slices.Compact(g.After)
		after[i] = g.After
		if len(g.Objects) > 0 {
			kept[i] = g
			after[i] = []string{g.ID}
		}
	}
	kept = slices.DeleteFunc(kept, func(g *Group) bool { return g == nil })
	normalize(kept)
	return kept
}

// filter returns a copy of the group with only those objects for which keep returns true. It shares After.
func (g *Group) filter(keep func(Object) bool) *Group {
	f := *g
	f.Objects, f.Waves = nil, nil
	at := 0
	for _, w := range g.completeWaves() {
		before := len(f.Objects)
		for _, o := range g.Objects[at : at+w.Count] {
			if keep(o) {
				f.Objects = append(f.Objects, o)
			}
		}
		at += w.Count
		if count := len(f.Objects) - before; count > 0 {
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

// completeWaves returns the group's waves. If the waves of a stored plan do not cover all
// objects, it adds a wave with the rest.
func (g *Group) completeWaves() []Wave {
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

// Reduce returns the transitive reduction: the dependencies of each group, by id, without those that
// another of its dependencies waits for, directly or indirectly. The lists are sorted and never nil.
func Reduce(groups []*Group) map[string][]string {
	dependencies := dependencyIndexes(groups)
	order, _ := TopologicalOrder(dependencies)
	rank := make([]int, len(groups))
	for at, i := range order {
		rank[i] = at
	}
	// The indirect dependencies are computed for one block of groups at a time, because all at once
	// would take memory quadratic in their number. The last block comes first, so that few edges
	// remain for the other blocks.
	reachable := make([]block, len(groups)) // dependencies within the block, by rank
	for start := (len(groups) - 1) / blockSize * blockSize; start >= 0; start -= blockSize {
		clear(reachable[start:])
		inBlock := func(j int) bool { return rank[j] >= start && rank[j] < start+blockSize }
		for at, i := range order[start:] {
			b := &reachable[start+at]
			for _, j := range dependencies[i] {
				if rank[j] >= start {
					b.merge(&reachable[rank[j]])
				}
			}
			dependencies[i] = slices.DeleteFunc(dependencies[i], func(j int) bool { return j == i || inBlock(j) && b.has(rank[j]-start) })
			for _, j := range dependencies[i] {
				if inBlock(j) {
					b.add(rank[j] - start)
				}
			}
		}
	}
	direct := make(map[string][]string, len(groups))
	for i, dependencies := range dependencies {
		ids := make([]string, 0, len(dependencies))
		for _, j := range dependencies {
			ids = append(ids, groups[j].ID)
		}
		slices.Sort(ids)
		direct[groups[i].ID] = slices.Compact(ids)
	}
	return direct
}

// normalize sorts dependencies, computes layers and puts groups into plan order. It reports
// whether the graph is acyclic; otherwise layers are meaningless.
func normalize(groups []*Group) bool {
	for _, g := range groups {
		slices.Sort(g.After)
		g.After = slices.Compact(g.After)
	}
	layer, acyclic := layers(groups)
	for i, g := range groups {
		g.Layer = layer[i]
	}
	slices.SortFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.ID, b.ID))
	})
	return acyclic
}

// Unordered reports whether a chart with several objects declares neither groups nor dependencies.
func Unordered(groups []*Group) bool {
	objects := 0
	for _, g := range groups {
		if objects += len(g.Objects); g.Name != Unsequenced || len(g.After) > 0 || len(g.WaitFor) > 0 || len(g.Approve) > 0 {
			return false
		}
	}
	return objects > 1
}

// Layers returns the layer of each group by id: the length of the longest path to it within
// these groups. A removal's layers differ from the plan's.
func Layers(groups []*Group) map[string]int {
	layer, _ := layers(groups)
	byID := make(map[string]int, len(groups))
	for i, g := range groups {
		byID[g.ID] = layer[i]
	}
	return byID
}

// layers returns the length of the longest path to each group, which is meaningless if there are cycles.
func layers(groups []*Group) (layer []int, acyclic bool) {
	dependencies := dependencyIndexes(groups)
	order, acyclic := TopologicalOrder(dependencies)
	layer = make([]int, len(groups))
	for _, i := range order {
		for _, j := range dependencies[i] {
			layer[i] = max(layer[i], layer[j]+1)
		}
	}
	return layer, acyclic
}

// dependencyIndexes returns the dependencies of each group as indexes in groups. It ignores those
// that are not in groups.
func dependencyIndexes(groups []*Group) [][]int {
	index := make(map[string]int, len(groups))
	for i, g := range groups {
		index[g.ID] = i
	}
	dependencies := make([][]int, len(groups))
	for i, g := range groups {
		dependencies[i] = make([]int, 0, len(g.After))
		for _, id := range g.After {
			if j, ok := index[id]; ok {
				dependencies[i] = append(dependencies[i], j)
			}
		}
	}
	return dependencies
}

func transpose(next [][]int) [][]int {
	prev := make([][]int, len(next))
	for i, list := range next {
		for _, j := range list {
			prev[j] = append(prev[j], i)
		}
	}
	return prev
}

// TopologicalOrder returns the nodes of a graph, each after those that it waits for, in an order that
// depends only on the graph. Nodes on a cycle, and those that wait for them, come last, by number.
func TopologicalOrder(waits [][]int) (order []int, acyclic bool) {
	placed := make([]bool, len(waits))
	order = dropAcyclic(waits, transpose(waits), placed)
	acyclic = len(order) == len(waits)
	for i, placed := range placed {
		if !placed {
			order = append(order, i)
		}
	}
	return order, acyclic
}

// maxCycles limits the reported cycles, because finding thousands takes minutes.
const maxCycles = 50

// findCycles returns at most maxCycles cycles of a graph, enough to show why it is not acyclic.
// Each starts with its smallest node, follows next, and is the shortest through that node. The
// lists of the graph must be sorted.
func findCycles(next [][]int) [][]int {
	removed := make([]bool, len(next))
	prev := transpose(next)
	dropAcyclic(next, prev, removed)
	var cycles [][]int
	for i := range next {
		if removed[i] {
			continue
		}
		if len(cycles) == maxCycles {
			break
		}
		if cycle := ShortestPath(next, removed, i, i); cycle != nil {
			cycles = append(cycles, cycle)
			removed[i] = true
			dropAcyclic(next, prev, removed)
		}
	}
	return cycles
}

// dropAcyclic marks the nodes from which no cycle can be reached as removed, and returns them,
// each after those that it points to. prev is the transpose of next.
func dropAcyclic(next, prev [][]int, removed []bool) (dropped []int) {
	left := make([]int, len(next))
	for i := range next {
		if removed[i] {
			continue
		}
		for _, j := range next[i] {
			if !removed[j] {
				left[i]++
			}
		}
		if left[i] == 0 {
			dropped = append(dropped, i)
		}
	}
	for at := 0; at < len(dropped); at++ {
		removed[dropped[at]] = true
		for _, i := range prev[dropped[at]] {
			if left[i]--; left[i] == 0 {
				dropped = append(dropped, i)
			}
		}
	}
	return dropped
}

// ShortestPath returns a shortest path of at least one edge from start to end, without end, or nil.
// It avoids removed nodes; removed may be nil.
func ShortestPath(next [][]int, removed []bool, start, end int) []int {
	from := map[int]int{}
	queue := []int{start}
	for at := 0; at < len(queue); at++ {
		i := queue[at]
		for _, j := range next[i] {
			if j == end {
				path := []int{i}
				for i != start {
					i = from[i]
					path = append(path, i)
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := from[j]; !seen && j != start && (removed == nil || !removed[j]) {
				from[j] = i
				queue = append(queue, j)
			}
		}
	}
	return nil
}

// blockSize is the number of groups that a block can hold.
const blockSize = 512

// block is a set of integers from 0 to blockSize-1.
type block [blockSize / 64]uint64

func (b *block) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *block) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *block) merge(c *block) {
	for i, word := range c {
		b[i] |= word
	}
}
