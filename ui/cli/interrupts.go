package cli

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

// errInterrupted is why a command ends after a signal before anything was
// written.
var errInterrupted = errors.New("interrupted; nothing was written")

// lastChance is how long a command that was told to end may take to do so once
// a second signal has come.
const lastChance = 2 * time.Second

// interrupts turns signals into orders, for as long as the program runs. While
// there is no operation the first one ends what is under way, and a second one
// the program. During an operation the first SIGINT or SIGTERM aborts it, and the
// next one stops it at once; SIGHUP is what onHangup says. What the operation
// makes of that, its events tell. After it, a signal leaves the screen.
type interrupts struct {
	// ctx ends with the first signal while there is no operation.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// quit ends the program where nothing else does, for the reason given.
	quit func(error)

	mu    sync.Mutex
	op    operation
	began bool // an operation, now or before
	order order
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

// order is what the first signal means.
type order struct {
	rollback bool
	hangup   onHangup
	// outcome is what becomes of the release without a rollback.
	outcome string
	// deserted is called when the terminal has gone and the operation goes on.
	deserted func()
}

// onHangup is what is to become of an operation whose terminal goes away.
type onHangup string

const (
	hangupContinue onHangup = "continue"
	hangupKeep     onHangup = "keep"
	hangupRollback onHangup = "rollback"
)

func newInterrupts(parent context.Context) *interrupts {
	i := &interrupts{quit: func(error) {}, cleanup: map[*func()]bool{}}
	i.ctx, i.cancel = context.WithCancelCause(parent)
	return i
}

// watch takes signals until the function that it returns is called. SIGHUP is
// left alone where nohup has it ignored.
func (i *interrupts) watch() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for s := range signals {
			i.handle(s)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		i.cancel(nil)
	}
}

// steer hands an operation over: until it is let go, signals are orders to it.
// It returns errInterrupted where one has come before.
func (i *interrupts) steer(op operation, o order, say report.Notices) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.came {
		return errInterrupted
	}
	i.op, i.began, i.order, i.say, i.orders, i.asked = op, true, o, say, 0, nil
	if i.gone {
		o.deserted()
	}
	return nil
}

// finished ends what steer has begun: the operation is over, and from now on a
// signal ends what the command does next, which is to leave the screen. So does
// one that came before: who sent it may not be there to press a key.
func (i *interrupts) finished() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op == nil {
		return
	}
	i.op = nil
	if !i.came {
		return
	}
	i.cancel(errInterrupted)
	if len(i.asked) > 0 && i.say != nil {
		i.say.Note(i.last.String() + ": too late, the operation is over")
	}
}

// reason returns why a command ends: where a signal has come before anything was
// written, that. What an operation has ended with stands.
func (i *interrupts) reason(err error) error {
	var ended *exitError
	if err != nil && !errors.As(err, &ended) && i.interrupted() {
		return exitWith(exitAborted, errInterrupted)
	}
	return err
}

// interrupted reports whether there was a signal that ends things.
func (i *interrupts) interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

func (i *interrupts) handle(s os.Signal) {
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
		i.give(i.order.rollback)
	}
}

// end ends a command that has no operation, or none any more.
func (i *interrupts) end(s os.Signal) {
	again := i.came && s != syscall.SIGHUP
	i.came, i.last = true, s
	i.cancel(errInterrupted)
	if !again {
		return
	}
	why := errInterrupted
	if i.began {
		why = errors.New("interrupted")
	}
	time.AfterFunc(lastChance, func() {
		i.cleanUp()
		i.quit(why)
	})
}

// atQuit has a function called before quit, until it is undone.
func (i *interrupts) atQuit(do func()) (undo func()) {
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
func (i *interrupts) cleanUp() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for do := range i.cleanup {
		(*do)()
	}
}

// give orders the operation to abort, the second time to stop.
func (i *interrupts) give(rollback bool) {
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

// hangup tells that the terminal has gone, by whatever sign.
func (i *interrupts) hangup() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.op != nil {
		i.hungUp()
	}
}

// hungUp does once what there is to do when the terminal has gone. A screen
// notices by itself.
func (i *interrupts) hungUp() {
	if i.gone {
		return
	}
	i.gone = true
	if i.say != nil {
		dropTerminal()
	}
	if i.order.hangup == hangupContinue {
		i.order.deserted()
		return
	}
	i.came, i.last = true, syscall.SIGHUP
	i.give(i.order.hangup == hangupRollback)
}

// Consume tells what the operation has made of a signal. When it begins to roll
// back, the next signal is the first one again (R43).
func (i *interrupts) Consume(e event.Event) {
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
func (i *interrupts) answer(e event.Event) string {
	const again = "; once more to stop at once"
	switch {
	case e.Message != "":
		return e.Message
	case e.Command == event.Stop:
		return "stopping at once, requests in flight are cancelled"
	case e.Command == event.Rollback:
		return "nothing more is started, and what was done is rolled back" + again
	}
	return "nothing more is started, and " + i.order.outcome + again
}

// during calls do and returns what it returns, or the cause of ctx as soon as
// that ends: not everything that only reads, Helm's own code for instance, can
// be told to end. It may go on until the program has ended.
func during[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
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
