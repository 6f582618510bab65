package run

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// instantCluster answers at once, and its objects are ready at once.
type instantCluster struct {
	mu     sync.Mutex
	report func(Observation)
}

func (c *instantCluster) Watch(_ context.Context, _ *plan.Group, report func(Observation)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = report
}

func (c *instantCluster) Apply(_ context.Context, _ *plan.Group, o plan.Object) (Outcome, error) {
	c.mu.Lock()
	report := c.report
	c.mu.Unlock()
	report(Observation{Object: o, Status: event.Ready, Version: 2})
	return Outcome{Change: event.Created, Version: 1}, nil
}

func (c *instantCluster) Delete(context.Context, *plan.Group, plan.Object) (Outcome, error) {
	return Outcome{Change: event.Absent}, nil
}

// BenchmarkApply is the time from the start of a group to its end, for a group
// of one object in a chain: what the engine adds to every step. With noise,
// 2,000 status events a second come in beside it and a reader draws them.
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
			wg.Go(func() { drawAll(ctx, feed) })
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

func drawAll(ctx context.Context, feed *event.Feed) {
	var s event.State
	for r := feed.Reader(); ; {
		batch, ok := r.Next(ctx)
		if !ok {
			return
		}
		for _, e := range batch {
			s.Apply(e)
		}
	}
}

// chatter publishes so many events a second.
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
