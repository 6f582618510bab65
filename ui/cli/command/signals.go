package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/report"
)

// abortSignals abort a run.
var abortSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// ExitOnTerminate makes SIGTERM end the process at once instead of aborting the run: the next pod
// of a Job resumes it (R50), so this one must not end it.
func ExitOnTerminate() {
	abortSignals = []os.Signal{os.Interrupt}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		os.Exit(128 + int(syscall.SIGTERM))
	}()
}

// ErrInterrupted is the error of a command that a signal ended before anything was written.
var ErrInterrupted = errors.New("interrupted; nothing was written")

// quitDelay is the time between the second signal and Quit.
const quitDelay = 2 * time.Second

// Signals handles the signals of the process. While an operation is bound, the first SIGINT or
// SIGTERM aborts it, the next one stops it, and SIGHUP does what its SignalPolicy says.
// Otherwise the first signal cancels Context, and the second one quits the program.
type Signals struct {
	// Context is cancelled by the first signal while no operation is bound.
	Context context.Context
	cancel  context.CancelCauseFunc
	// Quit ends the program if it does not end after Context is cancelled.
	Quit func(error)

	mu       sync.Mutex
	target                    // set by Bind
	started  bool             // Bind was called
	signaled bool             // a signal that ends the command has arrived
	last     os.Signal        // that signal
	closed   bool             // the terminal has closed
	wrote    bool             // a unit has started: the operation may have written
	cleanup  map[*func()]bool // called before Quit
}

type target struct {
	op      Operation // nil after Unbind
	policy  SignalPolicy
	notices *report.Notices
	sent    int                 // commands sent since the operation, or its rollback, started
	pending []event.CommandName // commands without a reply
}

// SignalPolicy says what the first signal does to an operation.
type SignalPolicy struct {
	Rollback bool   // roll back after SIGINT or SIGTERM
	Hangup   string // HangupContinue, HangupKeep or HangupRollback
	// Outcome says what an abort without rollback does to the release.
	Outcome string
	// Unattended is called when the terminal closes and the operation continues.
	Unattended func()
}

// What happens to an operation whose terminal closes.
const (
	HangupContinue = "continue"
	HangupKeep     = "keep"
	HangupRollback = "rollback"
)

// NewSignals returns Signals whose Context derives from parent. Call Watch to handle signals.
func NewSignals(parent context.Context) *Signals {
	i := &Signals{Quit: func(error) {}, cleanup: map[*func()]bool{}}
	i.Context, i.cancel = context.WithCancelCause(parent)
	return i
}

// Watch handles signals until stop is called. It leaves SIGHUP ignored under nohup.
func (i *Signals) Watch() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, abortSignals...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for s := range signals {
			i.Handle(s)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		i.cancel(nil)
	}
}

// Bind turns signals into commands to an operation until Unbind. It returns ErrInterrupted if
// a signal has already arrived. notices is nil if the screen shows what a signal does.
func (i *Signals) Bind(op Operation, policy SignalPolicy, notices *report.Notices) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.signaled {
		return ErrInterrupted
	}
	i.target, i.started = target{op: op, policy: policy, notices: notices}, true
	if i.closed {
		policy.Unattended()
	}
	return nil
}

// Unbind is called when the operation has ended. A later signal cancels Context, for example to
// close the screen; so does an earlier one, because the user may have left.
func (i *Signals) Unbind() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op == nil {
		return
	}
	i.op = nil
	if !i.signaled {
		return
	}
	i.cancel(ErrInterrupted)
	if len(i.pending) > 0 && i.notices != nil {
		i.notices.Note(i.last.String() + ": too late, the operation has ended")
	}
}

// Cause returns ErrInterrupted if a signal ended the command before anything was written, or
// else err.
func (i *Signals) Cause(err error) error {
	if _, exits := errors.AsType[*exitError](err); err != nil && !exits && i.Interrupted() {
		return Exit(ExitAborted, ErrInterrupted)
	}
	return err
}

