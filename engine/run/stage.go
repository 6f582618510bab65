package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Stage is one phase and what it is done with.
type Stage struct {
	Phase   event.Phase
	Cluster Cluster
	// Await tells which groups are over only when their objects are ready, or
	// in a removal gone; the others are over once the API server has answered
	// (R21). Nil awaits every group.
	Await func(*plan.Group) bool
	// Readiness is how long an awaited object may take from its apply, in
	// active time; 0 for no limit of its own (R25).
	Readiness time.Duration
}

// Failure is a group that failed, and the object that made it fail.
type Failure struct {
	Group   string
	Object  plan.Object
	Message string
}

// StageError is why a stage did not do all it should.
type StageError struct {
	Failures []Failure
	// Skipped lists the groups that never started, in plan order.
	Skipped []string
	// Cause is ErrAborted or ErrTimeout where that ended the stage, or nil.
	Cause error
}

func (s *StageError) Unwrap() error { return s.Cause }

func (s *StageError) Error() string {
	var parts []string
	if s.Cause != nil {
		parts = append(parts, s.Cause.Error())
	}
	for _, f := range s.Failures {
		parts = append(parts, fmt.Sprintf("%s: %s: %s", f.Group, f.Object, f.Message))
	}
	if len(s.Skipped) > 0 {
		parts = append(parts, "never started: "+strings.Join(s.Skipped, ", "))
	}
	return strings.Join(parts, "; ")
}

// StageRun is a stage under way.
type StageRun struct {
	Stage
	e       *Engine
	groups  []*groupRun // in plan order
	byID    map[string]*groupRun
	applied chan struct{} // closed when every request was answered
	done    chan struct{} // closed when err is set
	err     error

	tasks      []task // requests that wait for a free place
	busy       int    // requests under way
	diagnosing int
	looking    int // diagnoses that nothing waits for
	deadlines  []deadline
	failing    bool // a group failed and is given up: nothing more starts
	failures   []*Failure
	closed     bool
	era        int // of the engine when the stage began
}

type groupRun struct {
	*plan.Group
	status  event.Status
	await   bool
	left    int  // gates that are not open
	passed  bool // its breakpoint has been passed
	admit   bool // Admit let it go before the stage began
	watched bool
	after   []*groupRun // groups that wait for this one
	objects []*objectRun
	index   map[plan.Object]*objectRun
	wave    int // the wave whose requests are under way
	sent    int // objects before this one have been sent
	pending int // requests of this attempt without an answer
	unready int // awaited objects that are not done
	attempt int
}

type objectRun struct {
	plan.Object
	answered bool // the API server has answered this attempt's request
	version  uint64
	name     string    // the name that the API server made, if it did
	since    time.Time // when the request was answered
	last     Observation
	status   event.Status
	message  string
	told     string // the last reason that was told while it was waited for
}

type task struct {
	g *groupRun
	o *objectRun
	n int // the attempt it belongs to
}

type deadline struct {
	g  *groupRun
	o  *objectRun
	n  int
	at time.Duration // active time
}

// Start begins a stage. One stage runs at a time.
func (e *Engine) Start(s Stage) *StageRun {
	r := &StageRun{Stage: s, e: e, byID: map[string]*groupRun{}, applied: make(chan struct{}), done: make(chan struct{})}
	for _, g := range s.Phase.Groups {
		gr := &groupRun{Group: g, status: event.Waiting, await: s.Await == nil || s.Await(g), index: make(map[plan.Object]*objectRun, len(g.Objects))}
		for _, o := range g.Objects {
			or := &objectRun{Object: o, status: event.Waiting}
			gr.objects = append(gr.objects, or)
			gr.index[o] = or
		}
		r.groups = append(r.groups, gr)
		r.byID[g.ID] = gr
	}
	for _, g := range r.groups {
		for _, id := range g.After {
			if before := r.byID[id]; before != nil {
				before.after = append(before.after, g)
				g.left++
			}
		}
	}
	e.post(func() { e.enter(r) })
	return r
}

