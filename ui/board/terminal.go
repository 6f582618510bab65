package board

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	framesPerSecond = 30
	// stuckAfter is how long a write may take once the screen has to end.
	stuckAfter = time.Second
)

// onHangup calls lost when the terminal hangs up, until stop is called.
func onHangup(lost context.CancelCauseFunc) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) { // by nohup
		return func() {}
	}
	hup := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		select {
		case <-hup:
			lost(fmt.Errorf("%w: it hung up", ErrTerminalGone))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(hup)
		close(done)
	}
}

// guardInput returns the terminal's input; it calls lost when reading fails, since
// nobody can press a key then. It guards files only.
func guardInput(r io.Reader, lost context.CancelCauseFunc) io.Reader {
	if r == nil {
		if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return nil // the library opens the terminal itself
		}
		r = os.Stdin
	}
	if f, ok := r.(*os.File); ok {
		return guardedInput{f, lost}
	}
	return r
}

type guardedInput struct {
	*os.File
	lost context.CancelCauseFunc
}

func (g guardedInput) Read(p []byte) (int, error) {
	n, err := g.File.Read(p)
	if err != nil {
		g.lost(fmt.Errorf("%w: %w", ErrTerminalGone, err))
	}
	return n, err
}

// guard is an output that calls lost when a write fails, and that lets the program
// end although a write never returns. (The renderer ignores errors and waits forever.)
type guard struct {
	w    io.Writer
	ctx  context.Context
	lost context.CancelCauseFunc
	dead atomic.Bool
}

// terminalFile is the interface that the renderer needs to read the terminal's size.
type terminalFile interface {
	io.ReadWriteCloser
	Fd() uintptr
}

type guardFile struct {
	*guard
	file terminalFile
}

func (g guardFile) Read(p []byte) (int, error) { return g.file.Read(p) }
func (g guardFile) Close() error               { return g.file.Close() }
func (g guardFile) Fd() uintptr                { return g.file.Fd() }

func guardOutput(ctx context.Context, w io.Writer, lost context.CancelCauseFunc) io.Writer {
	if w == nil {
		w = os.Stdout
	}
	g := &guard{w: w, ctx: ctx, lost: lost}
	if f, ok := w.(terminalFile); ok {
		return guardFile{g, f}
	}
	return g
}

func (g *guard) Write(p []byte) (int, error) {
	if g.dead.Load() {
		return 0, ErrTerminalGone
	}
	done := make(chan error, 1)
	own := bytes.Clone(p)
	go func() {
		_, err := g.w.Write(own)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-g.ctx.Done():
		select {
		case err = <-done:
		case <-time.After(stuckAfter):
			err = fmt.Errorf("a write did not return within %s", stuckAfter)
		}
	}
	if err != nil {
		g.dead.Store(true)
		g.lost(fmt.Errorf("%w: %w", ErrTerminalGone, err))
		return 0, err
	}
	return len(p), nil
}
