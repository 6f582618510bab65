package infer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// release makes the objects of a chart tree, which name and call each other at random.
func release(rnd *rand.Rand, workloads int) (*plan.Chart, []Object) {
	charts := []string{"shop", "shop/a", "shop/b", "shop/b/c"}
	c := &plan.Chart{Path: "shop/b/c"}
	tree := &plan.Chart{Path: "shop", Subcharts: []plan.Subchart{{Name: "a", Chart: &plan.Chart{Path: "shop/a"}}, {Name: "b", Chart: &plan.Chart{Path: "shop/b", Subcharts: []plan.Subchart{{Name: "c", Chart: c}}}}}}
	g := &generator{rnd: rnd, charts: charts, workloads: workloads}
	for i := range workloads {
		g.workload(i)
		g.strays(i)
	}
	g.add("shop", "apiextensions.k8s.io", "CustomResourceDefinition", "", "topics.q.x", map[string]any{"group": "q.x", "names": map[string]any{"kind": "Topic", "plural": "topics"}})
	g.out[len(g.out)-1].Defines = plan.GroupKind{Group: "q.x", Kind: "Topic"}
	return tree, g.out
}

type generator struct {
	rnd       *rand.Rand
	charts    []string
	workloads int
	out       []Object
}

func (g *generator) add(chart, group, kind, namespace, name string, spec map[string]any) map[string]any {
	fields := map[string]any{"kind": kind, "metadata": map[string]any{"name": name}}
	if spec != nil {
		fields["spec"] = spec
	}
	g.out = append(g.out, Object{Resource: plan.Resource{Chart: chart, Object: plan.Object{Group: group, Kind: kind, Namespace: namespace, Name: name}}, Fields: fields})
	return fields
}

// other returns the number of another workload, usually of an earlier one.
func (g *generator) other(i int) int {
	if i == 0 || g.rnd.IntN(20) == 0 {
		return g.rnd.IntN(g.workloads)
	}
	return g.rnd.IntN(i)
}

// workload makes a workload and about nine objects that it uses.
func (g *generator) workload(i int) {
	chart := g.charts[g.rnd.IntN(len(g.charts))]
	name := fmt.Sprintf("w%d", i)
	env := []any{}
	for range g.rnd.IntN(3) {
		env = append(env, map[string]any{"name": "DB_HOST", "value": fmt.Sprintf("w%d", g.other(i))})
	}
	container := map[string]any{"env": env, "envFrom": []any{
		map[string]any{"configMapRef": map[string]any{"name": fmt.Sprintf("w%d", g.other(i)), "optional": g.rnd.IntN(4) == 0}},
		map[string]any{"secretRef": map[string]any{"name": name}},
	}}
	kind, group := "Deployment", "apps"
	switch g.rnd.IntN(6) {
	case 0:
		kind = "StatefulSet"
	case 1:
		kind, group = "Job", "batch"
	}
	labels := map[string]any{"app": name}
	pods := map[string]any{"serviceAccountName": name, "containers": []any{container}, "volumes": []any{map[string]any{"persistentVolumeClaim": map[string]any{"claimName": fmt.Sprintf("w%d", g.other(i))}}}}
	if g.rnd.IntN(8) == 0 { // lockstep does not read how it waits
		script := fmt.Sprintf("until kubectl get endpoints w%d; do sleep 1; done", g.other(i))
		pods["initContainers"] = []any{map[string]any{"name": "init", "command": []any{"sh", "-c", script}}}
	}
	spec := map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods}}
	if g.rnd.IntN(10) == 0 {
		spec["replicas"] = int64(0)
	}
	g.add(chart, group, kind, "ns", name, spec)
	g.add(chart, "", "Service", "ns", name, map[string]any{"selector": labels, "ports": []any{map[string]any{"port": int64(80)}}})
	g.add(chart, "", "ServiceAccount", "ns", name, nil)
	if g.rnd.IntN(4) == 0 {
		g.add(chart, "cert-manager.io", "Certificate", "ns", name, map[string]any{"secretName": name})
	} else {
		g.add(chart, "", "Secret", "ns", name, nil)
	}
	g.add(chart, "", "ConfigMap", "ns", name, nil)["data"] = map[string]any{"a": fmt.Sprintf("x: y\nurl: http://w%d/\n", g.other(i))}
	g.add(chart, "", "PersistentVolumeClaim", "ns", name, nil)
	g.add(chart, rbac, "Role", "ns", name, nil)["rules"] = []any{map[string]any{"apiGroups": []any{[]any{"q.x", "cert-manager.io"}[g.rnd.IntN(2)]}, "resources": []any{[]any{"topics", "*/status"}[g.rnd.IntN(2)]}, "verbs": []any{"update"}}}
	binding := g.add(chart, rbac, "RoleBinding", "ns", name, nil)
	binding["roleRef"] = map[string]any{"kind": "Role", "name": name}
	binding["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": fmt.Sprintf("w%d", g.other(i))}}
	g.add(chart, "networking.k8s.io", "Ingress", "ns", name, map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": fmt.Sprintf("w%d", g.other(i))}}})
	if i%50 == 0 && i < 1000 { // each waits for every workload that may write its status
		g.add(chart, "q.x", "Topic", "ns", name, nil)
	}
}

