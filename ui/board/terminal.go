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
	// stuckAfter limits a write once the screen has to close.
	stuckAfter = time.Second
)

// onHangup calls lost if the terminal hangs up before stop is called.
func onHangup(lost context.CancelCauseFunc) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) { // under nohup
		return func() {}
	}
	hup := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		select {
		case <-hup:
			lost(fmt.Errorf("%w (SIGHUP)", ErrTerminalGone))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(hup)
		close(done)
	}
}

// guardInput returns the terminal's input. If r is a file, a failed read calls lost: nobody can
// press a key any more.
func guardInput(r io.Reader, lost context.CancelCauseFunc) io.Reader {
	if r == nil {
		if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return nil // Bubble Tea opens the terminal itself
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

// guardedOutput is an output that calls lost when a write fails. It lets the program end even if a
// write never returns; the renderer ignores errors and would wait forever.
type guardedOutput struct {
	w    io.Writer
	ctx  context.Context
	lost context.CancelCauseFunc
	dead atomic.Bool
}

// terminalFile has the methods that the renderer needs to read the terminal's size.
type terminalFile interface {
	io.ReadWriteCloser
	Fd() uintptr
}

// guardedFile is a guarded terminal.
type guardedFile struct {
	*guardedOutput
	file terminalFile
}

func (g guardedFile) Read(p []byte) (int, error) { return g.file.Read(p) }
func (g guardedFile) Close() error               { return g.file.Close() }
func (g guardedFile) Fd() uintptr                { return g.file.Fd() }

func guardOutput(ctx context.Context, w io.Writer, lost context.CancelCauseFunc) io.Writer {
	if w == nil {
		w = os.Stdout
	}
	g := &guardedOutput{w: w, ctx: ctx, lost: lost}
	if f, ok := w.(terminalFile); ok {
		return guardedFile{g, f}
	}
	return g
}

func (g *guardedOutput) Write(p []byte) (int, error) {
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
			err = fmt.Errorf("a write took longer than %s", stuckAfter)
		}
	}
	if err != nil {
		g.dead.Store(true)
		g.lost(fmt.Errorf("%w: %w", ErrTerminalGone, err))
		return 0, err
	}
	return len(p), nil
}
