package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// planJSON returns the plan and its JSON, or nil and the error.
func planJSON(t testing.TB, root *Chart, resources []Resource) (*Plan, string) {
	t.Helper()
	plan, err := Build(root, resources)
	if err != nil {
		return nil, err.Error()
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return plan, string(text)
}

// checkInput checks the properties of all plans, and that the order of the input does not matter.
func checkInput(t testing.TB, root *Chart, resources []Resource, shuffle func(n int, swap func(i, j int))) (planned bool) {
	t.Helper()
	plan, text := planJSON(t, root, resources)
	shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
	if _, again := planJSON(t, root, resources); again != text {
		t.Fatalf("the plan depends on the order of the input:\n%s\n%s", text, again)
	}
	Lint(root, resources)
	Flat(nil, resources, "shop")
	if plan == nil {
		return false
	}
	checkPlan(t, root, resources, plan)
	checkGraphs(t, plan.Groups)
	return true
}

// checkPlan checks the plan against its input.
func checkPlan(t testing.TB, root *Chart, resources []Resource, plan *Plan) {
	t.Helper()
	checkShape(t, plan.Groups)
	left := make(map[Object]int)
	for _, r := range resources {
		left[r.Object] = 1
	}
	for _, g := range plan.Groups {
		for _, o := range g.Objects {
			left[o]--
		}
	}
	for o, n := range left {
		if n != 0 {
			t.Errorf("%s is missing, or in two groups", o)
		}
	}
	checkNeeds(t, plan, resources)
	checkUnsequenced(t, plan)
	if root != nil {
		checkSubcharts(t, plan, root)
	}
}

// checkShape checks layers, order and waves of a graph.
func checkShape(t testing.TB, groups []*Group) {
	t.Helper()
	layers := make(map[string]int)
	for i, g := range groups {
		deepest := -1
		for _, id := range g.After {
			l, ok := layers[id]
			if !ok {
				t.Errorf("%s waits for %s, which is not before it", g.ID, id) // R14
			}
			deepest = max(deepest, l)
		}
		if g.Layer != deepest+1 {
			t.Errorf("%s is in layer %d, want %d", g.ID, g.Layer, deepest+1)
		}
		if g.After == nil || !slices.IsSorted(g.After) || len(slices.Compact(slices.Clone(g.After))) != len(g.After) {
			t.Errorf("%s has dependencies %v", g.ID, g.After)
		}
		if i > 0 && (groups[i-1].Layer > g.Layer || groups[i-1].Layer == g.Layer && groups[i-1].ID >= g.ID) {
			t.Errorf("%s is not in plan order", g.ID)
		}
		layers[g.ID] = g.Layer
		done := make(map[Object]bool)
		at := 0
		for _, w := range g.Waves {
			for _, o := range w.Established {
				if !done[o] {
					t.Errorf("%s needs %s to be established, which is in no earlier wave", g.ID, o) // R17
				}
			}
			for _, o := range g.Objects[at : at+w.Count] {
				done[o] = true
			}
			at += w.Count
		}
		if at != len(g.Objects) || at == 0 {
			t.Errorf("%s has %d objects, %d of them in waves", g.ID, len(g.Objects), at)
		}
	}
}

// checkNeeds checks that each object in a group waits for the groups that it names (R7, R18).
func checkNeeds(t testing.TB, plan *Plan, resources []Resource) {
	t.Helper()
	byObject := make(map[Object]*Group)
	for _, g := range plan.Groups {
		for _, o := range g.Objects {
			byObject[o] = g
		}
	}
	for _, r := range resources {
		g := byObject[r.Object]
		if g.Name == Unsequenced {
			continue
		}
		for _, key := range []string{needs, above} {
			value, _ := Annotation(r.Annotations, key)
			named, err := ParseList(value)
			if blank := strings.TrimSpace(value); err != nil && blank != "" && (key != needs || blank != "null") {
				named = []string{value}
			}
			for _, name := range named {
				if !slices.Contains(g.After, g.Chart+":"+name) {
					t.Errorf("%s does not wait for %s, as %s does", g.ID, name, r.Object)
				}
			}
		}
	}
}

// checkUnsequenced checks that an unsequenced group waits for all other groups of its chart, and that
// none of them waits for it (R10).
func checkUnsequenced(t testing.TB, plan *Plan) {
	t.Helper()
	for _, g := range plan.Groups {
		last := plan.Group(g.Chart + ":" + Unsequenced)
		if last != nil && last != g && (!slices.Contains(last.After, g.ID) || slices.Contains(g.After, last.ID)) {
			t.Errorf("%s and the unsequenced group are not in order", g.ID)
		}
	}
}

// checkSubcharts checks the order between charts (R11).
func checkSubcharts(t testing.TB, plan *Plan, c *Chart) {
	t.Helper()
	closed := closure(plan.Groups)
	inside := func(id, path string) bool { return strings.HasPrefix(id, path+":") || strings.HasPrefix(id, path+"/") }
	check := func(after, path string, ref string) {
		for _, s := range c.Subcharts {
			if s.Chart == nil || s.Name != ref && s.Alias != ref {
				continue
			}
			for _, g := range plan.Groups {
				for _, h := range plan.Groups {
					if inside(g.ID, path) && strings.HasPrefix(g.ID, after) && inside(h.ID, s.Chart.Path) && !closed[g.ID][h.ID] {
						t.Errorf("%s does not wait for %s", g.ID, h.ID)
					}
				}
			}
		}
	}
	for _, ref := range c.DependsOn {
		check(c.Path+":", c.Path, ref)
	}
	for _, s := range c.Subcharts {
		if s.Chart == nil {
			continue
		}
		for _, ref := range s.DependsOn {
			check(s.Chart.Path, s.Chart.Path, ref)
		}
		checkSubcharts(t, plan, s.Chart)
	}
}

// closure returns for each group the groups that it waits for, directly or indirectly. The groups
// must be in plan order.
func closure(groups []*Group) map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for _, g := range groups {
		all[g.ID] = make(map[string]bool)
		for _, id := range g.After {
			all[g.ID][id] = true
			maps.Copy(all[g.ID], all[id])
		}
	}
	return all
}

