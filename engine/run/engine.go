// Package run carries a plan out: everything about time and steering is here. The
// machine decides, purely and synchronously; the Engine moves its messages and
// effects. Both are one package, of more than 2,000 lines: the messages and effects
// between them are nobody else's, and would have to be exported for it.
package run

import (
	"context"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// ErrAborted ends a stage after an abort (R43), ErrTimeout after the timeout of
// the operation (R25), ErrReplaced where an edited revision takes its place (R46).
var (
	ErrAborted  = errors.New("aborted")
	ErrTimeout  = errors.New("timed out")
	ErrReplaced = errors.New("replaced by an edited revision")
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
	// HoldOnFailure pauses the run when a group fails, in a rollback too (R44).
	HoldOnFailure bool
	// Heartbeat is how long no group may change before a Waiting event tells
	// what is waited for, and again after as long; 0 for never.
	Heartbeat time.Duration
	// Diagnose says why an object is not ready. It is called in a goroutine of
	// its own, with a context that ends soon.
	Diagnose func(ctx context.Context, o plan.Object) Finding
}

// Finding is why an object is not ready.
type Finding struct {
	// Cause and Evidence are those of an Event.
	Cause    string
	Evidence []string
	// Symptom tells that Cause says only what the object looks like: it does not
	// take the place of one that says why.
	Symptom bool
	// Fails tells that pods have failed or cannot start, or that pods which stay keep an
	// object from being deleted: waiting alone does not make it ready, or go.
	Fails bool
	// Lines are all that was found, for people to read.
	Lines []string
	// Requests is how many it took to find out.
	Requests int
}

// Explained is an error of a request that knows why, as a Finding does.
type Explained interface {
	error
	Finding() Finding
}

// nothing reports whether nothing was found.
func (f Finding) nothing() bool { return f.Cause == "" && len(f.Lines) == 0 }

// Engine runs one operation: a sequence of stages, steered by commands. Its
// methods may be called from any goroutine. New starts it, Finish ends it.
type Engine struct {
	opts  Options
	inbox inbox
	over  chan struct{} // closed when the loop has ended

	// ctx is the context of watches and diagnoses.
	ctx    context.Context
	cancel context.CancelFunc
}

// StageRun is a stage under way, for those who wait for it.
type StageRun struct {
	applied chan struct{} // closed when every request was answered
	done    chan struct{} // closed when err is set
	err     error
	over    <-chan struct{}
}

// New starts an engine and publishes the opening event.
func New(opts Options) *Engine {
	e := &Engine{opts: opts, inbox: inbox{ready: make(chan struct{}, 1)}, over: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	l := &loop{Engine: e, machine: newMachine(opts, time.Now())}
	l.renew()
	l.carryOut(l.machine.effects) // the opening event is there when New returns
	go l.run()
	return e
}

// Announce publishes what will run, so that a screen can show all of it before
// it begins.
func (e *Engine) Announce(phases ...event.Phase) { e.inbox.put(announced{phases}) }

// Publish adds an event that the engine itself knows nothing about: a warning,
// a hook's log, the notes. After the closing event it does nothing.
func (e *Engine) Publish(ev event.Event) { e.opts.Feed.Publish(ev) }

// Command gives an order to the run. It never blocks; an event tells whether the
// command was accepted (R45). After the closing event it is neither obeyed nor
// answered (R48).
func (e *Engine) Command(c event.Command) { e.inbox.put(commanded{c}) }

// Away tells the run that the API server has not answered since a time: what is
// waited for is given as much longer (R53). Back tells that it answers again.
func (e *Engine) Away(since time.Time, reason string) { e.inbox.put(serverLost{since, reason}) }

// Back is the end of what Away has told.
func (e *Engine) Back() { e.inbox.put(serverFound{}) }

// Admit waits until the unit may start and marks it as running: for work that
// begins before its stage does, as a hook's does with the removal of the hook's
// last object. A stage that starts it later does not ask again, nor does a
// second Admit. The error is ErrAborted, ErrTimeout or ErrReplaced.
func (e *Engine) Admit(phase string, g *plan.Group) error {
	w := &gate{unit: event.Unit{Phase: phase, Group: g.ID}, group: g, done: make(chan error, 1)}
	return ask(e, w.done, gateAsked{w}, ErrAborted)
}

// Requests returns the context for requests of the operation: it ends when the
// run is stopped (Stop) and at the end of the operation.
func (e *Engine) Requests() context.Context {
	reply := make(chan requestsContext, 1)
	return ask(e, reply, requestsAsked{reply}, requestsContext{e.ctx}).Context
}

// requestsContext is a context on its way.
type requestsContext struct{ context.Context }

// Verdict is what became of the run so far.
type Verdict struct {
	// Abort is the command that aborted it, nil where none did. Where that is an
	// Edit, another revision is to begin (R46).
	Abort *event.Command
	// TimedOut tells that the operation's timeout is over.
	TimedOut bool
}

// Verdict returns what became of the run so far. Commands may change it until the
// closing event, which is why BeginRollback, BeginNext and Finish look again.
func (e *Engine) Verdict() Verdict {
	reply := make(chan Verdict, 1)
	return ask(e, reply, verdictAsked{reply}, Verdict{Abort: &event.Command{Name: event.Abort}})
}

// BeginRollback starts the undoing of what a failed or aborted operation did,
// with a clock of its own and without breakpoints. It is refused with ErrAborted
// where a command was accepted that ends the run without a rollback (R48).
func (e *Engine) BeginRollback(op event.Operation, reason string) error {
	reply := make(chan error, 1)
	return ask(e, reply, rollbackAsked{op, reason, reply}, ErrAborted)
}

// BeginNext begins the revision that an Edit goes on with, and announces what will
// run, with a clock of its own and the breakpoints that are set (R46). It is refused
// with ErrAborted where a command has taken the place of the Edit.
func (e *Engine) BeginNext(op event.Operation, reason string, phases ...event.Phase) error {
	reply := make(chan error, 1)
	return ask(e, reply, nextAsked{op, reason, phases, reply}, ErrAborted)
}

// End is how an operation ended.
type End struct {
	Status  event.Status // Succeeded, Failed or Aborted
	Message string       // in one line
	Exit    int          // the exit code
	Release string       // see Event.Release
	Outcome string       // see Event.Outcome
	// Object, Cause and Evidence tell of what made the operation fail, where that
	// is none of the failures that the engine knows of.
	Object   *plan.Object
	Cause    string
	Evidence []string
}

// Finish publishes the closing event, ends the watches and the loop, and closes
// the feed. It is refused with ErrAborted where a command was accepted that ends
// the run and the end does not say Aborted: then the Verdict has changed, and the
// engine goes on until another Finish (R48).
func (e *Engine) Finish(end End) error {
	reply := make(chan error, 1)
	err := ask(e, reply, finishAsked{end, reply}, nil)
	if err == nil {
		<-e.over
	}
	return err
}

// Close is Finish for an end that stands whatever has been commanded: the run is
// aborted where a command was accepted meanwhile (R48).
func (e *Engine) Close(end End) {
	if e.Finish(end) != nil {
		end.Status, end.Exit = event.Aborted, 3
		_ = e.Finish(end) // an end that says so is never refused
	}
}

// ask sends a message and waits for its answer, or for the end of the run.
func ask[T any](e *Engine, reply <-chan T, msg message, ended T) T {
	e.inbox.put(msg)
	select {
	case answer := <-reply:
		return answer
	case <-e.over:
	}
	select {
	case answer := <-reply: // it came with the end
		return answer
	default:
		return ended
	}
}

// Start begins a stage. One stage runs at a time.
func (e *Engine) Start(s Stage) *StageRun {
	r := &StageRun{applied: make(chan struct{}), done: make(chan struct{}), over: e.over}
	e.inbox.put(stageEntered{s, r})
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
	case <-r.over:
		return &StageError{Cause: ErrAborted}
	}
}

// Wait waits until the stage is over. The error is a *StageError.
func (r *StageRun) Wait() error {
	select {
	case <-r.done:
		return r.err
	case <-r.over:
		return &StageError{Cause: ErrAborted}
	}
}