// Interrupted reports whether a signal has ended the command.
func (i *Signals) Interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.signaled
}

func (i *Signals) Handle(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case s == syscall.SIGHUP && i.closed: // terminals send several
	case i.op == nil:
		i.cancelCommand(s)
	case s == syscall.SIGHUP:
		i.handleHangup()
	default:
		i.signaled, i.last = true, s
		i.sendAbort(i.policy.Rollback)
	}
}

// cancelCommand ends a command without a bound operation.
func (i *Signals) cancelCommand(s os.Signal) {
	again := i.signaled && s != syscall.SIGHUP
	i.signaled, i.last = true, s
	i.cancel(ErrInterrupted)
	if !again {
		return
	}
	err := ErrInterrupted
	if i.started {
		err = errors.New("interrupted")
	}
	time.AfterFunc(quitDelay, func() {
		i.mu.Lock()
		for do := range i.cleanup {
			(*do)()
		}
		i.mu.Unlock()
		i.Quit(err)
	})
}

// AtQuit registers a function to call before Quit. undo removes it.
func (i *Signals) AtQuit(do func()) (undo func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cleanup[&do] = true
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.cleanup, &do)
	}
}

// sendAbort sends the operation Abort or Rollback, and the second time Stop.
func (i *Signals) sendAbort(rollback bool) {
	i.sent++
	command := event.Abort
	switch {
	case i.sent > 1:
		command = event.Stop
	case rollback:
		command = event.Rollback
	}
	i.pending = append(i.pending, command)
	i.op.Command(event.Command{Name: command, Reason: "by " + signalName(i.last)})
}

// signalName returns the name that operators know a signal by.
func signalName(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return "a signal (" + s.String() + ")"
}

// Hangup handles a closed terminal that was noticed without a SIGHUP.
func (i *Signals) Hangup() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op != nil {
		i.handleHangup()
	}
}

// handleHangup handles the first report of a closed terminal.
func (i *Signals) handleHangup() {
	if i.closed {
		return
	}
	i.closed = true
	if i.notices != nil {
		DropTerminal()
	}
	if i.policy.Hangup == HangupContinue {
		i.policy.Unattended()
		return
	}
	i.signaled, i.last = true, syscall.SIGHUP
	i.sendAbort(i.policy.Hangup == HangupRollback)
}

// Consume prints the reply of the operation to a signal. After a rollback starts, the next
// signal counts as the first (R43).
func (i *Signals) Consume(e event.Event) {
	if e.Scope != "" {
		return // the reply of the stack itself is printed
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case e.Kind == event.KindGroup && e.Status == event.Running:
		i.wrote = true
	case e.Kind == event.KindOperation && e.Status == event.RollingBack:
		i.sent = 0
	case e.Kind == event.KindCommand:
		at := slices.Index(i.pending, e.Command)
		if at < 0 || e.Answers != "" {
			return
		}
		i.pending = slices.Delete(i.pending, at, at+1)
		if i.notices != nil {
			i.notices.Note(i.last.String() + ": " + i.replyText(e))
		}
	}
}

// replyText describes an operation's reply to a command.
func (i *Signals) replyText(e event.Event) string {
	const again = "; repeat to stop at once"
	switch {
	case e.Message != "":
		return e.Message
	case !i.wrote:
		return "aborting; nothing was written"
	case e.Command == event.Stop:
		return "stopping now; requests in flight are cancelled"
	case e.Command == event.Rollback:
		return "no more groups start; rolling back" + again
	}
	return "no more groups start; " + i.policy.Outcome + again
}

// Cancelable returns the result of do, or the cause of ctx as soon as ctx ends. It is for calls
// that ignore ctx, such as Helm's reads: do may keep running.
func Cancelable[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Operation is a prepared operation: everything is checked, nothing is written.
// *kube.Operation and *kube.Stack implement it.
type Operation interface {
	Feed() *event.Feed
	Command(event.Command)
	Run() error
}
