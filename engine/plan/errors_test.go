package plan

import (
	"errors"
	"slices"
	"testing"
)

func TestPlanErrors(t *testing.T) {
	x, y := chart("shop/x"), chart("shop/y")
	two := func(names ...string) *Chart {
		return waiting("shop", names, Subchart{Name: "db", Alias: "cache", Chart: x}, Subchart{Name: "db", Alias: "queue", Chart: y})
	}
	loop := chart("shop")
	tests := []struct {
		name      string
		root      *Chart
		resources []Resource
		want      string
	}{
		{"R12 unknown to a subchart", chart("shop", sub(x, "z")), nil,
			`shop: subchart "x" depends on "z", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)`},
		{"R12 unknown to a disabled subchart", chart("shop", Subchart{Name: "x", DependsOn: []string{""}}), nil,
			`shop: subchart "x" depends on "", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)`},
		{"R12 another version", chart("shop", sub(x, "db"), Subchart{Name: "db", Skipped: "Chart.yaml requires version 2, but charts/ has 1"}), nil,
			`shop: subchart "x" depends on "db", which Helm does not deploy by this name: Chart.yaml requires version 2, but charts/ has 1 (R12)`},
		{"R12 unknown to the chart", waiting("shop", []string{"z"}, sub(x)), nil,
			`shop: helm.sh/depends-on/subcharts names "z", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)`},
		{"R3 R12 the key as Chart.yaml spells it", &Chart{Path: "shop", DependsOn: []string{"z"}, DependsOnKey: "helm.sh/depends-on-subcharts"}, nil,
			`shop: helm.sh/depends-on-subcharts names "z", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)`},
		{"R12 R18 unknown to a layer", nil, []Resource{res("shop", "Job/a", layer, "a", uses, "z")},
			`shop: Job/a: helm.sh/dependson/chart names "z", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)`},
		{"R12 ambiguous name", two("cache", "db"), nil,
			`shop: helm.sh/depends-on/subcharts names "db", which is ambiguous: use the alias, cache or queue (R12)`},
		{"R12 ambiguous without aliases", chart("shop", sub(x, "y"), sub(y), sub(y)), nil,
			`shop: subchart "x" depends on "y", which is ambiguous: 2 subcharts have this name; give them aliases (R12)`},
		{"R13 cycle of groups", nil, []Resource{res("shop", "Job/a", in, "app", needs, `["db"]`), res("shop", "Job/b", in, "db", needs, `["app"]`)},
			"shop: groups wait for each other in a cycle: app → db → app; remove one dependency (R13)"},
		{"R13 cycle of layers beside a missing one", nil, []Resource{res("shop", "Job/a", layer, "b", above, "a"), res("shop", "Job/b", layer, "a", above, "b"), res("shop", "Job/c", layer, "c", above, `["a", "no"]`)},
			"shop: groups wait for each other in a cycle: a → b → a; remove one dependency (R13)"},
		{"R13 the shortest of several cycles", nil, []Resource{
			res("shop", "Job/a", in, "a", needs, `["b"]`), res("shop", "Job/b", in, "b", needs, `["c"]`),
			res("shop", "Job/c", in, "c", needs, `["a", "d"]`), res("shop", "Job/d", in, "d", needs, `["a", "0"]`), res("shop", "Job/0", in, "0")},
			"shop: groups wait for each other in a cycle: a → b → c → a; remove one dependency (R13)"},
		{"R13 a group that waits for itself", chart("shop", sub(x)), []Resource{res("shop/x", "Job/a", in, "a", needs, `["a"]`)},
			"shop/x: group \"a\" waits for itself; remove that dependency (R13)"},
		{"R13 cycle of subcharts by names", chart("shop", Subchart{Name: "db", Alias: "b", Chart: x, DependsOn: []string{"a"}},
			Subchart{Name: "a", Chart: y, DependsOn: []string{"db"}}), nil,
			"shop: subcharts wait for each other in a cycle: a → b → a; remove one dependency (R13)"},
		{"R13 a subchart that waits for itself", chart("shop", sub(x, "x")), nil, "shop: subchart \"x\" waits for itself; remove that dependency (R13)"},
		{"R13 a chart in itself", waiting("shop", []string{"shop"}, sub(loop)), []Resource{res("shop", "Job/a"), res("shop/x", "Job/b")},
			"shop: group \"shop:(unsequenced)\" waits for itself; remove that dependency (R13)"},
		{"R13 an object in two groups", nil, []Resource{res("shop", "Job/n/a", in, "b"), res("shop", "Job/n/a", in, "a")},
			"shop: Job/a (namespace n) is in two groups: shop:a and shop:b; keep it in one (R13)"},
		{"R13 an object in a group and in none", chart("shop", sub(x)), []Resource{res("shop", "Job/a"), res("shop/x", "Job/a", in, "a")},
			"shop/x: Job/a is in two groups: shop:(unsequenced) and shop/x:a; keep it in one (R13)"},
		{"R2 malformed readiness", nil, []Resource{res("shop", "Job/a", AnnotationReadinessSuccess, `{.a} == 1`, AnnotationReadinessFailure, `[]`)},
			"shop: Job/a: annotation helm.sh/readiness-success must be a list, such as '[\"{.succeeded} >= 1\"]', but is '{.a} == 1' (R2)"},
		{"R2 the example is a valid expression", nil, []Resource{res("shop", "Job/a", AnnotationReadinessFailure, `{.a} ==`)},
			"shop: Job/a: annotation helm.sh/readiness-failure must be a list, such as '[\"{.failed} >= 1\"]', but is '{.a} ==' (R2)"},
		{"R2 R24 faults from the chart loader", &Chart{Path: "shop", Faults: []Fault{{"R2", "depends-on is no list"}}},
			[]Resource{{Object: object("Job/a"), Chart: "shop", Faults: []Fault{{"R24", "no expression"}}}},
			"shop: depends-on is no list (R2)\nshop: Job/a: no expression (R24)"},
		{"all at once", waiting("shop", []string{"no"}, sub(x)), []Resource{res("shop/x", "Job/a", in, "a", needs, `["a"]`), res("shop", "Job/n/a", in, "b"), res("shop", "Job/n/a", in, "a")},
			`shop: helm.sh/depends-on/subcharts names "no", which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies (R12)` + "\n" +
				"shop: Job/a (namespace n) is in two groups: shop:a and shop:b; keep it in one (R13)\n" +
				"shop/x: group \"a\" waits for itself; remove that dependency (R13)"},
		{"R20 three methods", chart("shop", sub(x)), []Resource{res("shop", "Job/a", weight, "1"), res("shop", "Job/b", in, "b"), res("shop", "Job/c", uses, "x")},
			"shop: the chart mixes methods of ordering objects; use only one: Job/b has helm.sh/resource-group, Job/c has helm.sh/dependson/chart, Job/a has helm.sh/weight (R20)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				plan, err := Build(test.root, test.resources)
				var planError *Error
				if plan != nil || !errors.As(err, &planError) {
					t.Fatalf("got plan %v, error %v", plan, err)
				}
				if err.Error() != test.want {
					t.Fatalf("got  %s\nwant %s", err, test.want)
				}
				slices.Reverse(test.resources) // it is the same in any order
			}
		})
	}
}

