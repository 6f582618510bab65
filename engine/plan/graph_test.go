package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

// graph makes groups with one ConfigMap each. The keys are ids, the values their dependencies.
func graph(edges map[string][]string) []*Group {
	var groups []*Group
	for _, id := range slices.Sorted(maps.Keys(edges)) {
		groups = append(groups, &Group{
			ID: id, After: edges[id], Objects: []Object{object("ConfigMap/" + id)}, Waves: []Wave{{Count: 1}},
		})
	}
	normalize(groups)
	return groups
}

func TestPlanLookups(t *testing.T) {
	plan := &Plan{Groups: graph(map[string][]string{"a": {}, "b": {"a"}, "c": {"a", "b"}})}
	if got := plan.Dependencies(); !maps.Equal(got, map[string]bool{"a": true, "b": true}) { // R21
		t.Errorf("dependencies are %v", got)
	}
	if got := plan.Group("b"); got == nil || got.ID != "b" {
		t.Errorf("got %v for b", got)
	}
	if got := plan.Group("d"); got != nil {
		t.Errorf("got %v for an unknown id", got)
	}
}

func TestRemovalOrder(t *testing.T) { // R31
	groups := graph(map[string][]string{"a": {}, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}})
	groups[0].Objects = []Object{object("CustomResourceDefinition/w"), object("Widget/a"), object("Widget/b")}
	groups[0].Waves = []Wave{{Count: 1}, {Count: 2, Established: groups[0].Objects[:1]}}
	before := show(groups)
	sameLines(t, "reverse", show(RemovalOrder(groups)), []string{
		"d = ConfigMap/d", "b = ConfigMap/b < d", "c = ConfigMap/c < d",
		"a = Widget/b Widget/a | CustomResourceDefinition/w < b c",
	})
	sameLines(t, "input", show(groups), before)
}

func TestSubset(t *testing.T) { // R30
	groups := graph(map[string][]string{"a": {}, "b": {"a"}, "c": {"b"}, "d": {"c", "b"}, "e": {"c"}})
	groups[0].Objects = []Object{object("CustomResourceDefinition/w"), object("ConfigMap/a"), object("Widget/b")}
	groups[0].Waves = []Wave{{Count: 1}, {Count: 1}, {Count: 1, Established: groups[0].Objects[:1]}}
	without := func(names ...string) func(Object) bool {
		return func(o Object) bool { return !slices.Contains(names, o.Name) }
	}
	sameLines(t, "without b and c", show(Subset(groups, without("b", "c"))), []string{
		"a = CustomResourceDefinition/w | ConfigMap/a", "d = ConfigMap/d < a", "e = ConfigMap/e < a",
	})
	sameLines(t, "without the definition", show(Subset(groups, without("w", "a", "c", "d", "e"))), []string{
		"a = Widget/b", "b = ConfigMap/b < a",
	})
	sameLines(t, "nothing left", show(Subset(groups, func(Object) bool { return false })), nil)
	if all := Subset(groups, without()); len(all) != len(groups) || all[1].Layer != 1 {
		t.Errorf("got %v", show(all))
	}
}

func TestReduce(t *testing.T) {
	direct := Reduce(graph(map[string][]string{"a": {}, "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b", "c"}, "e": {"a"}}))
	for id, want := range map[string]string{"a": "[]", "b": "[a]", "c": "[b]", "d": "[c]", "e": "[a]"} {
		if got := fmt.Sprint(direct[id]); got != want || direct[id] == nil {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
}

// TestGraphsOfInvalidPlans: a plan that was read from a release record may be invalid.
func TestGraphsOfInvalidPlans(t *testing.T) {
	groups := []*Group{
		{ID: "a", After: []string{"b", "gone"}, Objects: []Object{object("ConfigMap/a")}, Waves: []Wave{{Count: 7}}},
		{ID: "b", After: []string{"a"}, Objects: []Object{object("ConfigMap/b"), object("Job/b")}},
		{ID: "c", After: []string{"a"}, Objects: []Object{object("ConfigMap/c")}, Waves: []Wave{{Count: -1}}},
	}
	n := 0
	for _, g := range Subset(RemovalOrder(groups), func(Object) bool { return true }) {
		n += len(g.Objects)
	}
	if n != 4 {
		t.Errorf("%d objects are left, want 4", n)
	}
	if got := Reduce(groups); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestFindCycles(t *testing.T) { // R13
	tests := []struct {
		next [][]int
		want string
	}{
		{nil, "[]"},
		{[][]int{{1}, {2}, {}}, "[]"},
		{[][]int{{0}}, "[[0]]"},
		{[][]int{{1}, {2}, {1}}, "[[1 2]]"},
		{[][]int{{1, 2}, {3}, {0}, {0}}, "[[0 2]]"},
		{[][]int{{1}, {0, 2}, {3}, {2, 3}}, "[[0 1] [2 3] [3]]"},
	}
	for _, test := range tests {
		if got := fmt.Sprint(findCycles(test.next)); got != test.want {
			t.Errorf("%v: got %s, want %s", test.next, got, test.want)
		}
	}
}

// TestReduceOfManyGroups compares Reduce with a simple algorithm on a graph of several blocks.
func TestReduceOfManyGroups(t *testing.T) {
	const n = 2*blockSize + 100
	random := rand.New(rand.NewPCG(3, 4))
	after := make([][]int, n)
	groups := make([]*Group, n)
	for i := range groups {
		groups[i] = &Group{ID: strconv.Itoa(i), After: []string{}}
		for range min(i, random.IntN(4)) {
			j := random.IntN(i)
			after[i] = append(after[i], j)
			groups[i].After = append(groups[i].After, strconv.Itoa(j))
		}
	}
	behind := make([]map[int]bool, n)
	direct := Reduce(groups)
	edges := 0
	for i := range groups {
		behind[i] = map[int]bool{}
		for _, j := range after[i] {
			maps.Copy(behind[i], behind[j])
		}
		want := []string{}
		for _, j := range after[i] {
			if !behind[i][j] {
				want = append(want, strconv.Itoa(j))
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if edges += len(want); !slices.Equal(direct[groups[i].ID], want) {
			t.Fatalf("%d has %v, want %v", i, direct[groups[i].ID], want)
		}
		for _, j := range after[i] {
			behind[i][j] = true
		}
	}
	if edges < n {
		t.Errorf("only %d edges", edges)
	}
}

// TestReduceOfALongChain would take half a gigabyte if Reduce kept the dependencies of all groups
// until the end.
func TestReduceOfALongChain(t *testing.T) {
	const n = 60_000
	groups := make([]*Group, n)
	for i := range groups {
		groups[i] = &Group{ID: strconv.Itoa(i), After: []string{}}
		if i > 0 {
			groups[i].After = []string{groups[i-1].ID}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	direct := Reduce(groups)
	runtime.ReadMemStats(&after)
	if len(direct) != n || len(direct["7"]) != 1 {
		t.Errorf("%d groups, 7 waits for %v", len(direct), direct["7"])
	}
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 100<<20 {
		t.Errorf("%d MiB for %d groups", grown>>20, n)
	}
}
