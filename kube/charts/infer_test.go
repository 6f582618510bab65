package charts

import (
	"maps"
	"slices"
	"testing"

	"lockstep/engine/plan"
)

// notImplied are the edges of shop that its manifests do not imply: that the broker creates
// topics (nothing in the release may write their status), and the backends of the gateway.
var notImplied = []string{
	"shop/queue:topics after shop/queue:broker",
	"shop:gateway after shop/web:(unsequenced)",
	"shop:gateway after shop/worker:(unsequenced)",
	"shop:ingress after shop/web:(unsequenced)",
	"shop:ingress after shop/worker:(unsequenced)",
}

// TestPlainShop infers the order of shop from a copy without annotations (R60), except for the
// edges that nothing implies.
func TestPlainShop(t *testing.T) {
	declared, _ := rendered(t, "shop").Plan()
	ordered, order := rendered(t, "plain-shop").Ordered()
	inferred, err := ordered.Plan()
	if err != nil || len(inferred.Warnings)+len(order.Warnings()) > 0 {
		t.Fatal(err, inferred.Warnings, order.Warnings())
	}
	positions := positionsIn(inferred)
	var missing []string
	for _, g := range declared.Groups {
		for _, id := range g.After {
			kept := !slices.ContainsFunc(declared.Group(id).Objects, func(before plan.Object) bool {
				return !slices.ContainsFunc(g.Objects, func(o plan.Object) bool { return positions.after(o, before) })
			})
			if !kept {
				missing = append(missing, g.ID+" after "+id)
			}
		}
	}
	slices.Sort(missing)
	if !slices.Equal(missing, notImplied) {
		t.Errorf("missing %q, want %q", missing, notImplied)
	}
	for _, e := range order.Edges {
		if !positions.after(e.From, e.To) {
			t.Errorf("the plan does not keep %s", e)
		}
	}
}

// TestNotInferred checks which declared dependencies of shop have no inferred edge (R60).
func TestNotInferred(t *testing.T) {
	shop := rendered(t, "shop")
	declared, err := shop.Plan()
	if err != nil {
		t.Fatal(err)
	}
	_, order := shop.Ordered()
	var missing []string
	for _, pair := range order.NotInferred(declared) {
		missing = append(missing, pair[0]+" after "+pair[1])
	}
	if want := notImplied[:3]; !slices.Equal(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
}

func rendered(t *testing.T, name string) *Rendered {
	t.Helper()
	c, err := LoadPath("../../testdata/charts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(t.Context(), c, nil, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// position is the position of an object in a plan.
type position struct {
	group string
	wave  int
}

// positions are the positions of all objects in a plan.
type positions struct {
	at   map[plan.Object]position
	deps map[string]map[string]bool // of each group, direct and indirect ones
}

func positionsIn(p *plan.Plan) positions {
	o := positions{map[plan.Object]position{}, map[string]map[string]bool{}}
	for _, g := range p.Groups { // in plan order: dependencies come first
		o.deps[g.ID] = map[string]bool{}
		for _, id := range g.After {
			o.deps[g.ID][id] = true
			maps.Copy(o.deps[g.ID], o.deps[id])
		}
		i := 0
		for wave, w := range g.Waves {
			for range w.Count {
				o.at[g.Objects[i]] = position{g.ID, wave}
				i++
			}
		}
	}
	return o
}

func (o positions) after(a, b plan.Object) bool {
	x, y := o.at[a], o.at[b]
	if x.group == y.group {
		return x.wave > y.wave
	}
	return o.deps[x.group][y.group]
}
