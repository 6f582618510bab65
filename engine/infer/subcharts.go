package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// chart returns the addition to the Chart.yaml of a chart.
func (a *arranger) chart(path string) *Chart {
	c := a.yaml[path]
	if c == nil {
		c = &Chart{Path: path, Subcharts: map[string][]string{}}
		a.yaml[path] = c
	}
	return c
}

// child returns the direct subchart of parent that contains the chart at path.
func child(parent, path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, parent+"/")
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, "/")
	return parent + "/" + name, true
}

// commonParent returns the nearest chart that contains both charts, which may be one of them.
func commonParent(x, y string) string {
	for x != y && !strings.HasPrefix(y, x+"/") {
		i := strings.LastIndexByte(x, '/')
		if i < 0 {
			return ""
		}
		x = x[:i]
	}
	return x
}

// linkSubcharts finds out which units and subcharts of a chart wait for which of its subcharts.
//
// Rule R65: between charts, whole subcharts are ordered; a subchart never waits for its parent
func (a *arranger) linkSubcharts(path string) {
	c := a.charts[path]
	if c == nil {
		return // its Chart.yaml cannot declare an order
	}
	g := newSubchartGraph(a, c)
	g.addFixed()
	for _, e := range a.across[path] {
		g.addEdge(e)
	}
	a.dropCycles(len(g.units)+len(g.children), &g.graph, "they wait for each other", g.name, g.keep)
	g.orderOwnUnits()
}

// subchartGraph has the dependencies among the units and the subcharts of a chart. Its nodes are the
// units, then the children.
type subchartGraph struct {
	graph
	arranger       *arranger
	chart          *plan.Chart
	units          []*unit
	index          map[*unit]int
	children       []string          // paths of the subcharts, sorted
	names          map[string]string // of the subcharts in Chart.yaml, by path
	declared       map[string]bool   // subcharts whose entry in Chart.yaml declares their dependencies
	childNeedsUnit bool              // a subchart needs an object of the chart itself
}

func newSubchartGraph(a *arranger, c *plan.Chart) *subchartGraph {
	g := &subchartGraph{arranger: a, chart: c, units: a.units[c.Path], index: map[*unit]int{}, names: map[string]string{}, declared: map[string]bool{}}
	for i, u := range g.units {
		g.index[u] = i
	}
	for _, s := range c.Subcharts {
		if s.Chart == nil {
			continue
		}
		g.children = append(g.children, s.Chart.Path)
		g.names[s.Chart.Path] = s.ID()
		if len(s.DependsOn) > 0 {
			g.declared[s.Chart.Path] = true
		}
	}
	slices.Sort(g.children)
	g.children = slices.Compact(g.children)
	return g
}

func (g *subchartGraph) name(at int) string {
	if at < len(g.units) {
		return g.units[at].members[0].name().String()
	}
	return g.children[at-len(g.units)]
}

func (g *subchartGraph) child(path string) (int, bool) {
	i, ok := slices.BinarySearch(g.children, path)
	return len(g.units) + i, ok
}

// addFixed adds the order among the chart's own units, and the order that its Chart.yaml declares.
func (g *subchartGraph) addFixed() {
	for _, u := range g.units {
		for _, to := range slices.SortedFunc(maps.Keys(u.dependencies), func(a, b *unit) int { return g.index[a] - g.index[b] }) {
			g.add(g.index[u], g.index[to], nil, 0)
		}
	}
	lookup := func(name string) (int, bool) {
		for _, s := range g.chart.Subcharts {
			if s.Chart != nil && (s.Name == name || s.Alias == name) {
				return g.child(s.Chart.Path)
			}
		}
		return 0, false
	}
	for _, s := range g.chart.Subcharts {
		for _, name := range s.DependsOn {
			if to, ok := lookup(name); ok && s.Chart != nil {
				from, _ := g.child(s.Chart.Path)
				g.add(from, to, nil, 0)
			}
		}
	}
	for _, name := range g.chart.DependsOn {
		if to, ok := lookup(name); ok {
			for i := range g.units {
				g.add(i, to, nil, 0)
			}
		}
	}
}

// addEdge adds an edge between charts whose nearest common parent is this one.
func (g *subchartGraph) addEdge(e *Edge) {
	from, to := g.indexOf(g.arranger.from(e)), g.indexOf(g.arranger.to(e))
	if from < 0 || to < 0 || from == to || from >= len(g.units) && g.declared[g.children[from-len(g.units)]] {
		return
	}
	class := e.class()
	if g.onlyNeedsApply(e) {
		class = Edge{Strength: Serving}.class() // on a cycle, drop it together with edges that need readiness
	}
	g.add(from, to, e, class)
}

// indexOf returns the index in the graph of the unit or subchart that contains an object, or -1.
func (g *subchartGraph) indexOf(n *node) int {
	var i int
	var ok bool
	if n.Chart == g.chart.Path {
		i, ok = g.index[g.arranger.unit[n.at]]
	} else if path, below := child(g.chart.Path, n.Chart); below {
		i, ok = g.child(path)
	}
	if !ok {
		return -1
	}
	return i
}

// onlyNeedsApply reports whether an edge needs an object only to be applied, not to be ready. Groups
// that start together are applied in the right order anyway (R15a).
func (g *subchartGraph) onlyNeedsApply(e *Edge) bool {
	return e.Strength == Hard && g.arranger.plain[g.arranger.to(e).at]
}

