package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"lockstep/engine/event"
	"lockstep/ui/report"
)

// errInterrupted is why a command ends after a signal before anything was
// written.
var errInterrupted = errors.New("interrupted; nothing was written")

// interrupts turns SIGINT, SIGTERM and SIGHUP into orders, for as long as the
// program runs. While there is no operation they end what is under way, and a
// second one ends the program. During one the first aborts it, and the next one
// stops it at once; what the operation makes of that, its events tell.
type interrupts struct {
	// ctx ends with the first signal while there is no operation.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	op    operation
	order order
	say   report.Notices // nil: the screen shows what a signal does
	came  bool
	// orders counts the signals since the operation, or its rollback, began.
	orders int
	// asked are the orders that have not been answered.
	asked []event.CommandName
	last  os.Signal
}

// order is what the first signal means.
type order struct {
	rollback bool
	// outcome is what becomes of the release without a rollback.
	outcome string
}

func newInterrupts(parent context.Context) *interrupts {
	i := &interrupts{}
	i.ctx, i.cancel = context.WithCancelCause(parent)
	return i
}

// watch takes signals until the function that it returns is called.
func (i *interrupts) watch() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
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
	// Who reads the output may go away; the operation must not end halfway for
	// it, which a write to a closed pipe would do.
	signal.Ignore(syscall.SIGPIPE)
	i.op, i.order, i.say, i.orders, i.asked = op, o, say, 0, nil
	return nil
}

// release ends what steer has begun. A signal that came too late for the
// operation ends what the command would do next.
func (i *interrupts) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
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
// written, that.
func (i *interrupts) reason(err error) error {
	if err != nil && exitCode(err) == exitNothing && i.interrupted() {
		return &exitError{exitAborted, errInterrupted}
	}
	return err
}

// interrupted reports whether there was a signal.
func (i *interrupts) interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

func (i *interrupts) handle(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.came, i.last = true, s
	if i.op == nil {
		i.cancel(errInterrupted)
		signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		return
	}
	i.orders++
	command := event.Abort
	switch {
	case i.orders > 1:
		command = event.Stop
	case i.order.rollback:
		command = event.Rollback
	}
	i.asked = append(i.asked, command)
	i.op.Command(event.Command{Name: command, Reason: s.String()})
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
		if at < 0 {
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
	case e.Status == event.Refused:
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
