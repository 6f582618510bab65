package board

import (
	"context"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Cluster answers requests and reports statuses from a script, in the time of the synctest bubble.
type Cluster struct {
	mu      sync.Mutex
	script  map[string]Behaviour // by Kind/name
	reports map[plan.Object]func(run.Observation)
	watch   context.Context
	tries   map[plan.Object]int
	version uint64
}

// Behaviour is what an object does after its apply.
type Behaviour struct {
	request time.Duration // until the API server answers
	ready   time.Duration // from then on
	says    []string      // messages while it is in progress, evenly spread
	fails   string        // it fails instead of becoming ready
	tries   int           // number of times that it fails
	gone    time.Duration // how long its removal takes
}

// NewCluster returns a cluster with a script, by Kind/name.
func NewCluster(script map[string]Behaviour) *Cluster {
	return &Cluster{script: script, reports: map[plan.Object]func(run.Observation){}, tries: map[plan.Object]int{}}
}

func (f *Cluster) Watch(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = ctx
	for _, o := range g.Objects {
		f.reports[o] = report
	}
}

func (f *Cluster) next() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	return f.version
}

func (f *Cluster) Apply(ctx context.Context, _ *plan.Group, o plan.Object) (run.Response, error) {
	f.mu.Lock()
	b, report, watch := f.script[o.String()], f.reports[o], f.watch
	f.tries[o]++
	broken := b.fails != "" && (b.tries == 0 || f.tries[o] <= b.tries)
	f.mu.Unlock()
	if !wait(ctx, b.request+40*time.Millisecond) {
		return run.Response{}, ctx.Err()
	}
	v := f.next()
	go func() {
		see := func(s event.Status, message string) {
			report(run.Observation{Object: o, Status: s, Message: message, Version: f.next()})
		}
		for i, message := range b.says {
			see(event.InProgress, message)
			if i == len(b.says)-1 {
				break
			}
			if !wait(watch, b.ready/time.Duration(len(b.says))) {
				return
			}
		}
		if !wait(watch, b.ready/time.Duration(max(len(b.says), 1))) {
			return
		}
		if broken {
			see(event.Failed, b.fails)
			return
		}
		see(event.Ready, "")
	}()
	return run.Response{Change: event.Created, Version: v}, nil
}

func (f *Cluster) Delete(ctx context.Context, _ *plan.Group, o plan.Object) (run.Response, error) {
	f.mu.Lock()
	b, report, watch := f.script[o.String()], f.reports[o], f.watch
	f.mu.Unlock()
	if !wait(ctx, 40*time.Millisecond) {
		return run.Response{}, ctx.Err()
	}
	go func() {
		report(run.Observation{Object: o, Status: event.Deleting, Message: "waiting for its finalizers", Version: f.next()})
		if wait(watch, b.gone+200*time.Millisecond) {
			report(run.Observation{Object: o, Status: event.Gone, Version: f.next()})
		}
	}()
	return run.Response{Change: event.Deleted}, nil
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
