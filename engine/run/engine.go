// Package run executes a plan: it decides when each group starts, and handles timeouts, failures
// and commands. The machine makes all decisions, synchronously and without side effects; the
// Engine passes messages to it and performs its effects. kube, kube/operation and kube/stack
// start Engines; kube/cluster and kube/stack implement Cluster.
// The package imports only other packages of engine.
package run

import (
	"context"
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
)

// ErrAborted ends a stage after an abort (R43), ErrTimeout after the timeout of the
// operation (R25), ErrReplaced when an edited revision replaces it (R46).
var (
	ErrAborted  = errors.New("aborted")
	ErrTimeout  = errors.New("timed out")
	ErrReplaced = errors.New("replaced by an edited revision")
	// ErrNoReturn is why a rollback does not start: the run has passed a point of no return, and nobody gave its reason (R33a).
	ErrNoReturn = errors.New("past a point of no return")
)

// Options configure an Engine for an operation.
type Options struct {
	Operation event.Operation
	// Feed gets all events. The engine closes it in Finish.
	Feed *event.Feed
	// MaxRequests is the maximum number of requests in flight (default 32).
	MaxRequests int
	// MaxGroups is the maximum number of groups that run at the same time; 0 for all.
	MaxGroups int
	// Paused starts the run paused, before the first unit (R41, --step).
	Paused bool
	// Breakpoints are the ids of groups with a breakpoint: the run pauses once before each of
	// their units (R42).
	Breakpoints []string
	// PausesBefore says, by the id of a group, why the plan itself pauses before it: "before Job/x is replaced" (R30b).
	PausesBefore map[string]string
	// DisabledBreakpoints are the ids of groups with a disabled breakpoint.
	DisabledBreakpoints []string
	// Approve are the ids of groups that are approved before the run starts (R42a).
	Approve []string
	// NoReturn are the reasons of the points of no return that the run has already passed, and PastNoReturn the reason that the
	// user gives for a rollback past them (R33a).
	NoReturn     []string
	PastNoReturn string
	// Author is who started the run: who approves by a key of its screen or by Approve.
	Author string
	// Kept is the steering of an earlier process that ran the same operation, nil if there is none. It replaces Paused
	// and the breakpoints.
	Kept *Steering
	// Keep, if set, keeps the steering for a process that continues the run. It is called before a command takes effect,
	// and blocks the run. If it returns an error, the command is refused.
	Keep func(Steering) error
	// BeforeEnd, if set, is called once the run accepts no more commands, before its closing event. It may publish events.
	BeforeEnd func()
	// HoldOnFailure holds the run when a group fails, even during a rollback (R44).
	HoldOnFailure bool
	// InStack means that the operation is a release of a stack, which cannot be edited.
	InStack bool
	// Heartbeat is the interval of KindWaiting events while no group changes its status, and of
	// KindServer events during an outage. If it is 0, there are no KindWaiting events, and an outage is
	// reported once.
	Heartbeat time.Duration
	// Diagnose finds out why an object is not ready. The engine calls it in a separate goroutine,
	// with a short deadline. Nil means no diagnoses.
	Diagnose func(ctx context.Context, o plan.Object) Finding
	// Refresh reads an object, so that its state is reported even if the watch has stalled. It returns once that was reported,
	// however long the API server is unreachable, or when ctx is done. The engine calls it in a separate goroutine. Nil means
	// that watches never stall.
	Refresh func(ctx context.Context, o plan.Object)
	// LookAtPods reads the pods of the workloads among the objects, because the watch of pods may be late or away while the one
	// of the workloads is not. It returns once their states were reported, or if they may not be read, or when ctx is done. The
	// engine calls it in a separate goroutine, and then Refresh for those that have lost a pod. Nil means that pods are not looked
	// at before the outcome (R22c).
	LookAtPods func(ctx context.Context, objects []plan.Object)
}

// Finding is the result of a diagnosis.
type Finding struct {
	// Cause and Evidence are those of an Event.
	Cause    string
	Evidence []string
	// Tally and OnlyState are those of an Event.
	Tally     event.Tally
	OnlyState bool
	// Symptom means that Cause only describes the state of the object; it never replaces a real cause.
	Symptom bool
	// Declared means that Cause includes the readiness expression by which the object has failed, see Observation.FailureDeclared.
	Declared bool
	// Degraded means that waiting alone will not help: pods failed or cannot start, or
	// remaining pods keep an object from being deleted.
	Degraded bool
	// OfPods means that Cause is a problem of pods: it is over once all are ready. Lacks means that it is why fewer pods than
	// that exist, 0 if it is not.
	OfPods bool
	Lacks  int
	// Details are the facts behind Cause.
	Details event.Details
	// Requests is the number of requests that the diagnosis sent.
	Requests int
}

