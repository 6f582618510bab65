package infer

import (
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Untold returns the gates of a plan, by the ids of who waits and for what, that
// no edge leads along: what only the chart's author knows. Between charts it is
// enough that anything of one leads to anything of the other, since they wait as a
// whole (R11).
func (o *Order) Untold(p *plan.Plan) [][2]string {
	next := map[plan.Object][]plan.Object{}
	for _, e := range o.Edges {
		next[e.From] = append(next[e.From], e.To)
	}
	parts := map[string][]plan.Object{} // objects of groups, and of charts with theirs
	for _, g := range p.Groups {
		parts[g.ID] = g.Objects
		for path := g.Chart; ; path = path[:strings.LastIndexByte(path, '/')] {
			parts[path] = append(parts[path], g.Objects...)
			if !strings.Contains(path, "/") {
				break
			}
		}
	}
	reached := map[string]map[plan.Object]bool{}
	direct := plan.Reduce(p.Groups)
	var untold [][2]string
	for _, g := range p.Groups {
		for _, id := range direct[g.ID] {
			from, to := part(g, p.Group(id).Chart), part(p.Group(id), g.Chart)
			if reached[from] == nil {
				reached[from] = reach(parts[from], next)
			}
			if !slices.ContainsFunc(parts[to], func(x plan.Object) bool { return reached[from][x] }) {
				untold = append(untold, [2]string{g.ID, id})
			}
		}
	}
	return untold
}

// part is what waits as a whole where a group waits for one of another chart: the
// group, or the subchart that it is in.
func part(g *plan.Group, other string) string {
	parent := common(g.Chart, other)
	if path, ok := child(parent, g.Chart); ok {
		return path
	}
	return g.ID
}

// reach are the objects that others wait for, at once or by way of others.
func reach(from []plan.Object, next map[plan.Object][]plan.Object) map[plan.Object]bool {
	reached := map[plan.Object]bool{}
	queue := slices.Clone(from)
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, x := range next[at] {
			if !reached[x] {
				reached[x] = true
				queue = append(queue, x)
			}
		}
	}
	return reached
}
