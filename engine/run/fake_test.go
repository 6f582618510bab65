package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// fakeCluster responds to requests after a delay and reports the states in its script. It
// uses the time of its synctest bubble.
type fakeCluster struct {
	mu      sync.Mutex
	script  map[string]behaviour // by object name
	reports map[plan.Object]func(Observation)
	watch   context.Context
	calls   map[string]int
	order   []string // the calls, by kind and name
	version uint64
	pending int
	most    int // maximum number of concurrent requests
	// mostFor and pendingFor are most and pending for each object.
	mostFor, pendingFor map[string]int
}

// behaviour describes an object after its apply.
type behaviour struct {
	request  time.Duration // response time of the API server
	err      error
	ready    time.Duration // time from the response until it is ready
	never    bool          // never ready
	failed   string        // instead of becoming ready, it fails with this message after the duration of ready
	declared bool          // a readiness expression declared the failure
	gone     time.Duration // duration of its removal
	outcome  event.Change
	untilTry int // number of attempts with the failure or error
	stale    bool
	hang     bool          // the request returns only when it is cancelled
	blocked  time.Duration // the first apply finds an object of the same name, which is gone after this; -1 for never
	blocks   int           // how many tries are blocked, at least one
	stuck    bool          // never gone after its deletion
}

func newFake(script map[string]behaviour) *fakeCluster {
	return &fakeCluster{script: script, reports: map[plan.Object]func(Observation){}, calls: map[string]int{}, mostFor: map[string]int{}, pendingFor: map[string]int{}}
}

func (f *fakeCluster) Watch(ctx context.Context, g *plan.Group, report func(Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = ctx
	for _, o := range g.Objects {
		f.reports[o] = report
		if f.script[o.Name].stale {
			report(Observation{Object: o, Status: event.Ready, Message: "stale", Version: 1})
		}
	}
}

func (f *fakeCluster) enter(o plan.Object) (behaviour, int, func(Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending++
	f.most = max(f.most, f.pending)
	f.calls[o.Name]++
	f.pendingFor[o.Name]++
	f.mostFor[o.Name] = max(f.mostFor[o.Name], f.pendingFor[o.Name])
	f.order = append(f.order, o.String())
	return f.script[o.Name], f.calls[o.Name], f.reports[o]
}

func (f *fakeCluster) next() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version == 0 {
		f.version = 100
	}
	f.version++
	return f.version
}

// wait sleeps; it returns false if the watch ends first.
func (f *fakeCluster) wait(d time.Duration) bool {
	f.mu.Lock()
	watch := f.watch // of the last group: all watches of a run end together
	f.mu.Unlock()
	select {
	case <-time.After(d):
		return true
	case <-watch.Done():
		return false
	}
}

func (f *fakeCluster) leave(o plan.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending--
	f.pendingFor[o.Name]--
}

// inFlight returns the number of requests without a response.
func (f *fakeCluster) inFlight() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending
}

func (f *fakeCluster) Apply(ctx context.Context, _ *plan.Group, o plan.Object) (Response, error) {
	b, try, report := f.enter(o)
	defer f.leave(o)
	if b.hang {
		<-ctx.Done()
		return Response{}, ctx.Err()
	}
	time.Sleep(b.request)
	broken := b.untilTry == 0 || try <= b.untilTry
	if b.blocked != 0 && try <= max(1, b.blocks) {
		return Response{Message: "waiting for finalizer example.com/held", WaitGone: func(ctx context.Context) {
			if b.blocked < 0 {
				<-ctx.Done()
			} else {
				f.wait(b.blocked)
			}
		}}, nil
	}
	if b.err != nil && broken {
		return Response{}, b.err
	}
	v := f.next()
	go func() {
		if !f.wait(b.ready) {
			return
		}
		switch {
		case b.failed != "" && broken:
			report(Observation{Object: o, Status: event.Failed, Message: b.failed, FailureDeclared: b.declared, Version: f.next()})
		case b.never && broken:
			report(Observation{Object: o, Status: event.InProgress, Message: "0 of 1 available", Version: f.next()})
		default:
			report(Observation{Object: o, Status: event.Ready, Version: f.next()})
		}
	}()
	return Response{Change: event.Created, Version: v}, nil
}

