package infer

import (
	"cmp"
	"maps"
	"slices"

	"lockstep/engine/plan"
)

// arc goes from a waiting node to the node that it waits for.
type arc struct{ from, to int }

// sortedArcs returns the arcs that are the keys of a map, in order.
func sortedArcs[V any](m map[arc]V) []arc {
	return slices.SortedFunc(maps.Keys(m), func(a, b arc) int { return cmp.Or(a.from-b.from, a.to-b.to) })
}

// breakCycles returns the arcs to drop, by index, each with a cycle of its strongly connected component. It
// drops all arcs of a cycle's weakest (largest) class, because any of them could be wrong. It keeps arcs of
// class 0. Among nodes on a cycle of certain arcs it drops all weaker ones too.
//
// Rule R66: cycles are broken at their weakest edges, and reported
func breakCycles(n int, arcs []arc, class []int) map[int][]int {
	dropped := map[int][]int{}
	var kept []arc
	for _, c := range slices.Compact(slices.Sorted(slices.Values(class))) {
		all := slices.Clone(kept)
		for i, a := range arcs {
			if class[i] == c {
				all = append(all, a)
			}
		}
		component := components(n, all)
		next := adjacency(n, slices.DeleteFunc(all, func(a arc) bool { return component[a.from] != component[a.to] }))
		cycles := map[int][]int{} // one for each component
		for i, a := range arcs {
			switch at := component[a.from]; {
			case class[i] != c:
			case at == component[a.to] && c > 0:
				if cycles[at] == nil {
					cycles[at] = append([]int{a.from}, plan.ShortestPath(next, nil, a.to, a.from)...)
				}
				dropped[i] = cycles[at]
				if c <= certain {
					kept = append(kept, a) // no weaker arc may decide between them
				}
			default:
				kept = append(kept, a)
			}
		}
	}
	return dropped
}

// graph is a graph of units or subcharts. A fixed arc, such as a declared one, has class 0 and no edge.
type graph struct {
	arcs  []arc
	edges []*Edge
	class []int
}

func (g *graph) add(from, to int, e *Edge, class int) {
	g.arcs, g.edges, g.class = append(g.arcs, arc{from, to}), append(g.edges, e), append(g.class, class)
}

// dropCycles drops the edges that breakCycles returns, and calls keep for the other arcs.
func (a *arranger) dropCycles(n int, g *graph, why string, name func(int) string, keep func(arc, *Edge)) {
	cycles := breakCycles(n, g.arcs, g.class)
	for i, at := range g.arcs {
		cycle, onCycle := cycles[i]
		if !onCycle {
			keep(at, g.edges[i])
			continue
		}
		d := Dropped{Edge: *g.edges[i], Why: why}
		for _, node := range cycle {
			d.Cycle = append(d.Cycle, name(node))
		}
		a.dropped = append(a.dropped, d)
	}
}

// components numbers the strongly connected components of a graph, by Tarjan's algorithm.
func components(n int, arcs []arc) []int {
	const none = -1
	next := adjacency(n, arcs)
	component, index, low := slices.Repeat([]int{none}, n), slices.Repeat([]int{none}, n), make([]int, n)
	var open []int
	seen, count := 0, 0
	var visit func(i int)
	visit = func(i int) {
		index[i], low[i] = seen, seen
		seen++
		open = append(open, i)
		for _, j := range next[i] {
			switch {
			case index[j] == none:
				visit(j)
				low[i] = min(low[i], low[j])
			case component[j] == none:
				low[i] = min(low[i], index[j])
			}
		}
		for low[i] == index[i] && component[i] == none {
			last := len(open) - 1
			component[open[last]] = count
			open = open[:last]
		}
		if low[i] == index[i] {
			count++
		}
	}
	for i := range n {
		if index[i] == none {
			visit(i)
		}
	}
	return component
}

// adjacency returns the nodes that each of n nodes waits for.
func adjacency(n int, arcs []arc) [][]int {
	lists := make([][]int, n)
	for _, a := range arcs {
		lists[a.from] = append(lists[a.from], a.to)
	}
	return lists
}

// acyclic breaks all cycles. It returns the edges that are left, and those that were dropped, including
// the doubtful ones.
func (r *reader) acyclic() (kept []Edge, dropped []Dropped) {
	edges := r.edges()
	arcs, class := make([]arc, len(edges)), make([]int, len(edges))
	for i, e := range edges {
		arcs[i], class[i] = e.at, e.class()
	}
	for _, at := range sortedArcs(r.possible) {
		arcs, class = append(arcs, at), append(class, mayWait)
	}
	cyclic := breakCycles(len(r.nodes), arcs, class)
	dropped = r.doubtful
	kept = make([]Edge, 0, len(edges)-len(cyclic))
	for i, e := range edges {
		cycle, ok := cyclic[i]
		if !ok {
			kept = append(kept, e)
			continue
		}
		d := Dropped{Edge: e, Why: r.whyCyclic(cycle), Error: e.Strength == Hard}
		for _, at := range cycle {
			d.Cycle = append(d.Cycle, r.nodes[at].name().String())
		}
		dropped = append(dropped, d)
	}
	return kept, dropped
}
