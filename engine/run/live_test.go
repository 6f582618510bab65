package run

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestModelOfTheEngine runs some scenarios of the model test through the Engine itself, with
// its goroutines, in a synctest bubble.
func TestModelOfTheEngine(t *testing.T) { // R44, R48
	for seed := range uint64(1000) {
		if wrong := runEngine(t, newScenario(seed)); len(wrong) > 0 {
			s := shrink(newScenario(seed), func(c scenario) bool { return len(runEngine(t, c)) > 0 })
			t.Fatalf("seed %d: %v\n%s", seed, runEngine(t, s), s)
		}
	}
}

// live is the operator, the cluster and the observer of a real engine.
type live struct {
	s      scenario
	e      *Engine
	feed   *event.Feed
	reader *event.Reader

	mu sync.Mutex // guards the fields below
	r  *reference
	w  world
}

// runEngine runs a scenario and returns the rule violations.
func runEngine(t *testing.T, s scenario) (wrong []string) {
	synctest.Test(t, func(*testing.T) {
		x := &live{s: s, feed: &event.Feed{}, r: newReference(s)}
		x.reader = x.feed.Reader()
		x.r.steer.paused, x.r.outside = s.Paused, nil
		opts := s.options()
		opts.Feed = x.feed
		x.e = New(opts)
		over := make(chan struct{})
		go func() { operate(s, x); close(over) }()
		from := time.Now()
		for _, c := range s.Commands {
			time.Sleep(time.Until(from.Add(time.Duration(c.At) * time.Millisecond)))
			x.command(c.Command)
		}
		for n := 1; n < 40; n++ {
			select {
			case <-over:
			case <-time.After(time.Second):
				x.command(nudge(x.run(), n))
				continue
			}
			break
		}
		x.settle()
		if !x.r.closed {
			x.r.fail("R34: the run does not end: %s", x.r.state.Run)
		}
		wrong = x.r.wrong
	})
	return wrong
}

// settle waits until no message is in flight and processes all events.
func (x *live) settle() {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drain()
	x.r.quiet()
}

// drain requires that the caller holds x.mu.
func (x *live) drain() {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		batch, ok := x.reader.Next(cancelled)
		for _, e := range batch {
			x.r.event(e)
		}
		if !ok {
			return
		}
	}
}

func (x *live) run() event.Status {
	x.settle()
	return x.r.state.Run
}

func (x *live) command(c event.Command) {
	x.settle()
	x.mu.Lock()
	closed := x.r.closed
	if !closed {
		x.r.sent = append(x.r.sent, c)
	}
	x.mu.Unlock()
	if !closed {
		x.e.Command(c)
		x.settle()
	}
}

func (x *live) announce(p phaseSpec) {
	x.mu.Lock()
	x.r.announce(p)
	x.mu.Unlock()
	x.e.Announce(p.phase())
}

func (x *live) admit(p phaseSpec, g *plan.Group) error { return x.e.Admit(p.Name, g) }

func (x *live) stage(p phaseSpec, def event.Phase) error {
	x.mu.Lock()
	x.drain()
	x.r.enter(def)
	x.mu.Unlock()
	err := x.e.Run(Stage{Phase: def, Await: p.await, WatchOutside: x.watchOutside, Lenient: p.Lenient, ObjectTimeout: time.Duration(x.s.Readiness) * time.Millisecond, Cluster: &liveCluster{x, p, map[string]func(Observation){}}})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drain()
	x.r.stage = nil
	return err
}

// watchOutside reports the objects outside the release for which a group waits. Their changes start with the watch.
func (x *live) watchOutside(ctx context.Context, g *plan.Group, report func(Observation)) {
	for _, p := range x.s.Phases {
		for _, spec := range p.Groups {
			for _, o := range spec.Outside {
				object := plan.Object{Kind: "Secret", Name: o.Name}
				if !slices.Contains(g.WaitFor, object) {
					continue
				}
				report(Observation{Object: object, Status: event.Gone})
				for _, c := range o.Changes {
					time.AfterFunc(time.Duration(c.At)*time.Millisecond, func() {
						if ctx.Err() == nil {
							report(Observation{Object: object, Status: results[c.Status]})
						}
					})
				}
			}
		}
	}
}

func (x *live) confirm(last phaseSpec) error {
	x.mu.Lock()
	x.drain()
	x.r.enter(last.phase())
	x.r.confirming = true
	x.mu.Unlock()
	err := x.e.ConfirmReady()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drain()
	x.r.stage, x.r.confirming = nil, false
	return err
}

func (x *live) endingCommand() *event.Command { return x.e.EndingCommand() }
func (x *live) finish(e End) error            { return x.e.Finish(e) }
func (x *live) sleep(ms int)                  { time.Sleep(time.Duration(ms) * time.Millisecond) }
func (x *live) rollback() error {
	return x.e.StartRollback(event.Operation{Name: "uninstall"}, "")
}

func (x *live) startEditedRevision() error {
	return x.e.StartEditedRevision(event.Operation{Name: "upgrade", Timeout: x.s.options().Operation.Timeout}, "", x.s.phases()...)
}

// liveCluster is the cluster of one stage.
type liveCluster struct {
	x       *live
	p       phaseSpec
	reports map[string]func(Observation) // by group
}

func (c *liveCluster) Watch(ctx context.Context, g *plan.Group, report func(Observation)) {
	c.x.mu.Lock()
	c.reports[g.ID] = func(o Observation) {
		if ctx.Err() == nil {
			report(o)
		}
	}
	c.x.mu.Unlock()
	for _, o := range g.Objects {
		if c.p.spec(o).Stale {
			report(Observation{Object: o, Status: event.Ready, Version: 1})
		}
	}
}

func (c *liveCluster) Apply(ctx context.Context, g *plan.Group, o plan.Object) (Response, error) {
	return c.request(ctx, g, o)
}

func (c *liveCluster) Delete(ctx context.Context, g *plan.Group, o plan.Object) (Response, error) {
	return c.request(ctx, g, o)
}

func (c *liveCluster) request(ctx context.Context, g *plan.Group, o plan.Object) (Response, error) {
	x := c.x
	x.mu.Lock()
	x.r.requested(event.Unit{Phase: c.p.Name, Group: g.ID}, o, false)
	spec := x.w.attempt(c.p, c.p.spec(o))
	report := c.reports[g.ID]
	x.mu.Unlock()
	later := func(ms int, s event.Status) {
		time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
			x.mu.Lock()
			v := x.w.next()
			x.mu.Unlock()
			report(Observation{Object: o, Status: s, Version: v})
		})
	}
	fixed := func(after int) {
		if spec.Fixed > 0 {
			later(after+spec.Fixed, results[c.p.goal()])
		}
	}
	defer func() {
		x.mu.Lock()
		x.r.returned(o)
		x.mu.Unlock()
	}()
	if spec.Hang {
		fixed(0)
		<-ctx.Done()
		return Response{}, ctx.Err()
	}
	time.Sleep(time.Duration(spec.Request) * time.Millisecond)
	if spec.Denied {
		fixed(0)
		return Response{}, errRefused
	}
	x.mu.Lock()
	v := x.w.next()
	x.mu.Unlock()
	later(spec.After, results[spec.Result])
	switch {
	case spec.Result != c.p.goal():
		fixed(spec.After)
	case spec.Breaks > 0:
		later(spec.After+spec.Breaks, results[spec.Broken])
		if spec.Heals > 0 {
			later(spec.After+spec.Breaks+spec.Heals, event.Ready)
		}
	}
	return Response{Change: event.Created, Version: v}, nil
}
