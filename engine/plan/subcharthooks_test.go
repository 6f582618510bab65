package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAroundSubcharts puts hooks around an inner and an outer subchart.
func TestAroundSubcharts(t *testing.T) {
	group := func(id string, after ...string) *Group {
		chart, _, _ := strings.Cut(id, ":")
		return &Group{ID: id, Chart: chart, After: append([]string{}, after...)}
	}
	hook := func(chart, id string, before bool) SubchartHook {
		return SubchartHook{chart, before, &Group{ID: id, Chart: chart}}
	}
	groups := []*Group{group("r/base:x"), group("r/db:a", "r/base:x"), group("r/db/in:c"), group("r/db:b", "r/db:a", "r/db/in:c"), group("r/app:y", "r/db:b")}
	got := AroundSubcharts(groups, []SubchartHook{
		hook("r/db", "pre-1", true), hook("r/db", "pre-2", true), hook("r/db", "post-1", false), hook("r/db", "post-2", false),
		hook("r/db/in", "in-pre", true), hook("r/db/in", "in-post", false),
	})
	want := []string{
		"r/base:x <- ",
		"pre-1 <- r/base:x",
		"pre-2 <- pre-1",
		"in-pre <- pre-2",
		"r/db:a <- pre-2 r/base:x",
		"r/db/in:c <- in-pre pre-2",
		"in-post <- pre-2 r/db/in:c",
		"r/db:b <- in-post pre-2 r/db/in:c r/db:a",
		"post-1 <- in-post in-pre r/db/in:c r/db:a r/db:b",
		"post-2 <- post-1",
		"r/app:y <- post-2 r/db:b",
	}
	var lines []string
	for _, g := range got {
		lines = append(lines, g.ID+" <- "+strings.Join(g.After, " "))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestAroundSubchartsKeepsOrder: groups keep all their dependencies, and all groups of a subchart
// come after the hook before it and before the hook after it.
func TestAroundSubchartsKeepsOrder(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		charts := []string{"r", "r/a", "r/a/b", "r/c"}
		var groups []*Group
		for i := range 12 {
			g := &Group{ID: string(rune('A' + i)), Chart: charts[r.IntN(len(charts))], After: []string{}}
			for _, before := range groups {
				// Groups wait only for groups of the same chart (R11).
				if Within(g.Chart, before.Chart) && Within(before.Chart, g.Chart) && r.IntN(3) == 0 {
					g.After = append(g.After, before.ID)
				}
			}
			groups = append(groups, g)
		}
		var was [][2]string
		for _, g := range groups {
			for _, a := range g.After {
				was = append(was, [2]string{a, g.ID})
			}
		}
		hooks := []SubchartHook{{"r/a", true, &Group{ID: "pre"}}, {"r/a", false, &Group{ID: "post"}}, {"r/a/b", true, &Group{ID: "in"}}}
		got := AroundSubcharts(groups, hooks)
		before := map[string]map[string]bool{} // all that comes before a group
		for _, g := range got {                // in plan order
			all := map[string]bool{}
			for _, a := range g.After {
				all[a] = true
				if before[a] == nil {
					t.Fatalf("seed %d: %s comes before its dependency %s", seed, g.ID, a)
				}
				for b := range before[a] {
					all[b] = true
				}
			}
			before[g.ID] = all
		}
		for _, edge := range was {
			if !before[edge[1]][edge[0]] {
				t.Errorf("seed %d: %s no longer waits for %s", seed, edge[1], edge[0])
			}
		}
		for _, g := range got {
			if Within(g.Chart, "r/a") && (!before[g.ID]["pre"] || !before["post"][g.ID]) {
				t.Errorf("seed %d: %s is not between pre and post", seed, g.ID)
			}
			if g.Chart == "r/a/b" && !before[g.ID]["in"] {
				t.Errorf("seed %d: %s does not wait for in", seed, g.ID)
			}
		}
	}
}