// onlyShares reports whether an edge exists only because its object is applied first, while a workload of the object's own
// chart uses it too: the two would wait for each other's whole charts, although they only share an object.
func (g *subchartGraph) onlyShares(e *Edge) bool {
	a, to := g.arranger, g.arranger.to(e)
	return g.onlyNeedsApply(e) && slices.ContainsFunc(a.byChart[to.Chart], func(own *Edge) bool { return own.at.to == to.at && a.from(own).isWorkload })
}

// keep makes a unit or a subchart wait for a subchart. It records an edge from a subchart to a unit
// as dropped, unless R15a already ensures its order.
func (g *subchartGraph) keep(at arc, e *Edge) {
	k := len(g.units)
	switch {
	case e == nil: // fixed
	case at.to >= k && g.onlyShares(e) && !slices.ContainsFunc(g.arcs, func(other arc) bool { return other.from == at.to }):
		// both start together, and the object is applied first (R15a)
	case at.from < k:
		g.units[at.from].subcharts[g.names[g.children[at.to-k]]] = true
	case at.to >= k:
		c := g.arranger.chart(g.chart.Path)
		from, to := g.names[g.children[at.from-k]], g.names[g.children[at.to-k]]
		c.Subcharts[from] = union(c.Subcharts[from], []string{to})
	case g.onlyNeedsApply(e) && len(g.units[at.to].dependencies) == 0:
		g.childNeedsUnit = true // both start together, and the object is applied first
	default:
		// The unit must not wait for the subchart either.
		g.childNeedsUnit = g.childNeedsUnit || e.isCertain()
		g.arranger.dropped = append(g.arranger.dropped, Dropped{Edge: *e, Why: fmt.Sprintf("a subchart cannot wait for objects of its parent, %s", g.chart.Path)})
	}
}

// orderOwnUnits decides how the chart's own objects wait for subcharts: all for the same ones, by
// Chart.yaml, or each group for different ones, as layers (R18).
func (g *subchartGraph) orderOwnUnits() {
	all := map[string]bool{}
	for _, u := range g.units {
		maps.Copy(all, u.subcharts)
	}
	if len(all) == 0 {
		return
	}
	same := !g.childNeedsUnit
	cache := map[*unit]map[string]bool{}
	for _, u := range g.units {
		same = same && (u.purpose == base || len(reachedSubcharts(u, cache)) == len(all))
	}
	c := g.arranger.chart(g.chart.Path)
	declaresGroups := slices.ContainsFunc(g.units, func(u *unit) bool { return u.declared }) && !c.Layers
	if !same && !declaresGroups {
		c.Layers = true
		return
	}
	if !g.childNeedsUnit {
		c.DependsOn = slices.Sorted(maps.Keys(all))
	}
	for _, u := range g.units {
		clear(u.subcharts)
	}
}

// reachedSubcharts returns the subcharts that a unit waits for, directly or indirectly.
func reachedSubcharts(u *unit, cache map[*unit]map[string]bool) map[string]bool {
	reached := cache[u]
	if reached == nil {
		reached = maps.Clone(u.subcharts)
		cache[u] = reached
		for to := range u.dependencies {
			maps.Copy(reached, reachedSubcharts(to, cache))
		}
	}
	return reached
}

// splitEdges divides the edges into those within a chart and those between charts.
func (a *arranger) splitEdges() {
	for i := range a.edges {
		e := &a.edges[i]
		from, to := a.from(e), a.to(e)
		if from.Chart == to.Chart {
			a.byChart[from.Chart] = append(a.byChart[from.Chart], e)
			continue
		}
		path := commonParent(from.Chart, to.Chart)
		a.across[path] = append(a.across[path], e)
	}
}

// order returns the result.
func (a *arranger) order() *Order {
	o := &Order{Edges: a.edges, Dropped: a.dropped, Groups: []Group{}, Charts: []Chart{}, jobs: map[plan.Object]bool{}, claims: map[plan.Object]bool{}}
	for _, path := range a.paths {
		for _, u := range a.units[path] {
			g := Group{Chart: path, Name: u.name, Declared: u.declared, After: []string{}, Subcharts: []string{}}
			for _, n := range u.members {
				g.Objects = append(g.Objects, n.name())
				if n.kind == claim && u.purpose == base {
					o.claims[n.name()] = true
				}
			}
			slices.SortFunc(g.Objects, plan.Object.Compare)
			for to := range u.dependencies {
				g.After = append(g.After, to.name)
			}
			slices.Sort(g.After)
			g.Subcharts = append(g.Subcharts, slices.Sorted(maps.Keys(u.subcharts))...)
			o.Groups = append(o.Groups, g)
		}
		if c := a.yaml[path]; c != nil {
			for _, names := range c.Subcharts {
				slices.Sort(names)
			}
			o.Charts = append(o.Charts, *c)
		}
	}
	slices.SortFunc(o.Groups, func(g, h Group) int {
		return cmp.Or(strings.Compare(g.Chart, h.Chart), strings.Compare(g.Name, h.Name))
	})
	for i := range a.edges {
		e := &a.edges[i]
		if to := a.to(e); to.name().Kind == "Job" && to.name().Group == "batch" {
			o.jobs[e.To] = true
		}
	}
	return o
}
