package annotate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// unwritten holds the groups that are not written, with the reason.
//
// Rule R69a: all or nothing, or a closed part.
type unwritten map[groupKey]string

// add adds the groups of left, and those of charts whose dependencies cannot be written.
func (u unwritten) add(left []Left, order Order, now *plan.Chart) {
	group := groupsOf(order.Resources)
	for _, l := range left {
		for _, o := range l.Objects {
			if key, ok := group[o]; ok && u[key] == "" {
				u[key] = l.Why
			}
		}
		if l.Objects == nil {
			for _, m := range missing(now, order.Tree) {
				for _, key := range group {
					if m.path != "" && plan.Within(key.chart, m.path) {
						u[key] = cmp.Or(u[key], "the dependencies of chart "+m.path+" are not written")
					}
				}
			}
		}
	}
	u.close(order.Resources)
}

// close adds the groups that wait for an unwritten group: its objects run last, with all
// objects without a group.
func (u unwritten) close(resources []plan.Resource) {
	for grown := true; grown; {
		grown = false
		for _, r := range resources {
			key := groupKey{r.Chart, groupOf(r.Annotations)}
			if key.name == "" || u[key] != "" {
				continue
			}
			for _, name := range needsOf(r.Annotations) {
				if u[groupKey{r.Chart, name}] != "" {
					u[key], grown = "it waits for group "+name+", which is not written", true
					break
				}
			}
		}
	}
}

// without returns the order without the unwritten groups, whose objects keep their present
// annotations. With noCharts it also keeps the present tree.
func (u unwritten) without(order Order, now Order, noCharts bool) Order {
	if noCharts {
		order.Tree = now.Tree
	}
	present := map[plan.Object]map[string]string{}
	for _, r := range now.Resources {
		present[r.Object] = r.Annotations
	}
	order.Resources = slices.Clone(order.Resources)
	for i, r := range order.Resources {
		if u[groupKey{r.Chart, groupOf(r.Annotations)}] != "" {
			order.Resources[i].Annotations = present[r.Object]
		}
	}
	return order
}

// explain adds the unwritten groups that are not in left yet, with their reasons.
func (u unwritten) explain(left []Left, order Order) []Left {
	explained := map[groupKey]bool{}
	group := groupsOf(order.Resources)
	for _, l := range left {
		for _, o := range l.Objects {
			explained[group[o]] = true
		}
	}
	objects := map[groupKey][]plan.Object{}
	for _, r := range order.Resources {
		key := groupKey{r.Chart, groupOf(r.Annotations)}
		objects[key] = append(objects[key], r.Object)
	}
	for _, key := range slices.SortedFunc(maps.Keys(u), func(a, b groupKey) int { return strings.Compare(a.chart+":"+a.name, b.chart+":"+b.name) }) {
		if !explained[key] {
			left = append(left, Left{Chart: key.chart, Objects: objects[key], Why: u[key], Lines: []string{}})
		}
	}
	return left
}

func groupsOf(resources []plan.Resource) map[plan.Object]groupKey {
	out := map[plan.Object]groupKey{}
	for _, r := range resources {
		if name := groupOf(r.Annotations); name != "" {
			out[r.Object] = groupKey{r.Chart, name}
		}
	}
	return out
}

// notWritten returns the error of an order that cannot be written.
func notWritten(dir string, err error) error {
	return fmt.Errorf("chart %s: writing its order would change what it deploys, so nothing was written: %w", dir, err)
}
