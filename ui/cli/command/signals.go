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
var abortSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}

// exitOnTerminate is set by ExitOnTerminate.
var exitOnTerminate bool

// ExitOnTerminate makes SIGTERM and SIGQUIT end the process at once instead of aborting the run: the next pod of a Job resumes it (R50), so this
// one must not end it. If the policy knows that there will be no pod, SIGTERM aborts the run, and keeps the objects.
func ExitOnTerminate() { exitOnTerminate = true }

// exitTerminated is the exit code of a process that SIGTERM ends.
const exitTerminated = 128 + int(syscall.SIGTERM)

// ErrInterrupted is the error of a command that a signal ended before anything was written.
var ErrInterrupted = errors.New("interrupted; nothing was written")

// quitDelay is the time between the second signal and Quit.
const quitDelay = 2 * time.Second

// Signals handles the signals of the process. While an operation is bound, the first SIGINT,
// SIGTERM or SIGQUIT aborts it and the next one stops it; its SignalPolicy says what SIGHUP does.
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
	wrote    bool             // a group has started, so the operation may have written
	canUndo  bool             // the operation, or the revision that an edit started, can be rolled back
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
	Rollback bool   // roll back after SIGINT, SIGTERM or SIGQUIT
	Hangup   string // HangupContinue, HangupKeep or HangupRollback
	// Outcome says what an abort without rollback does to the release.
	Outcome string
	// Unattended is called when the terminal closes and the operation continues.
	Unattended func()
	// NoNextPod returns why no pod will replace this one, "" if one will. It sends a request. It may be nil.
	NoNextPod func() string
}

// What happens to an operation whose terminal closes.
const (
	HangupContinue = "continue"
	HangupKeep     = "keep"
	HangupRollback = "rollback"
)

// NewSignals returns Signals whose Context derives from parent. Call Watch to handle signals.
func NewSignals(parent context.Context) *Signals {
	s := &Signals{Quit: func(error) {}, cleanup: map[*func()]bool{}}
	s.Context, s.cancel = context.WithCancelCause(parent)
	return s
}

// Watch handles signals until stop is called; after a signal that ends the command, until the process ends, because another
// one would else kill it before it returns its exit code. It leaves SIGHUP ignored under nohup.
func (s *Signals) Watch() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, abortSignals...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for sig := range signals {
			s.Handle(sig)
		}
	}()
	return func() {
		s.cancel(nil)
		if s.Interrupted() {
			return
		}
		signal.Stop(signals)
		close(signals)
	}
}

// Bind turns signals into commands to an operation until Unbind. It returns ErrInterrupted if
// a signal has already arrived. notices is nil if the screen shows what a signal does.
func (s *Signals) Bind(op Operation, policy SignalPolicy, notices *report.Notices) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signaled {
		return ErrInterrupted
	}
	s.target, s.started = target{op: op, policy: policy, notices: notices}, true
	if s.closed {
		policy.Unattended()
	}
	return nil
}

// Unbind must be called when the operation has ended. A later signal cancels Context, for example to
// close the screen. If a signal has already arrived, Unbind cancels it, because the user may have left.
func (s *Signals) Unbind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op == nil {
		return
	}
	s.op = nil
	if !s.signaled {
		return
	}
	s.cancel(ErrInterrupted)
	if len(s.pending) > 0 && s.notices != nil {
		s.notices.Note(signalLabel(s.last) + ": too late, the operation has ended")
	}
}

// Cause returns ErrInterrupted if a signal ended the command before anything was written, or
// else err.
func (s *Signals) Cause(err error) error {
	if _, exits := errors.AsType[*exitError](err); err != nil && !exits && s.Interrupted() {
		return Exit(ExitAborted, ErrInterrupted)
	}
	return err
}

// Interrupted reports whether a signal has ended the command.
func (s *Signals) Interrupted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signaled
}

// Handle handles a signal. Watch calls it.
func (s *Signals) Handle(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case (sig == syscall.SIGTERM || sig == syscall.SIGQUIT) && exitOnTerminate: // the image may set either as its stop signal
		go s.endPod(s.op, s.policy.NoNextPod)
	case sig == syscall.SIGHUP && s.closed: // terminals send several
	case s.op == nil:
		s.cancelCommand(sig)
	case sig == syscall.SIGHUP:
		s.handleHangup()
	default:
		s.signaled, s.last = true, sig
		s.sendAbort(s.policy.Rollback)
	}
}

// endPod ends the process, or the operation if no pod will continue it.
func (s *Signals) endPod(op Operation, noNextPod func() string) {
	if op != nil && noNextPod != nil {
		if why := noNextPod(); why != "" {
			op.Command(event.Command{Name: event.Abort, Via: signalNames[syscall.SIGTERM], Reason: why, KnowsRollback: true})
			return
		}
	}
	os.Exit(exitTerminated)
}

