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

// ErrInterrupted is why a command ends after a signal before anything was
// written.
var ErrInterrupted = errors.New("interrupted; nothing was written")

// lastChance is how long a command may take to end after the second signal.
const lastChance = 2 * time.Second

// Signals turns signals into commands for as long as the program runs. Without an
// operation the first signal cancels Context, and a second one quits the program. During
// an operation the first SIGINT or SIGTERM aborts it and the next one stops it; SIGHUP
// does what OnSignal says. After it, a signal closes the screen.
type Signals struct {
	// Context ends with the first signal while there is no operation.
	Context context.Context
	cancel  context.CancelCauseFunc
	// Quit ends the program if nothing else does.
	Quit func(error)

	mu      sync.Mutex
	target                   // the operation, since the last Steer
	began   bool             // an operation has started, now or before
	came    bool             // a signal that ends the command has come
	last    os.Signal        // that signal
	gone    bool             // the terminal has closed
	cleanup map[*func()]bool // runs before Quit
}

// target is the operation that signals control.
type target struct {
	op     Operation // nil after its end
	policy OnSignal
	say    report.Notices      // nil if the screen shows what a signal does
	sent   int                 // commands sent since the operation, or its rollback, started
	asked  []event.CommandName // without an answer yet
}

// OnSignal is what the first signal means.
type OnSignal struct {
	Rollback bool
	Hangup   HangupAction
	// Outcome is what an abort without rollback does to the release.
	Outcome string
	// Unattended is called when the terminal has closed and the operation continues.
	Unattended func()
}

// HangupAction is what a closed terminal does to its operation.
type HangupAction string

const (
	HangupContinue HangupAction = "continue"
	HangupKeep     HangupAction = "keep"
	HangupRollback HangupAction = "rollback"
)

// NewSignals returns Signals whose Context ends with parent; call Watch to start them.
func NewSignals(parent context.Context) *Signals {
	i := &Signals{Quit: func(error) {}, cleanup: map[*func()]bool{}}
	i.Context, i.cancel = context.WithCancelCause(parent)
	return i
}

// Watch handles signals until stop is called. SIGHUP stays ignored under nohup.
func (i *Signals) Watch() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
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

// Steer makes signals commands to an operation until Finished. It returns
// ErrInterrupted if a signal has already come.
func (i *Signals) Steer(op Operation, o OnSignal, say report.Notices) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.came {
		return ErrInterrupted
	}
	i.target, i.began = target{op: op, policy: o, say: say}, true
	if i.gone {
		o.Unattended()
	}
	return nil
}

// Finished ends Steer: the operation is over, and a signal now ends the rest of the command,
// such as the screen. So does an earlier signal because nobody may be there to press a key.
func (i *Signals) Finished() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op == nil {
		return
	}
	i.op = nil
	if !i.came {
		return
	}
	i.cancel(ErrInterrupted)
	if len(i.asked) > 0 && i.say != nil {
		i.say.Note(i.last.String() + ": too late, the operation has ended")
	}
}

// Reason returns why a command ends: the signal if one came before anything was written,
// else err.
func (i *Signals) Reason(err error) error {
	var ended *exitError
	if err != nil && !errors.As(err, &ended) && i.Interrupted() {
		return Exit(ExitAborted, ErrInterrupted)
	}
	return err
}

// Interrupted reports whether a signal has ended the command.
func (i *Signals) Interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

func (i *Signals) Handle(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case s == syscall.SIGHUP && i.gone: // terminals send several
	case i.op == nil:
		i.end(s)
	case s == syscall.SIGHUP:
		i.hungUp()
	default:
		i.came, i.last = true, s
		i.give(i.policy.Rollback)
	}
}

// end ends a command without a running operation.
func (i *Signals) end(s os.Signal) {
	again := i.came && s != syscall.SIGHUP
	i.came, i.last = true, s
	i.cancel(ErrInterrupted)
	if !again {
		return
	}
	why := ErrInterrupted
	if i.began {
		why = errors.New("interrupted")
	}
	time.AfterFunc(lastChance, func() {
		i.cleanUp()
		i.Quit(why)
	})
}

// AtQuit registers a function to call before Quit, until undo.
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

// cleanUp calls the functions registered by AtQuit.
func (i *Signals) cleanUp() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for do := range i.cleanup {
		(*do)()
	}
}

// give tells the operation to abort, and the second time to stop.
func (i *Signals) give(rollback bool) {
	i.sent++
	command := event.Abort
	switch {
	case i.sent > 1:
		command = event.Stop
	case rollback:
		command = event.Rollback
	}
	i.asked = append(i.asked, command)
	i.op.Command(event.Command{Name: command, Reason: i.last.String()})
}

// Hangup handles a closed terminal, however it was noticed.
func (i *Signals) Hangup() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op != nil {
		i.hungUp()
	}
}

// hungUp handles a closed terminal once.
func (i *Signals) hungUp() {
	if i.gone {
		return
	}
	i.gone = true
	if i.say != nil {
		DropTerminal()
	}
	if i.policy.Hangup == HangupContinue {
		i.policy.Unattended()
		return
	}
	i.came, i.last = true, syscall.SIGHUP
	i.give(i.policy.Hangup == HangupRollback)
}

// Consume prints the operation's answer to a signal. When a rollback starts, the next
// signal counts as the first (R43).
func (i *Signals) Consume(e event.Event) {
	if e.Scope != "" {
		return // the stack's own answer counts
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case e.Kind == event.KindOperation && e.Status == event.RollingBack:
		i.sent = 0
	case e.Kind == event.KindCommand:
		at := slices.Index(i.asked, e.Command)
		if at < 0 || e.Answers != "" {
			return
		}
		i.asked = slices.Delete(i.asked, at, at+1)
		if i.say != nil {
			i.say.Note(i.last.String() + ": " + i.answer(e))
		}
	}
}

// answer is an operation's answer to a command as text.
func (i *Signals) answer(e event.Event) string {
	const again = "; repeat to stop at once"
	switch {
	case e.Message != "":
		return e.Message
	case e.Command == event.Stop:
		return "stopping now; requests in flight are cancelled"
	case e.Command == event.Rollback:
		return "no more groups start; rolling back" + again
	}
	return "no more groups start; " + i.policy.Outcome + again
}

// Cancelable returns the result of do, or the cause of ctx as soon as ctx ends. It is for
// reads that cannot be cancelled, such as Helm's; do may keep running.
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

// Operation is something that is about to be done to a release: everything has
// been checked, nothing has been written. *kube.Operation is one.
type Operation interface {
	Feed() *event.Feed
	Command(event.Command)
	Run() error
}