func TestJobsOfLayersMustComplete(t *testing.T) { // R18
	for annotation, want := range map[string]bool{layer: true, in: false, weight: false} {
		plan, err := Build(nil, []Resource{res("shop", "Job/a", annotation, "1")})
		if err != nil || plan.Groups[0].JobsComplete != want {
			t.Errorf("%s: got %v, %v", annotation, plan, err)
		}
	}
}

func TestPlansHaveNoNilLists(t *testing.T) {
	plan, err := Build(nil, nil)
	if err != nil || plan.Groups == nil || plan.Warnings == nil {
		t.Errorf("got %#v, %v", plan, err)
	}
	plan = Flat(nil, []Resource{res("shop", "Job/a")}, "shop")
	if plan.Groups[0].After == nil || plan.Warnings == nil {
		t.Errorf("got %#v", plan)
	}
}

func TestFlatIsOneGroup(t *testing.T) { // R27
	plan := Flat(nil, []Resource{
		res("shop/db", "Deployment/b", in, "b"), res("shop", "Widget/a", in, "a", needs, `["b"]`, before, "Service"),
		res("shop", "Service/c", weight, "x"), res("shop", "Service/c"),
	}, "shop")
	sameLines(t, "groups", show(plan.Groups), []string{"shop:(unsequenced) = Widget/a | Service/c | Deployment/b"})
	sameWarnings(t, plan.Warnings, []string{"R13: Service/c"})
	if empty := Flat(nil, nil, "shop"); len(empty.Groups) != 0 || empty.Groups == nil {
		t.Errorf("got %#v", empty)
	}
}

// TestCheck: without an order, invalid readiness annotations are still errors, and one without the
// other a warning (R2, R24). Invalid annotations about groups are ignored.
func TestCheck(t *testing.T) {
	root := waiting("shop", []string{"no"})
	_, err := Check(root, []Resource{
		res("shop", "Job/a", AnnotationReadinessSuccess, "x"), res("shop", "Job/b", AnnotationReadinessFailure, "{}"), res("shop", "Job/c", needs, "x"),
	})
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 2 || *errs[0].Object != object("Job/a") || *errs[1].Object != object("Job/b") {
		t.Errorf("got %v", err)
	}
	warnings, err := Check(root, []Resource{res("shop", "Job/a", AnnotationReadinessSuccess, `["{.a} == 1"]`), res("shop", "Job/b", AnnotationReadinessFailure, "null")})
	if err != nil {
		t.Error(err)
	}
	sameWarnings(t, warnings, []string{"R24: Job/a"})
}

// TestNameOfAliasedSubcharts: of two subcharts with the same name, the name means the one without an
// alias (R12).
func TestNameOfAliasedSubcharts(t *testing.T) {
	x, y, web := chart("shop/db"), chart("shop/replica"), chart("shop/web")
	resources := []Resource{res("shop/db", "ConfigMap/a"), res("shop/replica", "ConfigMap/b"), res("shop/web", "ConfigMap/c")}
	p, err := Build(chart("shop", Subchart{Name: "db", Chart: x}, Subchart{Name: "db", Alias: "replica", Chart: y}, sub(web, "db")), resources)
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Group("shop/web:" + Unsequenced); g == nil || !slices.Equal(g.After, []string{"shop/db:" + Unsequenced}) {
		t.Errorf("%+v", g)
	}
}
