package annotate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// unwrittenGroups are the groups that are not written, with the reasons.
//
// Rule R69a: all groups are written, or none, or with Partial those that wait for no unwritten group.
type unwrittenGroups map[groupKey]string

// add adds the groups of manual edits, those of charts whose dependencies cannot be written, and all
// groups that wait for them.
func (u unwrittenGroups) add(manual []ManualEdit, order Order, now *plan.Chart) {
	group := groupsOf(order.Resources)
	for _, m := range manual {
		for _, o := range m.Objects {
			if key, ok := group[o]; ok && u[key] == "" {
				u[key] = m.Why
			}
		}
		if m.Objects == nil {
			for _, missing := range missingIn(now, order.Tree) {
				for _, key := range group {
					if missing.path != "" && plan.Within(key.chart, missing.path) {
						u[key] = cmp.Or(u[key], "the dependencies of chart "+missing.path+" are not written")
					}
				}
			}
		}
	}
	u.addDependents(order.Resources)
}

// addDependents adds the groups that wait for an unwritten group: its objects come last, in the
// unsequenced group.
func (u unwrittenGroups) addDependents(resources []plan.Resource) {
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

// without returns the order without the unwritten groups: their objects keep their present
// annotations. If keepTree is set, the order also keeps its present tree.
func (u unwrittenGroups) without(order Order, now Order, keepTree bool) Order {
	if keepTree {
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

// explain returns the manual edits, plus one for each unwritten group that has none, with the reason.
func (u unwrittenGroups) explain(manual []ManualEdit, order Order) []ManualEdit {
	explained := map[groupKey]bool{}
	group := groupsOf(order.Resources)
	for _, m := range manual {
		for _, o := range m.Objects {
			explained[group[o]] = true
		}
	}
	objects := map[groupKey][]plan.Object{}
	for _, r := range order.Resources {
		key := groupKey{r.Chart, groupOf(r.Annotations)}
		objects[key] = append(objects[key], r.Object)
	}
	byID := func(a, b groupKey) int { return strings.Compare(a.chart+":"+a.name, b.chart+":"+b.name) }
	for _, key := range slices.SortedFunc(maps.Keys(u), byID) {
		if !explained[key] {
			manual = append(manual, ManualEdit{Chart: key.chart, Objects: objects[key], Why: u[key], Lines: []string{}})
		}
	}
	return manual
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

// notWritten wraps an error about an order that cannot be written.
func notWritten(dir string, err error) error {
	return fmt.Errorf("chart %s: writing its order would change what it deploys, so nothing was written: %w", dir, err)
}
