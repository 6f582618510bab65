// Package run carries a plan out: everything about time and steering is here.
package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// ErrAborted ends a stage after an abort (R43), ErrTimeout after the timeout of
// the operation (R25).
var (
	ErrAborted = errors.New("aborted")
	ErrTimeout = errors.New("timed out")
)

// Options are what an Engine needs to know of an operation.
type Options struct {
	Operation event.Operation
	// Feed gets all events. The engine closes it in Finish.
	Feed *event.Feed
	// Parallel is how many requests are under way at the most (default 32).
	Parallel int
	// Paused starts the run paused, before the first unit (R41, --step).
	Paused bool
	// Breakpoints are ids of groups: the run stops before every unit of such
	// an id, once each (R42).
	Breakpoints []string
	// HoldOnFailure pauses the run when a group fails (R44).
	HoldOnFailure bool
	// Heartbeat is how long no group may change before a Waiting event tells
	// what is waited for, and again after as long; 0 for never.
	Heartbeat time.Duration
	// Diagnose says why an object is not ready, in a line and in detail. It
	// is called in a goroutine of its own, with a context that ends soon.
	Diagnose func(ctx context.Context, o plan.Object) (summary string, lines []string)
}

// Engine runs one operation: a sequence of stages, steered by commands. One
// goroutine owns all of its state; methods may be called from any goroutine.
// New starts it, Finish ends it.
type Engine struct {
	opts  Options
	inbox inbox
	over  chan struct{} // closed when the loop has ended

	// ctx is the context of watches, requests that of requests: the second is
	// cancelled by Stop and made anew for a rollback.
	ctx    context.Context
	cancel context.CancelFunc

	// What follows belongs to the loop.
	requests       context.Context
	cancelRequests context.CancelFunc
	run            event.Status
	clock          clock
	timer          *time.Timer
	steps          int // units that Step has let go and that have not started
	breaks         map[event.Unit]bool
	groups         map[string]event.Status // of all announced groups, by id and by phase and id
	units          []unit                  // announced, in order
	era            int                     // counts rollbacks: observations of an earlier one do not count
	stage          *StageRun
	gates          []*gate
	abort          *event.Command
	timedOut       bool
	heartbeat      time.Duration // active time of the next one
	looked         time.Time     // when the last look into what is not ready was taken
	lookDue        time.Time     // not after the next one, zero for none
	patience       time.Time     // when requests in flight are cancelled after an abort
	closing        bool
}

// gate is a unit outside of a stage that waits to be let go (Admit).
type gate struct {
	phase string
	group *plan.Group
	done  chan error
}

// New starts an engine and publishes the opening event.
func New(opts Options) *Engine {
	if opts.Parallel <= 0 {
		opts.Parallel = 32
	}
	e := &Engine{
		opts:   opts,
		inbox:  inbox{ready: make(chan struct{}, 1)},
		over:   make(chan struct{}),
		run:    event.Running,
		clock:  clock{start: time.Now()},
		timer:  time.NewTimer(time.Hour),
		breaks: map[event.Unit]bool{},
		groups: map[string]event.Status{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.requests, e.cancelRequests = context.WithCancel(e.ctx)
	e.publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &opts.Operation})
	if opts.Paused {
		e.setRun(event.Paused, "before the first unit")
	}
	go e.loop()
	return e
}

// Announce publishes what will run, so that a screen can show all of it before
// it begins.
func (e *Engine) Announce(phases ...event.Phase) {
	e.post(func() { e.announce(phases) })
}

func (e *Engine) announce(phases []event.Phase) {
	e.publish(event.Event{Kind: event.KindPlan, Phases: phases})
	for _, p := range phases {
		for _, g := range p.Groups {
			if _, ok := e.groups[g.ID]; !ok {
				e.groups[g.ID] = event.Waiting
			}
			u := unit{p.Name, g.ID}
			if _, ok := e.groups[u.key()]; !ok {
				e.groups[u.key()] = event.Waiting
				e.units = append(e.units, u)
				if slices.Contains(e.opts.Breakpoints, g.ID) {
					e.setBreak(event.Unit{Phase: p.Name, Group: g.ID}, event.Set)
				}
			}
		}
	}
}

// unit names a unit of the run: a group has one in each phase that it is in.
type unit struct{ phase, id string }

func (u unit) key() string { return groupKey(u.phase, u.id) }

// skipRest tells of the announced units that they will not start any more.
func (e *Engine) skipRest(why string) {
	for _, u := range e.units {
		if s := e.groups[u.key()]; s == event.Waiting || s == event.Held {
			e.setGroup(u.phase, u.id, event.Skipped, why)
		}
	}
	e.units = nil
}

// Publish adds an event that the engine itself knows nothing about: a warning,
// a hook's log, the notes.
func (e *Engine) Publish(ev event.Event) { e.publish(ev) }

func (e *Engine) publish(ev event.Event) { e.opts.Feed.Publish(ev) }

