package plan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestHugeCharts: each of these would take minutes if planning took quadratic time in the number
// of groups, kinds or cycles.
func TestHugeCharts(t *testing.T) {
	const n = 10_000
	group := func(i int) string { return fmt.Sprintf("g%06d", i) }
	waiting := func(i, forGroup int) []string { return []string{in, group(i), needs, `["` + group(forGroup) + `"]`} }
	tests := map[string]struct {
		kind        func(i int) string
		annotations func(i int) []string
		groups      int // those of the plan
		errors      int
	}{
		"weights":               {nil, func(i int) []string { return []string{weight, strconv.Itoa(i)} }, n, 0},
		"a chain":               {nil, func(i int) []string { return waiting(i, max(i-1, 0)) }, 0, 1},
		"a chain to a group":    {nil, func(i int) []string { return waiting(i, i+1)[:4-2*(i/(n-1))] }, n, 0},
		"a chain to no group":   {nil, func(i int) []string { return waiting(i, i+1) }, 1, 0},
		"isolated groups":       {nil, func(i int) []string { return []string{in, group(i)} }, 1, 0},
		"pairs in cycles":       {nil, func(i int) []string { return waiting(i, i^1) }, 0, maxCycles},
		"kinds":                 {func(i int) string { return fmt.Sprintf("Kind%d", i) }, func(int) []string { return nil }, 1, 0},
		"one object many times": {func(int) string { return "" }, func(int) []string { return []string{in, "a"} }, 1, 0},
		"a chain of kinds":      {func(i int) string { return fmt.Sprintf("Kind%d", i) }, func(i int) []string { return []string{before, fmt.Sprintf("Kind%d", i+1)} }, 1, 0},
	}
	for name, test := range tests {
		resources := make([]Resource, n)
		for i := range resources {
			what := fmt.Sprintf("ConfigMap/c%d", i)
			if test.kind != nil {
				what = test.kind(i) + "/c"
			}
			resources[i] = res("shop", what, test.annotations(i)...)
		}
		plan, err := Build(chart("shop"), resources)
		groups := 0
		if plan != nil {
			groups = len(plan.Groups)
			if reduced := Reduce(plan.Groups); len(reduced) != groups {
				t.Errorf("%s: Reduce returned %d of %d groups", name, len(reduced), groups)
			}
		}
		if groups != test.groups {
			t.Errorf("%s: %d groups, want %d", name, groups, test.groups)
		}
		if errs, _ := err.(Errors); len(errs) != test.errors {
			t.Errorf("%s: %d errors, want %d: %.200v", name, len(errs), test.errors, err)
		}
	}
}

// TestPlansThatAreTooLargeAreRefused: if a chart waits for another one, the number of dependencies is
// the product of their numbers of groups.
func TestPlansThatAreTooLargeAreRefused(t *testing.T) { // R11
	const n = 2_500
	resources := make([]Resource, 0, 2*n)
	for i := range n {
		for _, path := range []string{"shop/api", "shop/db"} {
			resources = append(resources, res(path, fmt.Sprintf("ConfigMap/%s-%d", path[5:], i), weight, strconv.Itoa(i)))
		}
	}
	tree := chart("shop", sub(chart("shop/db")), sub(chart("shop/api"), "db"))
	if _, err := Build(tree, resources); err == nil || !strings.Contains(err.Error(), "the plan is too large: more than 4000000 dependencies") {
		t.Errorf("%v", err)
	}
	if plan, err := Build(tree, resources[:n]); err != nil || len(plan.Groups) != n {
		t.Errorf("%v", err)
	}
}