// strays makes objects that no workload needs, which need some that one workload needs: its namespace, its role.
func (g *generator) strays(i int) {
	chart, own := g.charts[g.rnd.IntN(len(g.charts))], fmt.Sprintf("own%d", i)
	switch g.rnd.IntN(6) {
	case 0:
		g.add(chart, "", "Namespace", "", own, nil)
		g.add(chart, "apps", "Deployment", own, own, map[string]any{"template": map[string]any{"spec": map[string]any{}}})
		g.add(chart, "", "ConfigMap", own, own, nil)
	case 1:
		binding := g.add(chart, rbac, "RoleBinding", "ns", own, nil)
		binding["roleRef"] = map[string]any{"kind": "Role", "name": fmt.Sprintf("w%d", g.other(i))}
		binding["subjects"] = []any{map[string]any{"kind": "Group", "name": "people"}}
	}
}

// found returns all edges of an order, including the dropped ones.
func found(o *Order) []Edge {
	edges := slices.Clone(o.Edges)
	for _, d := range o.Dropped {
		if !slices.ContainsFunc(edges, func(e Edge) bool { return e.Compare(d.Edge) == 0 }) {
			edges = append(edges, d.Edge)
		}
	}
	slices.SortFunc(edges, Edge.Compare)
	return edges
}

// TestProperties checks the orders of random releases: each has a plan, the edges have no cycle, every
// reference is an edge (R61), Jobs serve nothing (R62), the order of the input does not matter, and
// without an object only its own edges are missing.
func TestProperties(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c, all := release(rnd, 1+rnd.IntN(12))
		o := From("shop", c, all)
		p := build(t, o, c, all)
		if len(p.Warnings) > 0 {
			t.Fatalf("seed %d: %v", seed, p.Warnings)
		}
		checkAcyclic(t, seed, o)
		checkNamed(t, seed, o, all)
		checkKept(t, seed, o, p)
		checkServers(t, seed, o, all)
		checkPossible(t, seed, o, all)

		shuffled := slices.Clone(all)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := From("shop", c, shuffled); !reflect.DeepEqual(again, o) {
			t.Fatalf("seed %d: the result depends on the order of the input", seed)
		}
		gone := rnd.IntN(len(all))
		checkRemoval(t, seed, o, From("shop", c, slices.Delete(slices.Clone(all), gone, gone+1)), all[gone].Object)
	}
}

func checkAcyclic(t *testing.T, seed uint64, o *Order) {
	number := map[plan.Object]int{}
	var arcs []arc
	of := func(object plan.Object) int {
		n, ok := number[object]
		if !ok {
			n = len(number)
			number[object] = n
		}
		return n
	}
	for _, e := range o.Edges {
		arcs = append(arcs, arc{of(e.From), of(e.To)})
	}
	if _, acyclic := plan.TopologicalOrder(adjacency(len(number), arcs)); !acyclic {
		t.Fatalf("seed %d: a cycle", seed)
	}
}

