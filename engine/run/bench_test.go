package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// instantCluster responds at once, and its objects are ready at once.
type instantCluster struct {
	mu     sync.Mutex
	report func(Observation)
}

func (c *instantCluster) Watch(_ context.Context, _ *plan.Group, report func(Observation)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = report
}

func (c *instantCluster) Apply(_ context.Context, _ *plan.Group, o plan.Object) (Response, error) {
	c.mu.Lock()
	report := c.report
	c.mu.Unlock()
	report(Observation{Object: o, Status: event.Ready, Version: 2})
	return Response{Change: event.Created, Version: 1}, nil
}

func (c *instantCluster) Delete(context.Context, *plan.Group, plan.Object) (Response, error) {
	return Response{Change: event.Absent}, nil
}

// BenchmarkApply measures the time from the start of a group to its end, for groups of one
// object in a chain: the overhead of the engine per step. With noise, another goroutine publishes
// 2,000 status events per second. A reader applies all events to a State.
func BenchmarkApply(b *testing.B) {
	for _, noise := range []int{0, 2000} {
		b.Run(fmt.Sprintf("%d events a second", noise), func(b *testing.B) {
			feed := &event.Feed{}
			e := New(Options{Feed: feed})
			var groups []*plan.Group
			for i := range b.N {
				o := plan.Object{Kind: "ConfigMap", Name: fmt.Sprint(i)}
				g := &plan.Group{ID: fmt.Sprint("c:", i), After: []string{}, Objects: []plan.Object{o}, Waves: []plan.Wave{{Count: 1}}}
				if i > 0 {
					g.After = []string{groups[i-1].ID}
				}
				groups = append(groups, g)
				if i == 199 {
					break // longer chains measure the length of the plan
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { applyAll(ctx, feed) })
			wg.Go(func() { chatter(ctx, e, noise) })
			phase := event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}
			e.Announce(phase)
			b.ResetTimer()
			for done := 0; done < b.N; done += len(groups) {
				if err := e.Run(Stage{Phase: phase, Cluster: &instantCluster{}}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			cancel()
			e.Finish(End{Status: event.Succeeded})
			wg.Wait()
		})
	}
}

func applyAll(ctx context.Context, feed *event.Feed) {
	var s event.State
	for e := range feed.Reader().All(ctx) {
		s.Apply(e)
	}
}

// chatter publishes that many events per second.
func chatter(ctx context.Context, e *Engine, perSecond int) {
	if perSecond == 0 {
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	o := plan.Object{Kind: "Pod", Name: "noisy"}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for range perSecond / 100 {
				e.Publish(event.Event{Kind: event.KindObject, Phase: "apply", Group: "c:0", Object: &o, Status: event.InProgress})
			}
		}
	}
}

// shapes are plans for a number of objects: groups of ten that each wait for up to three
// others, groups that all start at once, a chain of groups, a single group, and a single group that
// is not awaited.
var shapes = []struct {
	name         string
	group        int // objects per group
	dependencies func(n int) []int
}{
	{"graph", 10, func(n int) []int {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		var dependencies []int
		for range min(n, 3) {
			dependencies = append(dependencies, random.IntN(n))
		}
		return dependencies
	}},
	{"wide", 10, func(int) []int { return nil }},
	{"chain", 10, func(n int) []int {
		if n == 0 {
			return nil
		}
		return []int{n - 1}
	}},
	{"flat", 1 << 30, func(int) []int { return nil }},
	{"leaf", 1 << 30, func(int) []int { return nil }},
}

// phaseOf makes a plan of n objects: ConfigMaps, Services and Deployments.
func phaseOf(objects, group int, dependencies func(n int) []int) event.Phase {
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	for at := 0; at < objects; {
		n := len(p.Groups)
		g := &plan.Group{ID: fmt.Sprint("c:", n), After: []string{}}
		for _, dependency := range dependencies(n) {
			g.After = append(g.After, fmt.Sprint("c:", dependency))
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

// BenchmarkRun measures all decisions of the machine in runs of 1,000 to 100,000 objects, on a
// cluster that responds at once and reports each object ready a little later.
func BenchmarkRun(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				p := phaseOf(n, shape.group, shape.dependencies)
				b.ReportAllocs()
				for b.Loop() {
					if ready := runPhase(p, shape.name != "leaf"); ready != n {
						b.Fatalf("%d objects are ready", ready)
					}
				}
			})
		}
	}
}

// runPhase runs a phase to its end and returns how many objects were reported ready.
// Observations arrive when all requests in flight have been answered.
func runPhase(p event.Phase, await bool) (ready int) {
	m := newMachine(Options{Operation: event.Operation{Name: "install", Timeout: time.Hour}}, epoch)
	stage := Stage{Phase: p, ObjectTimeout: time.Hour, Await: func(*plan.Group) bool { return await }}
	now := epoch
	inbox, seen := []message{announced{[]event.Phase{p}}, stageStarted{stage, &StageRun{}}}, []message(nil)
	for len(inbox)+len(seen) > 0 {
		if len(inbox) == 0 {
			inbox, seen = seen, nil
		}
		msg := inbox[0]
		inbox = inbox[1:]
		now = now.Add(time.Microsecond)
		for _, eff := range m.handle(now, msg) {
			switch eff := eff.(type) {
			case sendRequest:
				r := eff.request
				inbox = append(inbox, answered{r, Response{Change: event.Created, Version: 1}, nil})
				seen = append(seen, observed{r.group, Observation{Object: r.object.Object, Status: event.Ready, Version: 2}})
			case publish:
				if eff.event.Kind == event.KindObject && eff.event.Status == event.Ready {
					ready++
				}
			}
		}
	}
	return ready
}
