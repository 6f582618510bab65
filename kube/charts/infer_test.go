package charts

import (
	"slices"
	"testing"

	"lockstep/engine/plan"
)

// unknowable are those of shop's own edges that nothing in its manifests tells: that
// the broker makes topics (nothing in the release may write their status), and what
// the gateway opens for.
var unknowable = []string{
	"shop/queue:topics after shop/queue:broker",
	"shop:gateway after shop/web:(unsequenced)",
	"shop:gateway after shop/worker:(unsequenced)",
	"shop:ingress after shop/web:(unsequenced)",
	"shop:ingress after shop/worker:(unsequenced)",
}

// TestPlainShop infers for shop without annotations the order that shop has with
// them (R60), but for what nobody could know.
func TestPlainShop(t *testing.T) {
	written, _ := rendered(t, "shop").Plan()
	ordered, order := rendered(t, "plain-shop").Ordered()
	inferred, err := ordered.Plan()
	if err != nil || len(inferred.Warnings)+len(order.Warnings()) > 0 {
		t.Fatal(err, inferred.Warnings, order.Warnings())
	}
	comes := places(inferred)
	var missing []string
	for _, g := range written.Groups {
		for _, id := range g.After {
			kept := !slices.ContainsFunc(written.Group(id).Objects, func(before plan.Object) bool {
				return !slices.ContainsFunc(g.Objects, func(o plan.Object) bool { return comes.after(o, before) })
			})
			if !kept {
				missing = append(missing, g.ID+" after "+id)
			}
		}
	}
	slices.Sort(missing)
	if !slices.Equal(missing, unknowable) {
		t.Errorf("missing %q, want %q", missing, unknowable)
	}
	for _, e := range order.Edges {
		if !comes.after(e.From, e.To) {
			t.Errorf("the plan does not keep %s", e)
		}
	}
}

// TestNotInferred checks which declared gates of shop have no inferred edge (R60).
func TestNotInferred(t *testing.T) {
	shop := rendered(t, "shop")
	written, err := shop.Plan()
	if err != nil {
		t.Fatal(err)
	}
	_, order := shop.Ordered()
	var untold []string
	for _, pair := range order.NotInferred(written) {
		untold = append(untold, pair[0]+" after "+pair[1])
	}
	if want := unknowable[:3]; !slices.Equal(untold, want) {
		t.Errorf("untold %q, want %q", untold, want)
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

// place is where an object comes in a plan.
type place struct {
	group string
	wave  int
}

// order tells what comes after what.
type order struct {
	at     map[plan.Object]place
	behind map[string]map[string]bool
}

func places(p *plan.Plan) order {
	o := order{map[plan.Object]place{}, map[string]map[string]bool{}}
	for _, g := range p.Groups { // in plan order: gates come first
		o.behind[g.ID] = map[string]bool{}
		for _, id := range g.After {
			o.behind[g.ID][id] = true
			for far := range o.behind[id] {
				o.behind[g.ID][far] = true
			}
		}
		i := 0
		for wave, w := range g.Waves {
			for range w.Count {
				o.at[g.Objects[i]] = place{g.ID, wave}
				i++
			}
		}
	}
	return o
}

func (o order) after(a, b plan.Object) bool {
	x, y := o.at[a], o.at[b]
	if x.group == y.group {
		return x.wave > y.wave
	}
	return o.behind[x.group][y.group]
}