// checkNamed checks that there is an edge for each required reference, also to a Secret that another object creates.
func checkNamed(t *testing.T, seed uint64, o *Order, all []Object) {
	comesFrom, edges := map[plan.Object]plan.Object{}, map[[2]plan.Object]bool{}
	for _, x := range all {
		comesFrom[x.Object] = x.Object
		if x.Object.Kind == "Certificate" {
			comesFrom[plan.Object{Kind: "Secret", Namespace: "ns", Name: x.Object.Name}] = x.Object
		}
	}
	for _, e := range o.Edges {
		edges[[2]plan.Object{e.From, e.To}] = true
	}
	for _, x := range all {
		pods, isWorkload := refs.FindPods(x.Object, x.Fields)
		for _, ref := range refs.Find(x.Object, x.Fields) {
			to, inRelease := comesFrom[ref.To]
			if inRelease && to != x.Object && !ref.Optional && !(isWorkload && pods.None) && !edges[[2]plan.Object{x.Object, to}] {
				t.Fatalf("seed %d: %s does not wait for %s (%s)", seed, x.Object, ref.To, ref.Path)
			}
		}
	}
}

// checkKept checks that the plan keeps the edges between groups of the same chart.
func checkKept(t *testing.T, seed uint64, o *Order, p *plan.Plan) {
	in := map[plan.Object]*plan.Group{}
	for _, g := range p.Groups {
		for _, x := range g.Objects {
			in[x] = g
		}
	}
	behind := map[string]map[string]bool{}
	for _, g := range p.Groups { // dependencies come first
		behind[g.ID] = map[string]bool{g.ID: true}
		for _, id := range g.After {
			maps.Copy(behind[g.ID], behind[id])
		}
	}
	for _, e := range o.Edges {
		from, to := in[e.From], in[e.To]
		if from.Chart == to.Chart && !behind[from.ID][to.ID] {
			t.Fatalf("seed %d: %s is not kept", seed, e)
		}
	}
}

// checkServers checks that nothing waits for the service of a Job or of a workload with 0 replicas (R62).
func checkServers(t *testing.T, seed uint64, o *Order, all []Object) {
	pods := map[plan.Object]refs.Pods{}
	for _, x := range all {
		pods[x.Object], _ = refs.FindPods(x.Object, x.Fields)
	}
	for _, e := range found(o) {
		if e.Strength == Serving && (e.To.Group == "batch" || pods[e.To].None) {
			t.Fatalf("seed %d: %s", seed, e)
		}
	}
}

// checkPossible checks that nothing that an init container names waits for its workload because of an edge that is not certain (R66).
func checkPossible(t *testing.T, seed uint64, o *Order, all []Object) {
	reaches := func(from, to plan.Object) bool {
		seen, open := map[plan.Object]bool{from: true}, []plan.Object{from}
		for len(open) > 0 {
			at := open[0]
			open = open[1:]
			for _, e := range o.Edges {
				if e.From == at && !seen[e.To] {
					seen[e.To], open = true, append(open, e.To)
				}
			}
		}
		return seen[to]
	}
	r := newReader(slices.Clone(all))
	r.waitEdges()
	arcs := sortedArcs(r.possible)
	for _, e := range o.Edges {
		if e.isCertain() {
			arcs = append(arcs, e.at)
		}
	}
	component := components(len(r.nodes), arcs)
	for at := range r.possible {
		if component[at.from] == component[at.to] {
			continue // they may wait for each other, or the opposite order is certain
		}
		waiting, named := r.nodes[at.from].name(), r.nodes[at.to].name()
		if reaches(named, waiting) {
			t.Fatalf("seed %d: %s waits for %s, whose init container names it", seed, named, waiting)
		}
	}
}

func checkRemoval(t *testing.T, seed uint64, o, without *Order, gone plan.Object) {
	before := map[[2]plan.Object]Edge{}
	for _, e := range found(o) {
		before[[2]plan.Object{e.From, e.To}] = e
	}
	for _, e := range found(without) {
		if _, ok := before[[2]plan.Object{e.From, e.To}]; !ok {
			t.Fatalf("seed %d: without %s there is a new edge %s", seed, gone, e)
		}
		delete(before, [2]plan.Object{e.From, e.To})
	}
	for _, e := range before {
		if e.From != gone && e.To != gone && e.Reason.In != gone && !slices.Contains(e.Reason.By, gone) {
			t.Fatalf("seed %d: without %s there is no %s", seed, gone, e)
		}
	}
}

// BenchmarkInfer measures From, with the approximate number of objects.
func BenchmarkInfer(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c, all := release(rand.New(rand.NewPCG(1, 1)), n/9)
			b.ReportAllocs()
			for b.Loop() {
				From("shop", c, all)
			}
		})
	}
}
