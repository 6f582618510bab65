package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// makeUnits assigns all objects to units. finishUnits drops those of charts with weights (R19).
//
// Rule R64: objects that only one workload needs join its group, shared ones form a group that comes
// first, and objects that wait for the same groups form another one
func (a *arranger) makeUnits() {
	for _, n := range a.sorted {
		name, after, layer := declaredGroup(n)
		switch {
		case a.weighted[n.Chart] || name == plan.Unsequenced:
		case name != "":
			u := a.unitFor(n.Chart, workload, "declared "+name)
			u.declared, u.name = true, name
			u.declaredAfter = union(u.declaredAfter, after)
			a.put(n, u)
			if layer {
				a.chart(n.Chart).Layers = true
			}
		case n.isWorkload:
			a.put(n, a.unitFor(n.Chart, workload, n.name().Kind+" "+n.name().Name+" "+n.name().Namespace))
		case n.kind == crd:
			a.put(n, a.unitFor(n.Chart, crds, ""))
		}
	}
	for _, n := range a.sorted { // before the followers, whose units depend on those of their dependencies
		if a.unit[n.at] == nil && a.plain[n.at] && !a.belongsToFollower(n) {
			a.putPlain(n)
		}
	}
	for _, n := range a.sorted {
		if a.unit[n.at] == nil && !a.plain[n.at] {
			a.putFollower(n)
		}
	}
	for _, n := range a.sorted { // the plain objects of followers
		if a.unit[n.at] == nil {
			a.put(n, a.unit[a.owner[n.at].at])
		}
	}
	for _, units := range a.units {
		for _, u := range units {
			slices.SortFunc(u.members, func(x, y *node) int { return a.place[x.at] - a.place[y.at] })
		}
	}
}

// belongsToFollower reports whether a plain object joins its owner later, because the owner is a
// follower and has no unit yet.
func (a *arranger) belongsToFollower(n *node) bool {
	o := a.owner[n.at]
	return o != nil && !a.shared[n.at] && a.unit[o.at] == nil
}

// putPlain assigns a plain object to the unit of its owner. What several objects use comes before all of them, in the
// base unit, so that none of them waits for another. A claim that nobody uses stays on its own.
func (a *arranger) putPlain(n *node) {
	switch {
	case a.joinsOwner(n):
		a.put(n, a.unit[a.owner[n.at].at])
	case a.staysAlone(n):
		a.put(n, a.unitFor(n.Chart, loose, n.name().Kind))
	default:
		a.put(n, a.unitFor(n.Chart, base, ""))
	}
}

// putFollower assigns an object that is neither a workload nor plain: to the unit that it references
// if that is the only one, or else to the unit of objects that wait for the same units.
func (a *arranger) putFollower(n *node) {
	dependencies := map[*unit]bool{}
	elsewhere := map[string]bool{}
	named := true // all edges are references
	for _, e := range a.out[n.at] {
		to := a.to(e)
		if to.Chart != n.Chart {
			if !strings.HasPrefix(n.Chart, to.Chart+"/") { // a subchart cannot wait for its parent (R65)
				elsewhere[to.Chart] = true
			}
			continue
		}
		if u := a.unit[to.at]; u != nil && u.purpose != base {
			dependencies[u] = true
			named = named && e.Strength == Hard
		}
	}
	if len(dependencies) == 0 && len(elsewhere) == 0 {
		a.put(n, a.unitFor(n.Chart, loose, n.name().Kind+" "+n.name().Group))
		return
	}
	for u := range dependencies {
		if len(dependencies) == 1 && len(elsewhere) == 0 && named && u.purpose == workload {
			a.put(n, u)
			return
		}
	}
	key := slices.Collect(maps.Keys(elsewhere))
	for u := range dependencies {
		key = append(key, fmt.Sprint(u.purpose, " ", u.key))
	}
	slices.Sort(key)
	a.put(n, a.unitFor(n.Chart, followers, strings.Join(key, "\n")))
}

