package plan

import (
	"cmp"
	"slices"
	"strings"
)

// SubchartHook is a hook that runs before the first or after the last group of its subchart
// (lockstep/hook-scope: subchart).
type SubchartHook struct {
	Chart  string // path of the subchart, which has groups
	Before bool
	Group  *Group
}

// Within reports whether a chart path equals another one or is below it.
func Within(chart, of string) bool { return chart == of || strings.HasPrefix(chart, of+"/") }

// AroundSubcharts adds hooks before and after the groups of their subcharts, in the given order. A
// hook before a subchart waits for everything that the subchart waits for, a hook after it for the
// whole subchart. Groups that wait for the subchart also wait for its hooks. The result is in plan
// order; AroundSubcharts modifies the groups.
func AroundSubcharts(groups []*Group, hooks []SubchartHook) []*Group {
	if len(hooks) == 0 {
		return groups
	}
	byChart := map[string][]SubchartHook{}
	var paths []string
	for _, h := range hooks {
		if byChart[h.Chart] == nil {
			paths = append(paths, h.Chart)
		}
		byChart[h.Chart] = append(byChart[h.Chart], h)
	}
	// Inner subcharts first: their hooks are part of the outer subcharts.
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(a, b))
	})
	for _, path := range paths {
		groups = aroundSubchart(groups, path, byChart[path])
	}
	normalize(groups)
	AwaitedJobs.Complete(groups)
	return groups
}

func aroundSubchart(groups []*Group, path string, hooks []SubchartHook) []*Group {
	inside := map[string]bool{}
	var all, dependencies []string
	for _, g := range groups {
		if Within(g.Chart, path) {
			inside[g.ID], all = true, append(all, g.ID)
		}
	}
	isInside := func(id string) bool { return inside[id] }
	for _, g := range groups {
		if inside[g.ID] {
			dependencies = append(dependencies, slices.DeleteFunc(slices.Clone(g.After), isInside)...)
		}
	}
	before, after := dependencies, all
	var added []*Group
	for _, h := range hooks {
		g := *h.Group
		if h.Before {
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