func (f *fakeCluster) Delete(ctx context.Context, _ *plan.Group, o plan.Object) (Response, error) {
	b, _, report := f.enter(o)
	defer f.leave(o)
	if b.hang {
		<-ctx.Done()
		return Response{}, ctx.Err()
	}
	time.Sleep(b.request)
	if b.outcome == event.Kept || b.outcome == event.Absent {
		return Response{Change: b.outcome}, nil
	}
	go func() {
		if !f.wait(b.gone) {
			return
		}
		if b.stuck {
			report(Observation{Object: o, Status: event.Deleting, Message: "waiting for finalizer example.com/held", Version: f.next()})
			return
		}
		report(Observation{Object: o, Status: event.Gone, Version: f.next()})
	}()
	return Response{Change: event.Deleted}, nil
}

// groupsOf reads a plan from lines such as "a: x y", "b < a: z" or
// "c < a b: u, v" (a comma starts a new wave); objects are Pods, or "Kind/name".
func groupsOf(lines ...string) []*plan.Group {
	var groups []*plan.Group
	for _, l := range lines {
		head, objects, _ := strings.Cut(l, ":")
		name, after, _ := strings.Cut(head, "<")
		g := &plan.Group{ID: "c:" + strings.TrimSpace(name), Chart: "c", Name: strings.TrimSpace(name), After: []string{}}
		for a := range strings.FieldsSeq(after) {
			g.After = append(g.After, "c:"+a)
		}
		for wave := range strings.SplitSeq(objects, ",") {
			names := strings.Fields(wave)
			for _, n := range names {
				o := plan.Object{Kind: "Pod", Namespace: "n", Name: n}
				if kind, name, ok := strings.Cut(n, "/"); ok {
					o.Kind, o.Name = kind, name
				}
				g.Objects = append(g.Objects, o)
			}
			if len(names) > 0 {
				g.Waves = append(g.Waves, plan.Wave{Count: len(names)})
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// rig is a run under test.
type rig struct {
	t    *testing.T
	e    *Engine
	fake *fakeCluster
	feed *event.Feed
	from time.Time
}

// run starts an engine with a stage of the given groups in a bubble, calls steer meanwhile,
// and returns the trace of events and the stage's error.
func run(t *testing.T, opts Options, s Stage, fake *fakeCluster, steer func(*rig)) (trace []string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &rig{t: t, fake: fake, feed: &event.Feed{}, from: time.Now()}
		opts.Feed = b.feed
		b.e = New(opts)
		s.Cluster = fake
		if s.Phase.Name == "" {
			s.Phase.Name, s.Phase.Kind = "apply", event.PhaseApply
		}
		b.e.Announce(s.Phase)
		r := b.e.Start(s)
		synctest.Wait()
		if steer != nil {
			steer(b)
		}
		err = r.Wait()
		if b.e.Finish(End{Status: event.Succeeded}) != nil { // R48
			b.e.Finish(End{Status: event.Aborted})
		}
		trace = b.trace()
		synctest.Wait()
	})
	return trace, err
}

// at sleeps until d after the start of the run.
func (b *rig) at(d time.Duration) { time.Sleep(time.Until(b.from.Add(d))); synctest.Wait() }

func (b *rig) command(name event.CommandName, group string) {
	b.e.Command(event.Command{Name: name, Group: group})
	synctest.Wait()
}

// trace returns the events of the run, groups, commands, breakpoints, heartbeats and diagnoses as lines such as "1.0s c:a
// ready".
func (b *rig) trace() []string {
	var out []string
	for _, e := range b.feed.Events() {
		at := fmt.Sprintf("%.1fs ", e.Time.Sub(b.from).Seconds())
		message := ""
		if e.Message != "" {
			message = " (" + e.Message + ")"
		}
		switch e.Kind {
		case event.KindGroup:
			out = append(out, at+e.Group+" "+string(e.Status)+message)
		case event.KindRun:
			out = append(out, at+"run "+string(e.Status)+message)
		case event.KindCommand:
			out = append(out, at+string(e.Command)+" "+string(e.Status)+message)
		case event.KindBreakpoint:
			out = append(out, at+"breakpoint "+e.Group+" "+string(e.Status))
		case event.KindWaiting, event.KindDiagnosis:
			out = append(out, at+string(e.Kind)+" "+e.Group+" "+e.Object.String()+message)
		}
	}
	return out
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(lines, "\n"); g != w {
		t.Errorf("trace:\n%s\nwant:\n%s", g, w)
	}
}

var errDenied = errors.New("admission webhook denied the request")