// Over reports whether a cause no longer holds, by what is known of the pods since. A pod without a probe is ready as soon as
// its container has started again, so the cause of a crash holds until the container has run for a while (R22c).
func (f Finding) Over(p Pods, now time.Time) bool {
	restarting, _ := p.Held(now, StableAfter)
	return f.OfPods && p.Ready > 0 && p.Unready == 0 && restarting == "" || f.Lacks > 0 && p.Ready+p.Unready >= f.Lacks
}

// FindingError is a request error that carries its own Finding.
type FindingError interface {
	error
	Finding() Finding
}

// Event returns the event that reports the finding, without its place.
func (f Finding) Event() event.Event {
	e := event.Event{Kind: event.KindDiagnosis, Message: f.Cause, Cause: f.Cause, Tally: f.Tally, OnlyState: f.OnlyState, Evidence: f.Evidence,
		Lines: phrase.Details(f.Details)}
	if f.Degraded {
		e.Status = event.Degraded
	}
	if !f.Details.IsEmpty() {
		e.Details = &f.Details
	}
	return e
}

// Engine runs one operation: a sequence of stages, steered by commands. Its methods are
// safe for concurrent use. New starts it, Finish ends it.
type Engine struct {
	opts  Options
	inbox inbox
	done  chan struct{} // closed when the loop has ended

	// ctx is the parent of all contexts of the run. Watches, WaitGone and diagnoses do not use the
	// context of requests, so they survive cancelled requests.
	ctx    context.Context
	cancel context.CancelFunc
}

// StageRun is the handle of a running stage.
type StageRun struct {
	applied    chan struct{} // closed when every request has succeeded
	done       chan struct{} // closed when err is set
	err        error
	engineDone <-chan struct{}
}