// findDependencies finds the dependencies between the units of a chart. It drops inferred edges on a
// cycle with declared dependencies.
func (a *arranger) findDependencies(path string) {
	units := a.units[path]
	index := map[*unit]int{}
	byName := map[string]*unit{}
	for i, u := range units {
		index[u] = i
		if u.declared {
			byName[u.name] = u
		}
	}
	g := &graph{}
	for _, u := range units {
		for _, name := range u.declaredAfter {
			if to := byName[name]; to != nil {
				g.add(index[u], index[to], nil, 0)
			}
		}
	}
	var fromDeclared []*Edge
	for _, e := range a.byChart[path] {
		from, to := a.unit[e.at.from], a.unit[e.at.to]
		switch {
		case from == nil || to == nil || from == to:
		case from.declared:
			fromDeclared = append(fromDeclared, e)
		default:
			g.add(index[from], index[to], e, 1)
		}
	}
	name := func(at int) string { return units[at].members[0].name().String() }
	a.dropCycles(len(units), g, "the declared order is the opposite", name, func(at arc, _ *Edge) {
		units[at.from].dependencies[units[at.to]] = true
	})
	for _, e := range fromDeclared {
		a.checkDeclared(e)
	}
}

// checkDeclared records an edge from a declared group as dropped if that group does not wait for the
// target.
func (a *arranger) checkDeclared(e *Edge) {
	from, to := a.unit[e.at.from], a.unit[e.at.to]
	waits := reach([]*unit{from}, func(u *unit) []*unit { return slices.Collect(maps.Keys(u.dependencies)) })[to]
	if !waits && !(len(to.dependencies) == 0 && e.Strength == Hard && a.plain[a.to(e).at]) {
		a.dropped = append(a.dropped, Dropped{Edge: *e, Why: fmt.Sprintf("group %s is declared and does not wait for it", from.name)})
	}
}

// finishUnits makes sure that no unit of a chart is isolated, because isolated groups come last (R9).
// A chart in which no unit has to wait gets no groups.
func (a *arranger) finishUnits(path string) {
	needed := false
	for _, u := range a.units[path] {
		needed = needed || u.declared || len(u.subcharts) > 0
		for to := range u.dependencies {
			needed = needed || to.purpose != base || slices.ContainsFunc(to.members, func(n *node) bool { return lateKinds[n.kind] })
		}
	}
	if !needed || a.weighted[path] {
		delete(a.units, path)
		return
	}
	awaited := map[*unit]bool{}
	for _, u := range a.units[path] {
		maps.Copy(awaited, u.dependencies)
	}
	var roots, isolated []*unit
	for _, u := range a.units[path] {
		if len(u.dependencies) > 0 || u.declared || u.purpose == base {
			continue
		}
		roots = append(roots, u)
		if !awaited[u] && len(u.subcharts) == 0 {
			isolated = append(isolated, u)
		}
	}
	a.anchor(path, roots, isolated)
}

// anchor makes units without dependencies wait for the base unit, so that none is isolated. This
// costs no time, because objects of the base unit are ready on apply. Without such objects, those of isolated units get no group.
func (a *arranger) anchor(path string, roots, isolated []*unit) {
	first := a.unitFor(path, base, "")
	for _, from := range [][]*unit{isolated, a.units[path]} {
		if len(first.members) == 0 && len(isolated) > 0 {
			a.movePlain(first, from)
		}
	}
	if len(first.members) == 0 {
		a.units[path] = slices.DeleteFunc(a.units[path], func(u *unit) bool { return u == first || slices.Contains(isolated, u) })
		return
	}
	for _, u := range roots {
		u.dependencies[first] = true
	}
}

// movePlain moves the plain objects of units to first, and makes these units wait for it.
func (a *arranger) movePlain(first *unit, units []*unit) {
	for _, u := range units {
		if u == first || u.declared {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(u.members), func(n *node) bool { return a.plain[n.at] && n.kind != claim })
		if len(rest) == len(u.members) || len(rest) == 0 {
			continue
		}
		for _, n := range u.members {
			if a.plain[n.at] && n.kind != claim {
				a.put(n, first)
			}
		}
		u.members = rest
		u.dependencies[first] = true
	}
}
