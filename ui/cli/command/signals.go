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

// lastChance is how long a command that was told to end may take to do so once
// a second signal has come.
const lastChance = 2 * time.Second

// Signals turns signals into orders, for as long as the program runs. While
// there is no operation the first one ends what is under way, and a second one
// the program. During an operation the first SIGINT or SIGTERM aborts it, and the
// next one stops it at once; SIGHUP is what onHangup says. What the operation
// makes of that, its events tell. After it, a signal leaves the screen.
type Signals struct {
	// Context ends with the first signal while there is no operation.
	Context context.Context
	cancel  context.CancelCauseFunc
	// Quit ends the program where nothing else does, for the reason given.
	Quit func(error)

	mu    sync.Mutex
	op    Operation
	began bool // an operation, now or before
	order OnSignal
	say   report.Notices // nil: the screen shows what a signal does
	came  bool           // a signal that ends what there is
	// orders counts the signals since the operation, or its rollback, began.
	orders int
	// asked are the orders that have not been answered.
	asked []event.CommandName
	last  os.Signal
	gone  bool // the terminal hung up, and the operation goes on
	// cleanup is done before quit.
	cleanup map[*func()]bool
}

// OnSignal is what the first signal means.
type OnSignal struct {
	Rollback bool
	Hangup   HangupAction
	// Outcome is what becomes of the release without a rollback.
	Outcome string
	// Unattended is called when the terminal has gone and the operation goes on.
	Unattended func()
}

// HangupAction is what is to become of an operation whose terminal goes away.
type HangupAction string

const (
	HangupContinue HangupAction = "continue"
	HangupKeep     HangupAction = "keep"
	HangupRollback HangupAction = "rollback"
)

func NewSignals(parent context.Context) *Signals {
	i := &Signals{Quit: func(error) {}, cleanup: map[*func()]bool{}}
	i.Context, i.cancel = context.WithCancelCause(parent)
	return i
}

// Watch takes signals until the function that it returns is called. SIGHUP is
// left alone where nohup has it ignored.
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

// Steer hands an operation over: until it is let go, signals are orders to it.
// It returns errInterrupted where one has come before.
func (i *Signals) Steer(op Operation, o OnSignal, say report.Notices) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.came {
		return ErrInterrupted
	}
	i.op, i.began, i.order, i.say, i.orders, i.asked = op, true, o, say, 0, nil
	if i.gone {
		o.Unattended()
	}
	return nil
}

// Finished ends what steer has begun: the operation is over, and from now on a
// signal ends what the command does next, which is to leave the screen. So does
// one that came before: who sent it may not be there to press a key.
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
		i.say.Note(i.last.String() + ": too late, the operation is over")
	}
}

// Reason returns why a command ends: where a signal has come before anything was
// written, that. What an operation has ended with stands.
func (i *Signals) Reason(err error) error {
	var ended *exitError
	if err != nil && !errors.As(err, &ended) && i.Interrupted() {
		return Exit(ExitAborted, ErrInterrupted)
	}
	return err
}

// Interrupted reports whether there was a signal that ends things.
func (i *Signals) Interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

func (i *Signals) Handle(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case s == syscall.SIGHUP && i.gone: // a terminal sends several
	case i.op == nil:
		i.end(s)
	case s == syscall.SIGHUP:
		i.hungUp()
	default:
		i.came, i.last = true, s
		i.give(i.order.Rollback)
	}
}

// end ends a command that has no operation, or none any more.
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

// AtQuit has a function called before quit, until it is undone.
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

// cleanUp calls what is to be done before quit.
func (i *Signals) cleanUp() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for do := range i.cleanup {
		(*do)()
	}
}

// give orders the operation to abort, the second time to stop.
func (i *Signals) give(rollback bool) {
	i.orders++
	command := event.Abort
	switch {
	case i.orders > 1:
		command = event.Stop
	case rollback:
		command = event.Rollback
	}
	i.asked = append(i.asked, command)
	i.op.Command(event.Command{Name: command, Reason: i.last.String()})
}

// Hangup tells that the terminal has gone, by whatever sign.
func (i *Signals) Hangup() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op != nil {
		i.hungUp()
	}
}

// hungUp does once what there is to do when the terminal has gone. A screen
// notices by itself.
func (i *Signals) hungUp() {
	if i.gone {
		return
	}
	i.gone = true
	if i.say != nil {
		DropTerminal()
	}
	if i.order.Hangup == HangupContinue {
		i.order.Unattended()
		return
	}
	i.came, i.last = true, syscall.SIGHUP
	i.give(i.order.Hangup == HangupRollback)
}

// Consume tells what the operation has made of a signal. When it begins to roll
// back, the next signal is the first one again (R43).
func (i *Signals) Consume(e event.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case e.Kind == event.KindOperation && e.Status == event.RollingBack:
		i.orders = 0
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

// answer is what an operation has said to an order, in words.
func (i *Signals) answer(e event.Event) string {
	const again = "; once more to stop at once"
	switch {
	case e.Message != "":
		return e.Message
	case e.Command == event.Stop:
		return "stopping at once, requests in flight are cancelled"
	case e.Command == event.Rollback:
		return "nothing more is started, and what was done is rolled back" + again
	}
	return "nothing more is started, and " + i.order.Outcome + again
}

// Cancelable calls do and returns what it returns, or the cause of ctx as soon as
// that ends: not everything that only reads, Helm's own code for instance, can
// be told to end. It may go on until the program has ended.
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