// New starts an engine and publishes the opening event.
func New(opts Options) *Engine {
	e := &Engine{opts: opts, inbox: inbox{ready: make(chan struct{}, 1)}, done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	l := &loop{Engine: e, machine: newMachine(opts, time.Now())}
	l.newRequestContexts()
	l.perform(l.machine.effects) // publish the opening event before New returns
	go l.run()
	return e
}

// Announce publishes phases before they start, so that a screen can show them.
func (e *Engine) Announce(phases ...event.Phase) { e.inbox.put(announced{phases}) }

// Publish adds an event from outside the engine: a warning, a hook's log, the notes. It
// does nothing after the closing event.
func (e *Engine) Publish(ev event.Event) { e.opts.Feed.Publish(ev) }

// Command sends a command to the run. It never blocks; an event answers the command (R45).
// After the closing event it is ignored (R48).
func (e *Engine) Command(c event.Command) { e.inbox.put(commanded{c}) }

// ServerUnreachable reports that the API server has been unreachable since the given time. Readiness timeouts are suspended
// from the last time at which it was proven to be reachable (R25), until ServerReachable.
func (e *Engine) ServerUnreachable(since, proven time.Time, reason string) {
	e.inbox.put(serverUnreachable{since, proven, reason})
}

// ServerReachable reports that the API server is reachable again.
func (e *Engine) ServerReachable() { e.inbox.put(serverReachable{}) }

// Admit waits until the unit may start and marks it as running. It is for work before the unit's
// stage, such as deleting a hook's previous object. The stage, or a second Admit, does not wait
// again. The error is or wraps ErrAborted, ErrTimeout or ErrReplaced.
func (e *Engine) Admit(phase string, g *plan.Group) error {
	w := &admission{unit: event.Unit{Phase: phase, Group: g.ID}, done: make(chan error, 1)}
	return call(e, w.done, admitRequested{w}, ErrAborted)
}

// RequestContext returns the context for requests of the operation. A Stop command cancels it at
// once, an abort, an edit or the timeout after windDownTime. When a rollback or an edited revision starts,
// it is cancelled and replaced: call RequestContext again.
func (e *Engine) RequestContext() context.Context {
	return ask(e, e.ctx, func(l *loop) context.Context { return l.requests })
}

// EndingCommand returns the accepted command that ends the run: Abort, Rollback, Stop, or Edit if
// an edited revision follows (R46). It is nil if no command ends the run, for example after a failure.
// It may change until the closing event, so StartRollback, StartEditedRevision and Finish check it
// again. After the closing event EndingCommand returns an Abort.
func (e *Engine) EndingCommand() *event.Command {
	return ask(e, &event.Command{Name: event.Abort}, func(l *loop) *event.Command { return l.machine.steering.ending })
}

// Fail records that the run fails, unless a command ends it, so that a process that continues it also fails. The error is
// that of Options.Keep.
func (e *Engine) Fail(cause string) error {
	reply := make(chan error, 1)
	return call(e, reply, failed{cause, reply}, nil)
}

// NoReturn returns why the run cannot be rolled back: the reasons of the points of no return that it has passed, "" if there are
// none, or the user has given them.
func (e *Engine) NoReturn() string {
	return ask(e, "", func(l *loop) string { return l.machine.barred(l.machine.steering.ending) })
}

// PassNoReturn records that a release of the stack has passed a point of no return.
func (e *Engine) PassNoReturn(reason string) { e.inbox.put(noReturnPassed{reason}) }

// StartRollback starts the rollback of a failed or aborted operation. Timeouts start over, and
// breakpoints are deleted. It returns ErrAborted if an accepted command ends the run without a
// rollback (R48), and ErrNoReturn if the run cannot be rolled back.
func (e *Engine) StartRollback(op event.Operation, reason string) error {
	return e.transition(ErrAborted, func(m *machine) error { return m.startRollback(op, reason) })
}

// StartEditedRevision starts the edited revision and announces its phases. Timeouts start over, and
// breakpoints are kept, except run-to targets (R46). It returns ErrAborted if a later command replaced the Edit.
func (e *Engine) StartEditedRevision(op event.Operation, reason string, phases ...event.Phase) error {
	return e.transition(ErrAborted, func(m *machine) error { return m.startEditedRevision(op, reason, phases) })
}

// End is the outcome of an operation.
type End struct {
	Status  event.Status // Succeeded, Failed or Aborted
	Message string       // one line
	Exit    int          // exit code, see event.ExitFailed
	Release string       // see Event.Release
	Outcome string       // see Event.Outcome
	Code    string       // see Event.Code
	// NoStatus is added to Event.NoStatus: the number of the releases of a stack.
	NoStatus int
	// NotAwaited is added to Event.NotAwaited, likewise.
	NotAwaited int
	// Newer and Results are those of an Event.
	Newer   *event.NewerRevision
	Results []event.ReleaseResult
	// Object, Cause and Evidence describe a failure outside the engine.
	Object   *plan.Object
	Cause    string
	Evidence []string
}

// Finish calls Options.BeforeEnd, publishes the closing event, ends the watches and the loop, and closes the feed. If there
// is an EndingCommand but end is not Aborted, it returns ErrAborted, and the engine continues until the
// next Finish (R48).
func (e *Engine) Finish(end End) error {
	err := e.transition(nil, func(m *machine) error { return m.close(end.Status) })
	if err == nil && e.opts.BeforeEnd != nil {
		e.opts.BeforeEnd()
	}
	if err == nil {
		err = e.transition(nil, func(m *machine) error { return m.finish(end) })
	}
	if err == nil {
		<-e.done
	}
	return err
}

// Close is Finish for callers that cannot react to an EndingCommand: if there is one, the run ends as
// Aborted (R48).
func (e *Engine) Close(end End) {
	if e.Finish(end) != nil {
		end.Status = event.Aborted
		end.Exit = event.ExitAborted
		_ = e.Finish(end) // never refused
	}
}

// transition runs a transition on the loop and returns its error, or ended if the run has ended.
func (e *Engine) transition(ended error, transition func(*machine) error) error {
	reply := make(chan error, 1)
	return call(e, reply, transitionRequested{transition, reply}, ended)
}

// ask returns the loop's answer to a question, or ended if the run has ended.
func ask[T any](e *Engine, ended T, answer func(*loop) T) T {
	reply := make(chan T, 1)
	return call(e, reply, asked{func(l *loop) { reply <- answer(l) }}, ended)
}

// call sends a message and waits for the reply, or the end of the run.
func call[T any](e *Engine, reply <-chan T, msg message, ended T) T {
	e.inbox.put(msg)
	select {
	case answer := <-reply:
		return answer
	case <-e.done:
	}
	select {
	case answer := <-reply: // the loop replied before it ended
		return answer
	default:
		return ended
	}
}

func newStageRun(e *Engine) *StageRun {
	return &StageRun{applied: make(chan struct{}), done: make(chan struct{}), engineDone: e.done}
}

// Start starts a stage. The previous stage must have ended.
func (e *Engine) Start(s Stage) *StageRun {
	r := newStageRun(e)
	e.inbox.put(stageStarted{s, r})
	return r
}

// Run runs a stage to its end. The error is a *StageError.
func (e *Engine) Run(s Stage) error { return e.Start(s).Wait() }

// WaitApplied waits until every request of the stage has succeeded. If the stage ends first, it
// returns the stage's error.
func (r *StageRun) WaitApplied() error {
	select {
	case <-r.applied:
		return nil
	case <-r.done:
	case <-r.engineDone:
	}
	select {
	case <-r.applied: // before the stage ended
		return nil
	default:
		return r.Wait()
	}
}

// Wait waits for the end of the stage. The error is a *StageError.
func (r *StageRun) Wait() error {
	select {
	case <-r.done:
		return r.err
	case <-r.engineDone:
	}
	select {
	case <-r.done: // the stage ended before the run
		return r.err
	default:
		return &StageError{Cause: ErrAborted}
	}
}