func sameClosure(a, b map[string]map[string]bool) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]bool) bool { return maps.Equal(x, y) })
}

// checkGraphs checks Reduce, RemovalOrder and Subset on a plan.
func checkGraphs(t testing.TB, groups []*Group) {
	t.Helper()
	closed := closure(groups)

	reduced := make([]*Group, len(groups))
	direct := Reduce(groups)
	for i, g := range groups {
		reduced[i] = &Group{ID: g.ID, After: direct[g.ID]}
		for _, id := range direct[g.ID] {
			for _, other := range g.After {
				if closed[other][id] {
					t.Errorf("Reduce keeps %s → %s, which %s implies", g.ID, id, other)
				}
			}
		}
	}
	if !sameClosure(closure(reduced), closed) {
		t.Error("Reduce changes the order")
	}

	reversed := RemovalOrder(groups)
	checkShape(t, reversed)
	back := closure(reversed)
	for a := range closed {
		for b := range closed {
			if closed[a][b] != back[b][a] {
				t.Errorf("RemovalOrder: order of %s and %s", a, b) // R31
			}
		}
	}
	again := RemovalOrder(reversed)
	if !sameClosure(closure(again), closed) {
		t.Error("RemovalOrder applied twice changes the order")
	}
	for i, g := range again {
		if g.ID != groups[i].ID || !slices.Equal(g.Objects, groups[i].Objects) {
			t.Errorf("RemovalOrder applied twice changes %s", g.ID)
		}
	}

	for _, keep := range []string{"ConfigMap", "Job", "none"} {
		checkSubset(t, groups, closed, keep)
	}
}

func checkSubset(t testing.TB, groups []*Group, closed map[string]map[string]bool, kind string) {
	t.Helper()
	left := Subset(groups, func(o Object) bool { return o.Kind == kind })
	checkShape(t, left)
	kept := closure(left)
	for a := range kept {
		for b := range kept {
			if closed[a][b] != kept[a][b] {
				t.Errorf("Subset of %s: order of %s and %s", kind, a, b)
			}
		}
	}
	n := 0
	for _, g := range groups {
		if slices.ContainsFunc(g.Objects, func(o Object) bool { return o.Kind == kind }) {
			n++
		}
	}
	if n != len(left) {
		t.Errorf("Subset of %s has %d groups, want %d", kind, len(left), n)
	}
}
