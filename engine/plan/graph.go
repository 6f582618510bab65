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

// Gates returns the ids of the groups that others wait for (R21).
func (p *Plan) Gates() map[string]bool {
	gates := make(map[string]bool, len(p.Groups))
	for _, g := range p.Groups {
		for _, id := range g.After {
			gates[id] = true
		}
	}
	return gates
}

// Subset returns the graph with only those objects for which keep returns true. It drops
// groups without objects, but keeps the order through them: groups that waited for a dropped
// group wait for its gates. The result is in plan order and shares nothing with groups.
func Subset(groups []*Group, keep func(Object) bool) []*Group {
	gates := gatesByIndex(groups)
	kept := make([]*Group, len(groups))
	after := make([][]string, len(groups)) // the ids to wait for instead of a group
	order, _ := TopologicalOrder(gates)
	for _, i := range order {
		g := groups[i].filter(keep)
		g.After = []string{}
		for _, j := range gates[i] {
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

// Reduce returns the transitive reduction: for each group the gates that none of its other
// gates waits for, directly or indirectly. They are sorted and never nil.
func Reduce(groups []*Group) map[string][]string {
	gates := gatesByIndex(groups)
	order, _ := TopologicalOrder(gates)
	rank := make([]int, len(groups))
	for at, i := range order {
		rank[i] = at
	}
	// The groups behind each group are computed for one block of groups at a time: all at
	// once would take memory quadratic in their number. The last block comes first, so that
	// few edges remain for the other blocks.
	behind := make([]block, len(groups)) // by rank
	for start := (len(groups) - 1) / blockSize * blockSize; start >= 0; start -= blockSize {
		clear(behind[start:])
		inBlock := func(j int) bool { return rank[j] >= start && rank[j] < start+blockSize }
		for at, i := range order[start:] {
			b := &behind[start+at]
			for _, j := range gates[i] {
				if rank[j] >= start {
					b.merge(&behind[rank[j]])
				}
			}
			gates[i] = slices.DeleteFunc(gates[i], func(j int) bool { return j == i || inBlock(j) && b.has(rank[j]-start) })
			for _, j := range gates[i] {
				if inBlock(j) {
					b.add(rank[j] - start)
				}
			}
		}
	}
	direct := make(map[string][]string, len(groups))
	for i, gates := range gates {
		ids := make([]string, 0, len(gates))
		for _, j := range gates {
			ids = append(ids, groups[j].ID)
		}
		slices.Sort(ids)
		direct[groups[i].ID] = slices.Compact(ids)
	}
	return direct
}

// normalize sorts gates, computes the layers and puts groups into plan order. It reports
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

// Layers returns the layer of each group by id: the length of the longest path to it within
// these groups. A removal has other layers than the plan.
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
	gates := gatesByIndex(groups)
	order, acyclic := TopologicalOrder(gates)
	layer = make([]int, len(groups))
	for _, i := range order {
		for _, j := range gates[i] {
			layer[i] = max(layer[i], layer[j]+1)
		}
	}
	return layer, acyclic
}

// gatesByIndex returns the gates of each group by index, without gates that are not in groups.
func gatesByIndex(groups []*Group) [][]int {
	index := make(map[string]int, len(groups))
	for i, g := range groups {
		index[g.ID] = i
	}
	gates := make([][]int, len(groups))
	for i, g := range groups {
		gates[i] = make([]int, 0, len(g.After))
		for _, id := range g.After {
			if j, ok := index[id]; ok {
				gates[i] = append(gates[i], j)
			}
		}
	}
	return gates
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

// TopologicalOrder lists the nodes of a graph, each after those that it waits for, otherwise
// by number. If the graph is not acyclic, nodes on or behind a cycle come last.
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

// findCycles returns cycles of a graph whose lists are sorted. Each cycle starts with its
// smallest node, follows next, and is the shortest through that node. Without the first nodes
// of all returned cycles the graph is acyclic, unless there are maxCycles.
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

// ShortestPath returns a shortest path of at least one edge between two nodes, without the last
// one, or nil. It avoids removed nodes; removed may be nil.
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

// block is a set of the numbers below blockSize.
type block [blockSize / 64]uint64

func (b *block) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *block) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *block) merge(c *block) {
	for i, word := range c {
		b[i] |= word
	}
}
