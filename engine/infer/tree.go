package infer

import (
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Tree returns the chart tree with the order added. With it, plan.Build plans resources as if Annotate
// had added the annotations.
func (o *Order) Tree(tree *plan.Chart) *plan.Chart {
	t := o.withDependencies(tree)
	if t != nil {
		t.Inferred = o.inferred()
	}
	return t
}

// pair is a group or chart that waits for another one.
type pair struct{ from, to string }

// Explain sets Group.Why from the edges between the objects of groups or, for groups of different
// charts, between those charts.
func (o *Order) Explain(groups []*plan.Group) {
	byObject, byID := indexGroups(groups)
	best, between := map[pair]Edge{}, map[pair]Edge{}
	keep := func(m map[pair]Edge, p pair, e Edge) {
		if old, known := m[p]; !known || compareStrength(e, old) < 0 {
			m[p] = e
		}
	}
	for _, e := range o.Edges {
		from, to := byObject[e.From], byObject[e.To]
		if from == nil || to == nil || from == to {
			continue
		}
		keep(best, pair{from.ID, to.ID}, e)
		if from.Chart != to.Chart {
			keep(between, siblings(from.Chart, to.Chart), e)
		}
	}
	for _, g := range groups {
		why := map[string]string{}
		for _, id := range g.After {
			e, ok := best[pair{g.ID, id}]
			if to := byID[id]; !ok && to != nil && to.Chart != g.Chart {
				e, ok = between[siblings(g.Chart, to.Chart)]
			}
			if ok {
				why[id] = e.String()
			}
		}
		if len(why) > 0 {
			g.Why = why
		}
	}
}

// indexGroups returns the groups by object and by id.
func indexGroups(groups []*plan.Group) (byObject map[plan.Object]*plan.Group, byID map[string]*plan.Group) {
	byObject, byID = map[plan.Object]*plan.Group{}, map[string]*plan.Group{}
	for _, g := range groups {
		byID[g.ID] = g
		for _, object := range g.Objects {
			byObject[object] = g
		}
	}
	return byObject, byID
}

// siblings returns the subcharts of the nearest common parent that contain two charts. If one
// chart contains the other, it returns that chart itself and its subchart.
func siblings(from, to string) pair {
	parent := commonParent(from, to)
	below := func(path string) string {
		if at, ok := child(parent, path); ok {
			return at
		}
		return path
	}
	return pair{below(from), below(to)}
}

// NotInferred returns the dependencies of a plan that no edge confirms, as pairs of group ids: the
// waiting group and its dependency. Between charts any edge is enough, because whole charts wait (R11).
func (o *Order) NotInferred(p *plan.Plan) [][2]string {
	next := map[plan.Object][]plan.Object{}
	for _, e := range o.Edges {
		next[e.From] = append(next[e.From], e.To)
	}
	parts := map[string][]plan.Object{} // objects by group, and by chart with its subcharts
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
	var unconfirmed [][2]string
	for _, g := range p.Groups {
		for _, id := range direct[g.ID] {
			from, to := part(g, p.Group(id).Chart), part(p.Group(id), g.Chart)
			if reached[from] == nil {
				reached[from] = reach(parts[from], func(x plan.Object) []plan.Object { return next[x] })
			}
			if !slices.ContainsFunc(parts[to], func(x plan.Object) bool { return reached[from][x] }) {
				unconfirmed = append(unconfirmed, [2]string{g.ID, id})
			}
		}
	}
	return unconfirmed
}

// part returns the unit of order between a group and a group of the chart other: the subchart of their
// nearest common parent that contains the group, because whole subcharts wait (R11), or else the group's id.
func part(g *plan.Group, other string) string {
	parent := commonParent(g.Chart, other)
	if path, ok := child(parent, g.Chart); ok {
		return path
	}
	return g.ID
}

// reach returns the given nodes and all that can be reached from them.
func reach[T comparable](from []T, next func(T) []T) map[T]bool {
	reached := map[T]bool{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		if x := queue[0]; !reached[x] {
			reached[x] = true
			queue = append(queue, next(x)...)
		}
	}
	return reached
}