// Admit waits until the unit may start and marks it as running: for work that
// begins before its stage does, as a hook's does with the removal of the hook's
// last object. A stage that starts it later does not ask again, nor does a
// second Admit. The error is ErrAborted or ErrTimeout.
func (e *Engine) Admit(phase string, g *plan.Group) error {
	w := &gate{phase: phase, group: g, done: make(chan error, 1)}
	e.post(func() { e.gates = append(e.gates, w) })
	select {
	case err := <-w.done:
		return err
	case <-e.over:
		return ErrAborted
	}
}

// Requests returns the context for requests of the operation: it ends when the
// run is stopped (Stop) and at the end of the operation.
func (e *Engine) Requests() context.Context {
	got := make(chan context.Context, 1)
	e.post(func() { got <- e.requests })
	select {
	case ctx := <-got:
		return ctx
	case <-e.over:
		return e.ctx
	}
}

// Verdict is what became of the run so far.
type Verdict struct {
	// Abort is the command that aborted it, nil where none did.
	Abort *event.Command
	// TimedOut tells that the operation's timeout is over.
	TimedOut bool
}

// Verdict returns what became of the run so far.
func (e *Engine) Verdict() Verdict {
	got := make(chan Verdict, 1)
	e.post(func() { got <- Verdict{Abort: e.abort, TimedOut: e.timedOut} })
	select {
	case v := <-got:
		return v
	case <-e.over:
		return Verdict{Abort: &event.Command{Name: event.Abort}}
	}
}

// BeginRollback starts the undoing of what a failed or aborted operation did,
// with a clock of its own and without breakpoints. Holding on failure ends here: a rollback that fails
// is over (R43).
func (e *Engine) BeginRollback(op event.Operation, reason string) {
	done := make(chan struct{})
	e.post(func() {
		defer close(done)
		e.cancelRequests()
		e.requests, e.cancelRequests = context.WithCancel(e.ctx)
		e.abort, e.timedOut, e.steps, e.patience = nil, false, 0, time.Time{}
		e.opts.Breakpoints = nil
		for _, u := range e.units {
			if b := (event.Unit{Phase: u.phase, Group: u.id}); e.breaks[b] {
				e.setBreak(b, event.Cleared)
			}
		}
		e.opts.HoldOnFailure = false
		e.opts.Operation.Timeout = op.Timeout
		e.clock = clock{start: time.Now()}
		e.run = event.Running
		e.skipRest("not started: rolling back")
		e.era++
		e.publish(event.Event{Kind: event.KindOperation, Status: event.RollingBack, Operation: &op, Message: reason})
	})
	select {
	case <-done:
	case <-e.over:
	}
}

// End is how an operation ended.
type End struct {
	Status  event.Status // Succeeded, Failed or Aborted
	Message string       // in one line
	Exit    int          // the exit code
	Release string       // see Event.Release
}

// Finish publishes the closing event, ends the watches and the loop, and closes
// the feed. The engine must not be used after it.
func (e *Engine) Finish(end End) {
	e.post(func() {
		if end.Status != event.Succeeded {
			e.skipRest("not started: the operation has ended")
		}
		e.publish(event.Event{Kind: event.KindOperation, Status: end.Status, Message: oneLine(end.Message), Exit: &end.Exit, Release: end.Release})
		e.closing = true
	})
	<-e.over
}

// loop is the one goroutine that owns the engine's state.
func (e *Engine) loop() {
	defer close(e.over)
	defer e.opts.Feed.Close()
	defer e.cancel()
	defer e.timer.Stop()
	for !e.closing {
		e.schedule()
		e.timer.Reset(min(e.nextTimer(), e.nextLook()))
		select {
		case <-e.inbox.ready:
			for _, f := range e.inbox.take() {
				f()
			}
		case <-e.timer.C:
			e.tick()
			e.look()
		}
	}
}

// post hands f to the loop. It never blocks.
func (e *Engine) post(f func()) { e.inbox.put(f) }

// inbox is the loop's queue. It has no bound, so that neither a watch nor a
// key press ever waits for the loop.
type inbox struct {
	mu    sync.Mutex
	queue []func()
	ready chan struct{} // holds a token while queue is not empty
}

func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.queue = append(b.queue, f)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}

// clock counts the time an operation was neither paused nor held (R25).
type clock struct {
	start   time.Time
	idle    time.Duration
	stopped time.Time // zero while it counts
}

func (c *clock) active(now time.Time) time.Duration {
	if !c.stopped.IsZero() {
		now = c.stopped
	}
	return now.Sub(c.start) - c.idle
}

func (c *clock) stop(now time.Time) {
	if c.stopped.IsZero() {
		c.stopped = now
	}
}

func (c *clock) goOn(now time.Time) {
	if !c.stopped.IsZero() {
		c.idle += now.Sub(c.stopped)
		c.stopped = time.Time{}
	}
}

func groupKey(phase, id string) string { return phase + "\x00" + id }
