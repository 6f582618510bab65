package infer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep/engine/plan"
)

// sharingRelease makes workloads in some charts that use objects of four kinds. With shared, they use the same ones, else
// each has its own. Some wait for others with a command, and some call others.
func sharingRelease(seed uint64, charts []string, shared bool) (*plan.Chart, []Object) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	tree := &plan.Chart{Path: "shop"}
	for _, name := range charts[1:] {
		tree.Subcharts = append(tree.Subcharts, plan.Subchart{Name: name[len("shop/"):], Chart: &plan.Chart{Path: name}})
	}
	count := 2 + rnd.IntN(6)
	g := &generator{rnd: rnd, charts: charts, workloads: count}
	made := map[string]bool{}
	for i := range count {
		name, chart := fmt.Sprintf("w%d", i), charts[rnd.IntN(len(charts))]
		uses := func(kind, group string) string {
			object := fmt.Sprintf("s%d", rnd.IntN(2))
			if !shared {
				object += "-" + name
			}
			if !made[kind+object] {
				made[kind+object] = true
				g.add(chart, group, kind, "ns", object, nil)
			}
			return object
		}
		pods := map[string]any{
			"volumes":            []any{map[string]any{"name": "c", "persistentVolumeClaim": map[string]any{"claimName": uses("PersistentVolumeClaim", "")}}},
			"serviceAccountName": uses("ServiceAccount", ""),
			"containers": []any{map[string]any{"volumeMounts": []any{map[string]any{"name": "c"}}, "envFrom": []any{
				map[string]any{"configMapRef": map[string]any{"name": uses("ConfigMap", "")}}, map[string]any{"secretRef": map[string]any{"name": uses("Secret", "")}}}}},
		}
		other := fmt.Sprintf("w%d", rnd.IntN(count))
		switch rnd.IntN(4) {
		case 0:
			pods["initContainers"] = []any{map[string]any{"name": "i", "args": []any{"until nc -z " + other + " 80; do sleep 1; done"}}}
		case 1:
			pods["initContainers"] = []any{map[string]any{"name": "wait-for-" + other, "image": "x"}}
		case 2:
			pods["containers"].([]any)[0].(map[string]any)["env"] = []any{map[string]any{"name": "HOST", "value": other + ":80"}}
		}
		kind, group := "Deployment", "apps"
		switch rnd.IntN(4) {
		case 0:
			kind = "StatefulSet"
		case 1:
			kind, group = "Job", "batch"
		}
		labels := map[string]any{"app": name}
		g.add(chart, group, kind, "ns", name, map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods}})
		g.add(chart, "", "Service", "ns", name, map[string]any{"selector": labels})
	}
	return tree, g.out
}

// waits returns the workloads that each workload waits for in a plan, directly or not.
func waits(p *plan.Plan) map[plan.Object]map[plan.Object]bool {
	behind, out := map[string]map[plan.Object]bool{}, map[plan.Object]map[plan.Object]bool{}
	for _, g := range p.Groups { // dependencies come first
		before := map[plan.Object]bool{}
		for _, id := range g.After {
			maps.Copy(before, behind[id])
		}
		behind[g.ID] = maps.Clone(before)
		for _, o := range g.Objects {
			if o.Group != "" {
				out[o], behind[g.ID][o] = before, true
			}
		}
	}
	return out
}

// TestSharingIsNoOrder (R64, R66): workloads that use the same objects wait for each other no more than if each had its
// own, and no workload waits for one that certainly waits for it.
func TestSharingIsNoOrder(t *testing.T) {
	for seed := range uint64(400) {
		charts := []string{"shop"}
		if seed%4 == 3 {
			charts = []string{"shop", "shop/a", "shop/b"}
		}
		tree, all := sharingRelease(seed, charts, true)
		o := From("shop", tree, all)
		together := waits(build(t, o, tree, all))
		certainly := map[[2]plan.Object]bool{}
		for _, e := range found(o) {
			certainly[[2]plan.Object{e.From, e.To}] = e.isCertain()
		}
		for _, e := range found(o) {
			both := certainly[[2]plan.Object{e.To, e.From}] // no order helps
			if e.isCertain() && !both && e.To.Group != "" && together[e.To][e.From] {
				t.Errorf("seed %d: %s waits for %s, although %s", seed, e.To, e.From, e)
			}
		}
		if len(charts) > 1 {
			continue // a whole subchart may wait for what another one shares with it
		}
		tree, all = sharingRelease(seed, charts, false)
		apart := waits(build(t, From("shop", tree, all), tree, all))
		for from, before := range together {
			for to := range before {
				if !apart[from][to] {
					t.Errorf("seed %d: %s waits for %s, only because they share an object; %v", seed, from, to, slices.Collect(maps.Keys(apart[from])))
				}
			}
		}
	}
}
