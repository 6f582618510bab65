package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// makeUnits puts each object into a unit.
//
// Rule R64: what only one workload needs is in its group, what several need in
// one that comes first, and what waits for the same groups together.
func (a *arranger) makeUnits() {
	for _, n := range a.sorted {
		name, after, layer := written(n)
		switch {
		case a.family(n.Chart) == byWeight || name == plan.Unsequenced:
		case name != "":
			u := a.of(n.Chart, workload, "written "+name)
			u.written, u.name = true, name
			u.after = union(u.after, after)
			a.put(n, u)
			if layer {
				a.chart(n.Chart).Layers = true
			}
		case n.works:
			a.put(n, a.of(n.Chart, workload, n.name().Kind+" "+n.name().Name+" "+n.name().Namespace))
		case n.kind() == crd:
			a.put(n, a.of(n.Chart, kinds, ""))
		}
	}
	for _, n := range a.sorted {
		if a.unit[n.at] == nil && a.plain[n.at] && !a.ofFollower(n) {
			a.putPlain(n)
		}
	}
	for _, n := range a.sorted {
		if a.unit[n.at] == nil && !a.plain[n.at] {
			a.putFollower(n)
		}
	}
	for _, n := range a.sorted {
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

// ofFollower reports whether a plain object goes where its owner does, which is
// no workload.
func (a *arranger) ofFollower(n *node) bool {
	o := a.owner[n.at]
	return o != nil && !a.shared[n.at] && a.unit[o.at] == nil
}

func (a *arranger) putPlain(n *node) {
	owner := a.owner[n.at]
	switch {
	case n.kind() == claim && (owner == nil || a.shared[n.at]):
		a.put(n, a.claimed(n))
	case owner != nil && !a.shared[n.at] && !late[n.kind()]:
		a.put(n, a.unit[owner.at])
	default:
		a.put(n, a.of(n.Chart, base, ""))
	}
}

// claimed is the unit of a claim that several use: that of the first of them,
// since it may be bound only once a pod uses it.
func (a *arranger) claimed(claim *node) *unit {
	for _, n := range a.sorted {
		if n.works && n.Chart == claim.Chart && slices.ContainsFunc(a.out[n.at], func(e Edge) bool { return e.To == claim.name() }) {
			return a.unit[n.at]
		}
	}
	return a.of(claim.Chart, loose, claim.name().Kind)
}

// putFollower puts an object that is no workload, nor plain, to the units that it
// waits for: into the only one that has what it names, or beside others that wait
// for the same ones.
func (a *arranger) putFollower(n *node) {
	gates := map[*unit]bool{}
	elsewhere := map[string]bool{}
	named := true // by all edges
	for _, e := range a.out[n.at] {
		to := a.to(e)
		if to.Chart != n.Chart {
			elsewhere[to.Chart] = true
			continue
		}
		if u := a.unit[to.at]; u != nil && u.sort != base {
			gates[u] = true
			named = named && e.Strength == Hard
		}
	}
	if len(gates) == 0 && len(elsewhere) == 0 {
		a.put(n, a.of(n.Chart, loose, n.name().Kind+" "+n.name().Group))
		return
	}
	if len(gates) == 1 && len(elsewhere) == 0 && named {
		for u := range gates {
			if u.sort == workload {
				a.put(n, u)
				return
			}
		}
	}
	var key []string
	for u := range gates {
		key = append(key, fmt.Sprint(u.sort, " ", u.key))
	}
	key = append(key, slices.Collect(maps.Keys(elsewhere))...)
	slices.Sort(key)
	a.put(n, a.of(n.Chart, followers, strings.Join(key, "\n")))
}

// gate finds what the units of a chart wait for in it. Of circles between what
// the author has written and what follows from objects the latter goes.
func (a *arranger) gate(path string) {
	units := a.units[path]
	index := map[*unit]int{}
	byName := map[string]*unit{}
	for i, u := range units {
		index[u] = i
		if u.written {
			byName[u.name] = u
		}
	}
	var arcs []arc
	var edges []Edge
	for _, u := range units {
		for _, name := range u.after {
			if to := byName[name]; to != nil {
				arcs = append(arcs, arc{index[u], index[to]})
			}
		}
	}
	said := len(arcs)
	for _, e := range a.between(path) {
		from, to := a.unit[a.r.by[e.From].at], a.unit[a.to(e).at]
		if from != nil && to != nil && from != to && !from.written {
			arcs = append(arcs, arc{index[from], index[to]})
			edges = append(edges, e)
		}
	}
	closing := breakCycles(len(units), arcs)
	for i, c := range arcs {
		cycle, closes := closing[i]
		if !closes {
			units[c.from].gates[units[c.to]] = true
			continue
		}
		if i < said {
			continue // plan.Build says so (R13)
		}
		d := Dropped{Edge: edges[i-said], Why: "the groups that are written wait the other way round"}
		for _, at := range cycle {
			d.Cycle = append(d.Cycle, units[at].members[0].name().String())
		}
		a.dropped = append(a.dropped, d)
	}
}

// between are the edges within a chart, the strongest first.
func (a *arranger) between(path string) []Edge {
	var edges []Edge
	for _, e := range a.byChart[path] {
		if a.to(e).Chart == path {
			edges = append(edges, e)
		}
	}
	slices.SortStableFunc(edges, compareStrength)
	return edges
}

// settle sees to it that the units of a chart can be groups: that none is without
// any edge, which would come last (R9), and that there are groups at all only
// where something waits.
func (a *arranger) settle(path string) {
	waits := false
	for _, u := range a.units[path] {
		waits = waits || u.written || len(u.waits) > 0
		for to := range u.gates {
			waits = waits || to.sort != base || slices.ContainsFunc(to.members, func(n *node) bool { return late[n.kind()] })
		}
	}
	if !waits || a.family(path) == byWeight {
		delete(a.units, path)
		return
	}
	awaited := map[*unit]bool{}
	for _, u := range a.units[path] {
		for to := range u.gates {
			awaited[to] = true
		}
	}
	var alone []*unit
	for _, u := range a.units[path] {
		if len(u.gates)+len(u.waits) == 0 && !awaited[u] && !u.written {
			alone = append(alone, u)
		}
	}
	a.anchor(path, alone)
}

// anchor has units without any edge wait for what is there at once: as it is
// waited for, they are no longer isolated, and begin as early as before.
func (a *arranger) anchor(path string, alone []*unit) {
	if len(alone) == 0 {
		return
	}
	first := a.of(path, base, "")
	if len(first.members) == 0 {
		a.carve(first, alone)
	}
	if len(first.members) == 0 {
		a.carve(first, a.units[path])
	}
	if len(first.members) == 0 {
		a.units[path] = slices.DeleteFunc(a.units[path], func(u *unit) bool { return u == first || slices.Contains(alone, u) })
		return
	}
	for _, u := range alone {
		if u != first {
			u.gates[first] = true
		}
	}
}

// carve moves plain objects out of units into one that comes first.
func (a *arranger) carve(first *unit, units []*unit) {
	for _, u := range units {
		if u == first || u.written {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(u.members), func(n *node) bool { return a.plain[n.at] && n.kind() != claim })
		if len(left) == len(u.members) || len(left) == 0 {
			continue
		}
		for _, n := range u.members {
			if a.plain[n.at] && n.kind() != claim {
				a.put(n, first)
			}
		}
		u.members = left
		u.gates[first] = true
	}
}
