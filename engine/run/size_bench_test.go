package run

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// shapes are plans of so many objects: groups of ten of which each waits for up to
// three others, groups that all start at once, one group after the other, and one
// group with everything in it.
var shapes = []struct {
	name  string
	group int // objects in one
	gates func(n int) []int
}{
	{"graph", 10, func(n int) []int {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		var gates []int
		for range min(n, 3) {
			gates = append(gates, random.IntN(n))
		}
		return gates
	}},
	{"wide", 10, func(int) []int { return nil }},
	{"chain", 10, func(n int) []int {
		if n == 0 {
			return nil
		}
		return []int{n - 1}
	}},
	{"flat", 1 << 30, func(int) []int { return nil }},
}

// phaseOf makes a plan of that many objects: ConfigMaps, Services and Deployments.
func phaseOf(objects, group int, gates func(n int) []int) event.Phase {
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	for at := 0; at < objects; {
		n := len(p.Groups)
		g := &plan.Group{ID: fmt.Sprint("c:", n), After: []string{}}
		for _, gate := range gates(n) {
			g.After = append(g.After, fmt.Sprint("c:", gate))
		}
		count := min(group, objects-at)
		for i, kind := range []string{"ConfigMap", "Service", "Deployment"} {
			wave := plan.Wave{Count: count*(i+1)/3 - count*i/3}
			for range wave.Count {
				g.Objects = append(g.Objects, plan.Object{Kind: kind, Namespace: "n", Name: fmt.Sprint("o", at)})
				at++
			}
			g.Waves = append(g.Waves, wave)
		}
		p.Groups = append(p.Groups, g)
	}
	return p
}

// BenchmarkRun is all that the machine decides in a run of so many objects, on a
// cluster that answers at once, and shows each object ready a little later.
func BenchmarkRun(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				p := phaseOf(n, shape.group, shape.gates)
				b.ReportAllocs()
				for b.Loop() {
					if ready := carryThrough(p); ready != n {
						b.Fatalf("%d objects are ready", ready)
					}
				}
			})
		}
	}
}

// carryThrough runs a phase to its end, and returns how many objects have been told
// to be ready.
func carryThrough(p event.Phase) (ready int) {
	m := newMachine(Options{Operation: event.Operation{Name: "install", Timeout: time.Hour}}, epoch)
	now := epoch
	inbox := []message{announced{[]event.Phase{p}}, stageEntered{Stage{Phase: p, Readiness: time.Hour}, &StageRun{}}}
	seen := func(r request) message {
		return observed{r.group, Observation{Object: r.object.Object, Status: event.Ready, Version: 2}}
	}
	for at := 0; at < len(inbox); at++ {
		now = now.Add(time.Microsecond)
		for _, eff := range m.handle(now, inbox[at]) {
			switch eff := eff.(type) {
			case sendRequest:
				inbox = append(inbox, answered{eff.request, Outcome{Change: event.Created, Version: 1}, nil}, seen(eff.request))
			case publish:
				if eff.event.Kind == event.KindObject && eff.event.Status == event.Ready {
					ready++
				}
			case stageOver:
				return ready
			}
		}
	}
	return ready
}