// Run runs a stage to its end. The error is a *StageError.
func (e *Engine) Run(s Stage) error { return e.Start(s).Wait() }

// Applied waits until every request of the stage was answered, or the stage is
// over; it returns the stage's error in the latter case.
func (r *StageRun) Applied() error {
	select {
	case <-r.applied:
		return nil
	case <-r.done:
		return r.err
	case <-r.e.over:
		return &StageError{Cause: ErrAborted}
	}
}

// Wait waits until the stage is over. The error is a *StageError.
func (r *StageRun) Wait() error {
	select {
	case <-r.done:
		return r.err
	case <-r.e.over:
		return &StageError{Cause: ErrAborted}
	}
}

// enter makes r the stage of the engine.
func (e *Engine) enter(r *StageRun) {
	e.stage, r.era = r, e.era
	e.heartbeat = e.clock.active(time.Now()) + e.opts.Heartbeat
	for _, g := range r.groups {
		g.admit = e.groups[groupKey(r.Phase.Name, g.ID)] == event.Running
		if !g.admit {
			e.groups[g.ID] = event.Waiting
		}
	}
}

// set changes the state of a group and tells.
func (r *StageRun) set(g *groupRun, s event.Status, message string) {
	g.status = s
	r.e.setGroup(r.Phase.Name, g.ID, s, message)
}

func (e *Engine) setGroup(phase, id string, s event.Status, message string) {
	e.groups[id] = s
	e.groups[groupKey(phase, id)] = s
	e.heartbeat = e.clock.active(time.Now()) + e.opts.Heartbeat
	e.publish(event.Event{Kind: event.KindGroup, Phase: phase, Group: id, Status: s, Message: message})
}

// begin starts a group, or starts it again (R44).
func (r *StageRun) begin(g *groupRun) {
	g.attempt++
	g.wave, g.sent, g.pending, g.unready = 0, 0, 0, 0
	for _, o := range g.objects {
		o.answered, o.since = false, time.Time{}
		if o.last.Status == event.Failed { // only what comes after this attempt counts
			o.last = Observation{}
		}
	}
	r.failures = slices.DeleteFunc(r.failures, func(f *Failure) bool { return f.Group == g.ID })
	if !g.admit || g.attempt > 1 {
		r.set(g, event.Running, "")
	}
	g.status = event.Running
	if !g.watched {
		g.watched = true
		r.Cluster.Watch(r.e.ctx, g.Group, func(o Observation) {
			r.e.post(func() { r.observe(g, o) })
		})
	}
	if g.await {
		g.unready = len(g.objects)
	}
	r.send(g)
	r.settle(g)
}

// send queues the requests of the group's present wave where it may start.
func (r *StageRun) send(g *groupRun) {
	for g.wave < len(g.Waves) && g.pending == 0 {
		w := g.Waves[g.wave]
		for _, need := range w.Established {
			if o := g.index[need]; o != nil && !r.doneWith(o) {
				return
			}
		}
		for _, o := range g.objects[g.sent : g.sent+w.Count] {
			r.tasks = append(r.tasks, task{g, o, g.attempt})
			g.pending++
		}
		g.sent += w.Count
		g.wave++
	}
}

// pump sends queued requests while there are free places.
func (r *StageRun) pump() {
	for len(r.tasks) > 0 && r.busy < r.e.opts.Parallel {
		t := r.tasks[0]
		r.tasks = r.tasks[1:]
		if t.n == t.g.attempt && t.g.status == event.Running {
			r.request(t)
		}
	}
}

func (r *StageRun) request(t task) {
	r.busy++
	call, status := r.Cluster.Apply, event.Applying
	if r.Phase.Kind == event.PhaseRemove {
		call, status = r.Cluster.Delete, event.Deleting
	}
	r.setObject(t.g, t.o, status, "", "")
	ctx := r.e.requests
	go func() {
		out, err := call(ctx, t.g.Group, t.o.Object)
		r.e.post(func() { r.answer(t, out, err) })
	}()
}
