package infer

import "slices"

// arc goes from a waiting node to the node that it waits for.
type arc struct{ from, to int }

// breakCycles returns the arcs to drop so that no cycle remains, each with a cycle that it is
// part of. It drops all arcs of a cycle's softest (largest) class, because nothing favours one
// of them. It keeps arcs of class 0.
//
// Rule R66: cycles are broken at their softest edges, and reported.
func breakCycles(n int, arcs []arc, class []int) map[int][]int {
	dropped := map[int][]int{}
	var on []int // arcs on cycles
	whole := components(n, arcs)
	for i, a := range arcs {
		if whole[a.from] == whole[a.to] {
			on = append(on, i)
		}
	}
	if len(on) == 0 {
		return dropped
	}
	var kept []arc
	for c := range slices.Max(class) + 1 {
		all := slices.Clone(kept)
		for _, i := range on {
			if class[i] == c {
				all = append(all, arcs[i])
			}
		}
		component := components(n, all)
		inside := make([][]int, n)
		for _, a := range all {
			if component[a.from] == component[a.to] {
				inside[a.from] = append(inside[a.from], a.to)
			}
		}
		cycles := map[int][]int{} // one for each component
		for _, i := range on {
			a := arcs[i]
			switch at := component[a.from]; {
			case class[i] != c:
			case at == component[a.to] && c > 0:
				if cycles[at] == nil {
					back := path(inside, a.to, a.from)
					cycles[at] = append([]int{a.from}, back[:len(back)-1]...)
				}
				dropped[i] = cycles[at]
			default:
				kept = append(kept, a)
			}
		}
	}
	return dropped
}

// path finds a shortest path between two nodes, both included, or nil.
func path(next [][]int, from, to int) []int {
	previous := map[int]int{from: from}
	queue := []int{from}
	for at := 0; at < len(queue); at++ {
		i := queue[at]
		if i == to {
			found := []int{i}
			for i != from {
				i = previous[i]
				found = append(found, i)
			}
			slices.Reverse(found)
			return found
		}
		for _, j := range next[i] {
			if _, seen := previous[j]; !seen {
				previous[j] = i
				queue = append(queue, j)
			}
		}
	}
	return nil
}

// components numbers the strongly connected components of a graph, by Tarjan's algorithm
// without recursion.
func components(n int, arcs []arc) []int {
	next := waits(n, arcs)
	const none = -1
	component, index, low, at := fill(n, none), fill(n, none), make([]int, n), make([]int, n)
	var stack, open []int
	seen, count := 0, 0
	for start := range n {
		if index[start] != none {
			continue
		}
		stack = append(stack, start)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			if at[i] == 0 {
				index[i], low[i] = seen, seen
				seen++
				open = append(open, i)
			}
			if at[i] < len(next[i]) {
				j := next[i][at[i]]
				at[i]++
				switch {
				case index[j] == none:
					stack = append(stack, j)
				case component[j] == none:
					low[i] = min(low[i], index[j])
				}
				continue
			}
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				up := stack[len(stack)-1]
				low[up] = min(low[up], low[i])
			}
			if low[i] == index[i] {
				for {
					j := open[len(open)-1]
					open = open[:len(open)-1]
					component[j] = count
					if j == i {
						break
					}
				}
				count++
			}
		}
	}
	return component
}

// waits returns the adjacency list of the arcs.
func waits(n int, arcs []arc) [][]int {
	count := make([]int, n)
	for _, a := range arcs {
		count[a.from]++
	}
	all, lists := make([]int, len(arcs)), make([][]int, n)
	for i, c := range count {
		lists[i], all = all[:0:c], all[c:]
	}
	for _, a := range arcs {
		lists[a.from] = append(lists[a.from], a.to)
	}
	return lists
}

func fill(n, value int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = value
	}
	return list
}

// acyclic splits the edges into the kept ones and those dropped as doubtful or on cycles.
func (r *reader) acyclic() (kept []Edge, dropped []Dropped) {
	edges := r.edges()
	arcs, class := make([]arc, len(edges)), make([]int, len(edges))
	for i, e := range edges {
		arcs[i] = e.at
		class[i] = e.class()
	}
	cyclic := breakCycles(len(r.nodes), arcs, class)
	dropped = r.doubtful
	if len(cyclic) == 0 {
		return edges, dropped
	}
	kept = make([]Edge, 0, len(edges)-len(cyclic))
	for i, e := range edges {
		cycle, ok := cyclic[i]
		if !ok {
			kept = append(kept, e)
			continue
		}
		d := Dropped{Edge: e, Why: "they wait for each other", Error: e.Strength == Hard}
		if d.Error {
			d.Why = "each needs another one to exist first"
		}
		for _, at := range cycle {
			d.Cycle = append(d.Cycle, r.nodes[at].name().String())
		}
		dropped = append(dropped, d)
	}
	return kept, dropped
}
