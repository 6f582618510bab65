package infer

import "slices"

// arc leads from what waits to what it waits for.
type arc struct{ from, to int }

// breakCycles returns for each arc that has to go so that no cycle is left the
// cycle that it would close, which begins with its ends. Of the arcs of a cycle
// the last in the list goes.
func breakCycles(n int, arcs []arc) map[int][]int {
	component := components(n, arcs)
	size := make([]int, n)
	for _, c := range component {
		size[c]++
	}
	next := make([][]int, n)
	closing := map[int][]int{}
	for i, a := range arcs {
		if component[a.from] != component[a.to] || size[component[a.from]] == 1 && a.from != a.to {
			continue // it is on no cycle
		}
		if way := path(next, a.to, a.from); way != nil {
			closing[i] = append([]int{a.from}, way[:len(way)-1]...)
			continue
		}
		next[a.from] = append(next[a.from], a.to)
	}
	return closing
}

// path finds a shortest way between two nodes, both included, nil if there is
// none.
func path(next [][]int, from, to int) []int {
	came := map[int]int{from: from}
	queue := []int{from}
	for at := 0; at < len(queue); at++ {
		i := queue[at]
		if i == to {
			way := []int{i}
			for i != from {
				i = came[i]
				way = append(way, i)
			}
			slices.Reverse(way)
			return way
		}
		for _, j := range next[i] {
			if _, seen := came[j]; !seen {
				came[j] = i
				queue = append(queue, j)
			}
		}
	}
	return nil
}

// components numbers the strongly connected components of a graph: nodes are in
// one if each can be reached from the other. It is Tarjan's algorithm, without
// recursion.
func components(n int, arcs []arc) []int {
	next := make([][]int, n)
	for _, a := range arcs {
		next[a.from] = append(next[a.from], a.to)
	}
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

func fill(n, value int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = value
	}
	return list
}

// ordered lists the nodes of a graph without cycles, each after those that it
// waits for, by number where nothing else decides.
func ordered(n int, arcs []arc) []int {
	waiters := make([][]int, n)
	left := make([]int, n)
	for _, a := range arcs {
		waiters[a.to] = append(waiters[a.to], a.from)
		left[a.from]++
	}
	var order []int
	for i := range n {
		if left[i] == 0 {
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
	return order
}

// acyclic returns the edges without those that close cycles, and these. Of a
// cycle the softest goes.
func (r *reader) acyclic() (kept []Edge, dropped []Dropped) {
	edges := r.edges()
	preferred := make([]int, len(edges))
	for i := range preferred {
		preferred[i] = i
	}
	slices.SortStableFunc(preferred, func(i, j int) int { return compareStrength(edges[i], edges[j]) })
	arcs := make([]arc, len(edges))
	for n, i := range preferred {
		arcs[n] = arc{r.by[edges[i].From].at, r.by[edges[i].To].at}
	}
	closing := breakCycles(len(r.nodes), arcs)
	gone := map[int]bool{}
	for n, i := range preferred {
		cycle, ok := closing[n]
		if !ok {
			continue
		}
		gone[i] = true
		d := Dropped{Edge: edges[i], Why: "they wait for each other, and this is the softest reason", Error: edges[i].Strength == Hard}
		for _, at := range cycle {
			d.Cycle = append(d.Cycle, r.nodes[at].name().String())
		}
		if d.Error {
			d.Why = "each needs another one of them to be there first"
		}
		dropped = append(dropped, d)
	}
	for i, e := range edges {
		if !gone[i] {
			kept = append(kept, e)
		}
	}
	return kept, dropped
}
