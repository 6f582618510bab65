package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"lockstep/engine/event"
)

// errInterrupted is why preparations end after a signal.
var errInterrupted = errors.New("interrupted; nothing was written")

// interrupts turns SIGINT, SIGTERM and SIGHUP into orders. Before there is an
// operation they end its preparation, and a second one ends the program.
// Afterwards the first one aborts the operation, the next one stops it at once.
type interrupts struct {
	// ctx ends with the first signal before there is an operation.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	signals chan os.Signal
	say     io.Writer

	mu    sync.Mutex
	op    operation
	order order
	count int
}

func watchInterrupts(parent context.Context, say io.Writer) *interrupts {
	i := &interrupts{signals: make(chan os.Signal, 4), say: say}
	i.ctx, i.cancel = context.WithCancelCause(parent)
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Who reads the output may go away; the operation must not end halfway for
	// it, which a write to a closed pipe would do.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		for s := range i.signals {
			i.handle(s)
		}
	}()
	return i
}

func (i *interrupts) stop() {
	signal.Stop(i.signals)
	close(i.signals)
	i.cancel(nil)
}

// order is what the first signal means.
type order struct {
	rollback bool
	// fate is what becomes of the release without a rollback.
	fate string
}

// steer hands the operation over: from now on signals are orders to it. It
// returns errInterrupted where one has come before. Nothing is said to say when
// it is nil.
func (i *interrupts) steer(op operation, o order, say io.Writer) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count > 0 {
		return errInterrupted
	}
	i.op, i.order, i.say = op, o, say
	return nil
}

// blame returns what a command ends with: where a signal has come before
// anything was written, that.
func (i *interrupts) blame(err error) error {
	if err != nil && i.came() && exitCode(err) == exitNothing {
		return &exitError{exitAborted, errInterrupted}
	}
	return err
}

// came reports whether there was a signal.
func (i *interrupts) came() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count > 0
}

func (i *interrupts) handle(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count++
	if i.op == nil {
		i.cancel(errInterrupted)
		signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		return
	}
	command, text := event.Abort, "nothing more is started, and "+i.order.fate
	switch {
	case i.count > 1:
		command, text = event.Stop, "stopping at once, requests in flight are cancelled"
	case i.order.rollback:
		command, text = event.Rollback, "nothing more is started, and what was done is rolled back"
	}
	if i.say != nil {
		again := ""
		if i.count == 1 {
			again = "; once more to stop at once"
		}
		fmt.Fprintf(i.say, "%s: %s%s\n", s, text, again)
	}
	i.op.Command(event.Command{Name: command, Reason: s.String()})
}
