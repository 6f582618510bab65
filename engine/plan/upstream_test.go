package plan

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// upstream makes a copy of a root chart that is ordered as by --order=upstream.
func upstream(root *Chart) *Chart {
	c := *root
	c.Upstream = true
	return &c
}

func TestUpstreamOrder(t *testing.T) { // R11a
	x, y, z := chart("shop/x"), chart("shop/y"), chart("shop/z")
	unlisted := func(c *Chart) Subchart {
		s := sub(c)
		s.Unlisted = true
		return s
	}
	all := []Resource{res("shop", "ConfigMap/own"), res("shop/x", "ConfigMap/x"), res("shop/y", "ConfigMap/y"), res("shop/z", "ConfigMap/z")}
	tests := []struct {
		name      string
		root      *Chart
		resources []Resource
		want      []string
	}{{
		name: "nothing is declared", root: chart("shop", sub(x), sub(y)), resources: all[:3],
		want: []string{"shop/x:(unsequenced) = ConfigMap/x", "shop/y:(unsequenced) = ConfigMap/y",
			"shop:(unsequenced) = ConfigMap/own < shop/x:(unsequenced) shop/y:(unsequenced)"},
	}, {
		name: "declared subcharts keep their order", root: waiting("shop", []string{"x"}, sub(x, "y"), sub(y), sub(z)), resources: all,
		want: []string{"shop/y:(unsequenced) = ConfigMap/y", "shop/z:(unsequenced) = ConfigMap/z", "shop/x:(unsequenced) = ConfigMap/x < shop/y:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/own < shop/x:(unsequenced) shop/y:(unsequenced) shop/z:(unsequenced)"},
	}, {
		name: "unlisted subcharts come after the others", root: chart("shop", sub(x), unlisted(y), unlisted(z)), resources: all,
		want: []string{"shop/x:(unsequenced) = ConfigMap/x", "shop/y:(unsequenced) = ConfigMap/y < shop/x:(unsequenced)", "shop/z:(unsequenced) = ConfigMap/z < shop/x:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/own < shop/x:(unsequenced) shop/y:(unsequenced) shop/z:(unsequenced)"},
	}, {
		name: "an unlisted subchart that another one waits for comes before it", root: chart("shop", sub(x, "z"), sub(y), unlisted(z)), resources: all,
		want: []string{"shop/y:(unsequenced) = ConfigMap/y", "shop/z:(unsequenced) = ConfigMap/z", "shop/x:(unsequenced) = ConfigMap/x < shop/z:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/own < shop/x:(unsequenced) shop/y:(unsequenced) shop/z:(unsequenced)"},
	}, {
		name: "two unlisted subcharts that others wait for", root: chart("shop", sub(x, "z"), sub(y, "w"), unlisted(z), unlisted(chart("shop/w"))),
		resources: append(slices.Clone(all), res("shop/w", "ConfigMap/w")),
		want: []string{"shop/w:(unsequenced) = ConfigMap/w", "shop/z:(unsequenced) = ConfigMap/z", "shop/x:(unsequenced) = ConfigMap/x < shop/z:(unsequenced)",
			"shop/y:(unsequenced) = ConfigMap/y < shop/w:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/own < shop/w:(unsequenced) shop/x:(unsequenced) shop/y:(unsequenced) shop/z:(unsequenced)"},
	}, {
		name: "all groups of the chart, and nested charts", root: chart("shop", sub(chart("shop/x", sub(chart("shop/x/deep"))))),
		resources: []Resource{res("shop", "ConfigMap/a", in, "a"), res("shop", "ConfigMap/b", in, "b", needs, `["a"]`), res("shop/x", "ConfigMap/x"), res("shop/x/deep", "ConfigMap/deep")},
		want: []string{"shop/x/deep:(unsequenced) = ConfigMap/deep", "shop/x:(unsequenced) = ConfigMap/x < shop/x/deep:(unsequenced)",
			"shop:a = ConfigMap/a < shop/x/deep:(unsequenced) shop/x:(unsequenced)", "shop:b = ConfigMap/b < shop/x/deep:(unsequenced) shop/x:(unsequenced) shop:a"},
	}, {
		name: "a subchart without objects", root: chart("shop", sub(x, "y"), sub(y)), resources: []Resource{all[0], all[2]},
		want: []string{"shop/y:(unsequenced) = ConfigMap/y", "shop:(unsequenced) = ConfigMap/own < shop/y:(unsequenced)"},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Build(upstream(test.root), test.resources)
			if err != nil {
				t.Fatal(err)
			}
			sameLines(t, "plan", show(plan.Groups), test.want)
		})
	}
}

