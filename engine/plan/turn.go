package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Turn is a hook that runs before the first or after the last group of its subchart
// (lockstep/hook-scope: subchart).
type Turn struct {
	Chart  string // path of the subchart, which has groups
	Before bool
	Group  *Group
}

// Within reports whether a chart path equals another one or is below it.
func Within(chart, of string) bool { return chart == of || strings.HasPrefix(chart, of+"/") }

// AroundSubcharts adds turns before and after the groups of their subcharts, in the given
// order. A turn before waits for everything that the subchart waits for, a turn after for the
// whole subchart, and groups that wait for the subchart also wait for its turns. The result
// is in plan order; AroundSubcharts modifies the groups.
func AroundSubcharts(groups []*Group, turns []Turn) []*Group {
	if len(turns) == 0 {
		return groups
	}
	byChart := map[string][]Turn{}
	var paths []string
	for _, t := range turns {
		if byChart[t.Chart] == nil {
			paths = append(paths, t.Chart)
		}
		byChart[t.Chart] = append(byChart[t.Chart], t)
	}
	// Inner subcharts first: their turns are part of the outer subcharts.
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(a, b))
	})
	for _, p := range paths {
		groups = aroundSubchart(groups, p, byChart[p])
	}
	normalize(groups)
	return groups
}

func aroundSubchart(groups []*Group, path string, turns []Turn) []*Group {
	inside := map[string]bool{}
	var all, gates []string
	for _, g := range groups {
		if Within(g.Chart, path) {
			inside[g.ID], all = true, append(all, g.ID)
		}
	}
	isInside := func(id string) bool { return inside[id] }
	for _, g := range groups {
		if inside[g.ID] {
			gates = append(gates, slices.DeleteFunc(slices.Clone(g.After), isInside)...)
		}
	}
	before, after := gates, all
	var added []*Group
	for _, t := range turns {
		g := *t.Group
		if t.Before {
			g.After, before = append([]string{}, before...), []string{g.ID}
		} else {
			g.After, after = append([]string{}, after...), []string{g.ID}
		}
		added = append(added, &g)
	}
	for _, g := range groups {
		switch {
		case inside[g.ID]:
			g.After = append(slices.Clone(g.After), before...)
		case slices.ContainsFunc(g.After, isInside):
			g.After = append(slices.Clone(g.After), after...)
		}
	}
	return append(groups, added...)
}
