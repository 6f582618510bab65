package report

import (
	"cmp"
	"slices"

	"lockstep/engine/plan"
)

// layers returns the layer of each group: the longest way to it inside of the
// phase. That of a removal differs from the plan's.
func layers(groups []*plan.Group) map[string]int {
	byID := map[string]*plan.Group{}
	for _, g := range groups {
		byID[g.ID] = g
	}
	out := map[string]int{}
	var layer func(g *plan.Group) int
	layer = func(g *plan.Group) int {
		if n, ok := out[g.ID]; ok {
			return n
		}
		out[g.ID] = 0 // ends a cycle, which a plan never has
		n := 0
		for _, id := range g.After {
			if b := byID[id]; b != nil {
				n = max(n, layer(b)+1)
			}
		}
		out[g.ID] = n
		return n
	}
	for _, g := range groups {
		layer(g)
	}
	return out
}

// inLayers orders groups by layer and leaves the order of each layer alone.
func inLayers(groups []*plan.Group, layer map[string]int) []*plan.Group {
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b *plan.Group) int { return cmp.Compare(layer[a.ID], layer[b.ID]) })
	return out
}