// cancelCommand ends a command without a bound operation.
func (s *Signals) cancelCommand(sig os.Signal) {
	again := s.signaled && sig != syscall.SIGHUP
	s.signaled, s.last = true, sig
	s.cancel(ErrInterrupted)
	if !again {
		return
	}
	err := ErrInterrupted
	if s.started {
		err = errors.New("interrupted")
	}
	time.AfterFunc(quitDelay, func() {
		s.mu.Lock()
		for do := range s.cleanup {
			(*do)()
		}
		s.mu.Unlock()
		s.Quit(err)
	})
}

// AtQuit registers a function to call before Quit. undo removes it.
func (s *Signals) AtQuit(do func()) (undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanup[&do] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cleanup, &do)
	}
}

// sendAbort sends Abort or Rollback to the operation, and Stop the second time.
func (s *Signals) sendAbort(rollback bool) {
	s.sent++
	command := event.Abort
	switch {
	case s.sent > 1:
		command = event.Stop
	case rollback:
		command = event.Rollback
	}
	s.pending = append(s.pending, command)
	s.op.Command(event.Command{Name: command, Via: signalNames[s.last], OrKeep: true})
}

// signalNames are the names of signals in the events of a run. os.Signal has only descriptions, such as
// "interrupt".
var signalNames = map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGQUIT: "SIGQUIT", syscall.SIGHUP: "SIGHUP"}

// Hangup handles a closed terminal that was noticed without a SIGHUP.
func (s *Signals) Hangup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op != nil {
		s.handleHangup()
	}
}

// Leave is called when the user leaves the operation running: the terminal may close from now on.
func (s *Signals) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op == nil || s.closed {
		return
	}
	s.closed = true
	s.policy.Unattended()
}

// handleHangup handles the first report of a closed terminal.
func (s *Signals) handleHangup() {
	if s.closed {
		return
	}
	s.closed = true
	if s.notices != nil { // otherwise the screen still uses the terminal
		DropTerminal()
	}
	if s.policy.Hangup == HangupContinue {
		s.policy.Unattended()
		return
	}
	s.signaled, s.last = true, syscall.SIGHUP
	s.sendAbort(s.policy.Hangup == HangupRollback)
}

// Consume prints the reply of the operation to a signal. After a rollback starts, the next
// signal counts as the first (R43).
func (s *Signals) Consume(e event.Event) {
	if e.Scope != "" {
		return // the reply of the stack itself is printed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Kind == event.KindGroup && e.Status == event.Running:
		s.wrote = true
	case e.Kind == event.KindOperation && e.Status == event.Running:
		s.canUndo = e.Operation != nil && e.Operation.UndoneBy() != ""
	case e.Kind == event.KindOperation && e.Status == event.RollingBack:
		s.sent = 0
	case s.isReply(e):
		at := slices.Index(s.pending, e.Command)
		s.pending = slices.Delete(s.pending, at, at+1)
		if s.notices != nil {
			s.notices.Note(signalLabel(s.last) + ": " + s.replyText(e))
		}
	}
}

// PrintsReply reports whether Consume will print a notice for the event.
func (s *Signals) PrintsReply(e event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notices != nil && s.isReply(e)
}

// isReply reports whether an event is the reply to a signal. The caller must hold s.mu.
func (s *Signals) isReply(e event.Event) bool {
	return e.Kind == event.KindCommand && e.Scope == "" && e.Answers == "" && slices.Contains(s.pending, e.Command)
}

// signalLabel names a signal for the user who sent it.
func signalLabel(sig os.Signal) string {
	if sig == os.Interrupt {
		return "Ctrl-C"
	}
	return signalNames[sig]
}

// replyText describes an operation's reply to a command.
func (s *Signals) replyText(e event.Event) string {
	const start, stop = "no new groups will start; ", " to stop at once"
	switch {
	case e.Code == event.RollbackInProgress:
		return "a rollback is in progress; " + s.nextSignal() + " to stop it and leave the objects as they are"
	case e.Message != "":
		return e.Message
	case !s.wrote:
		return "aborting; nothing was written"
	case e.Command == event.Stop:
		return "stopping now; requests in flight are cancelled"
	case e.Command == event.Rollback && s.canUndo:
		return "no new groups will start, then lockstep rolls back; to skip the rollback, " + s.nextSignal() + " before it starts"
	case e.Command == event.Rollback:
		return start + "there is nothing to roll back to, so " + s.policy.Outcome + "; " + s.nextSignal() + stop
	}
	return start + s.policy.Outcome + "; " + s.nextSignal() + stop
}

// nextSignal says how to send the next signal. Another SIGHUP would be ignored.
func (s *Signals) nextSignal() string {
	switch s.last {
	case os.Interrupt:
		return "press Ctrl-C again"
	case syscall.SIGHUP:
		return "send SIGTERM"
	}
	return "send " + signalLabel(s.last) + " again"
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