func TestUpstreamFindings(t *testing.T) { // R11a, R37
	x, y, z := chart("shop/x"), chart("shop/y"), chart("shop/z")
	all := []Resource{res("shop", "ConfigMap/own"), res("shop/x", "ConfigMap/x"), res("shop/y", "ConfigMap/y")}
	note := `info R11a: shop: with --order=upstream, all of the chart's own objects also wait for subchart "y"; ` +
		"to get that order without the flag, use helm.sh/depends-on/subcharts in Chart.yaml"
	sameFindings(t, Lint(chart("shop", sub(x), sub(y)), all)) // declares no order
	sameFindings(t, Lint(waiting("shop", []string{"x"}, sub(x), sub(y)), all), `warning R11: subchart "y"`, note)
	sameFindings(t, Lint(waiting("shop", []string{"x"}, sub(x, "y"), sub(y)), all)) // y comes before x
	sameFindings(t, Lint(upstream(waiting("shop", []string{"x"}, sub(x), sub(y))), all), `warning R11: subchart "y"`)
	sameFindings(t, Lint(chart("shop", sub(x, "y"), sub(y), sub(z)), append(all[1:3:3], res("shop/z", "ConfigMap/z"))), `warning R11: subchart "z"`) // no own objects
	vendored := waiting("shop", []string{"x"}, sub(x), Subchart{Name: "y", Chart: y, Unlisted: true})
	sameFindings(t, Lint(vendored, all), `warning R11: subchart "y"`,
		`info R11a: shop: with --order=upstream, subchart "y", which Chart.yaml does not list, waits for those that it lists`, note)
	groups := []Resource{res("shop", "ConfigMap/a", layer, "a", uses, "y"), res("shop", "ConfigMap/b", layer, "b", above, "a"), all[2]}
	sameFindings(t, Lint(chart("shop", sub(y)), groups)) // all layers come after y
	sameFindings(t, Lint(chart("shop", sub(y)), append(groups, res("shop", "ConfigMap/c", layer, "c"), res("shop", "ConfigMap/d", layer, "d", above, "c"))), note)
}

// TestUpstreamProperties: the order only adds dependencies of a chart's own objects on its subcharts, and of subcharts that
// nothing lists or names on the others, without a cycle; lint notes exactly the charts whose own objects wait for more.
func TestUpstreamProperties(t *testing.T) { // R11a
	planned, changed := 0, 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7))
		root, resources := makeInput(random)
		unlisted := map[string]bool{}
		unlist(random, root, unlisted)
		before, err := Build(root, resources)
		after, errUpstream := Build(upstream(root), resources)
		if !reflect.DeepEqual(err, errUpstream) {
			t.Fatalf("seed %d: %v, with the order %v", seed, err, errUpstream)
		}
		if err != nil {
			continue
		}
		planned++
		checkShape(t, after.Groups)
		noted := map[string]bool{}
		for _, f := range Lint(root, resources) {
			noted[f.Chart] = noted[f.Chart] || f.Rule == "R11a" && strings.Contains(f.Message, "own objects")
		}
		for _, g := range before.Groups {
			now := after.Group(g.ID)
			if now == nil || !reflect.DeepEqual(g.Objects, now.Objects) {
				t.Fatalf("seed %d: %s has other objects", seed, g.ID)
			}
			for _, id := range g.After {
				if !slices.Contains(now.After, id) {
					t.Errorf("seed %d: %s no longer waits for %s", seed, g.ID, id)
				}
			}
			for _, id := range now.After {
				if !slices.Contains(g.After, id) && !addedByUpstream(g.Chart, id, unlisted) {
					t.Errorf("seed %d: %s also waits for %s", seed, g.ID, id)
				}
			}
		}
		ordered := slices.ContainsFunc(before.Groups, func(g *Group) bool { return len(g.After) > 0 })
		for _, c := range chartsOf(after.Groups) {
			more := waitsForMore(before, after, c)
			if changed += len(noted); noted[c] != (ordered && more) {
				t.Errorf("seed %d: lint notes %s: %v, but its own objects wait for more: %v, and it declares an order: %v", seed, c, noted[c], more, ordered)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if planned < 1000 || changed < 1000 {
		t.Errorf("only %d plans, %d of them changed", planned, changed)
	}
}

// unlist makes some subcharts without a declared order unlisted, and adds their paths to all.
func unlist(s source, c *Chart, all map[string]bool) {
	for i := range c.Subcharts {
		sub := &c.Subcharts[i]
		if sub.Chart == nil {
			continue
		}
		if len(sub.DependsOn) == 0 && sub.Alias == "" && s.IntN(3) == 0 {
			sub.Unlisted, all[sub.Chart.Path] = true, true
		}
		unlist(s, sub.Chart, all)
	}
}

// addedByUpstream reports whether the order may let groups of a chart wait for a group.
func addedByUpstream(chart, id string, unlisted map[string]bool) bool {
	of, _, _ := strings.Cut(id, ":")
	if strings.HasPrefix(of, chart+"/") {
		return true
	}
	for at := chart; strings.Contains(at, "/"); at = at[:strings.LastIndexByte(at, '/')] {
		if parent := at[:strings.LastIndexByte(at, '/')]; unlisted[at] && strings.HasPrefix(of, parent+"/") {
			return true
		}
	}
	return false
}

func chartsOf(groups []*Group) (paths []string) {
	for _, g := range groups {
		paths = append(paths, g.Chart)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// waitsForMore reports whether any group of a chart waits, directly or not, for more groups of its subcharts in b than in a.
func waitsForMore(a, b *Plan, chart string) bool {
	waits := func(p *Plan, g *Group) map[string]bool {
		reached := map[string]bool{}
		var add func(*Group)
		add = func(g *Group) {
			for _, id := range g.After {
				if !reached[id] {
					reached[id] = true
					add(p.Group(id))
				}
			}
		}
		add(g)
		return reached
	}
	for _, g := range b.Groups {
		if g.Chart != chart {
			continue
		}
		now, then := waits(b, g), waits(a, a.Group(g.ID))
		for id := range now {
			if strings.HasPrefix(id, chart+"/") && !then[id] {
				return true
			}
		}
	}
	return false
}
