//go:build unix

package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/term"

	"lockstep/engine/event"
)

// terminal is a pseudo-terminal for a screen.
type terminal struct {
	t        *testing.T
	ptm, pts *os.File
	before   *term.State // of the terminal
	mu       sync.Mutex
	out      bytes.Buffer
	ended    chan error
}

// runScreen runs the screen in its own terminal.
func runScreen(t *testing.T, ctx context.Context, o Options) *terminal {
	t.Helper()
	ptm, pts, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = ptm.Close(); _ = pts.Close() })
	if err := pty.Setsize(ptm, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(pts.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ptm = pollable(t, ptm)
	p := &terminal{t: t, before: before, ptm: ptm, pts: pts, ended: make(chan error, 1)}
	go func() { _, _ = io.Copy(p, ptm) }()
	o.Input, o.Output, o.Environ = pts, pts, []string{"TERM=xterm-256color"}
	go func() { p.ended <- Run(ctx, o) }()
	return p
}

// pollable returns a file whose Close ends a Read; Close of a file from pty.Open does not.
func pollable(t *testing.T, f *os.File) *os.File {
	fd, err := syscall.Dup(int(f.Fd()))
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	f = os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (p *terminal) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// wait waits until the screen shows a text.
func (p *terminal) wait(text string) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(p.text(), text) {
			return
		}
	}
	p.t.Fatalf("no %q in %q", text, ansi.Strip(p.text()))
}

func (p *terminal) end() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(30 * time.Second):
		p.t.Fatalf("Run did not return: %q", ansi.Strip(p.text()))
		return nil
	}
}

// restored fails if the terminal was not restored. The last output may still be on its way.
func (p *terminal) restored() {
	p.t.Helper()
	var wrong string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if wrong = p.changed(); wrong == "" {
			return
		}
	}
	p.t.Error(wrong)
}

// changed says what was not restored.
func (p *terminal) changed() string {
	text := p.text()
	for _, seq := range []string{"\x1b[?1049", "\x1b[?1002", "\x1b[?2004"} {
		if strings.LastIndex(text, seq+"l") < strings.LastIndex(text, seq+"h") {
			return fmt.Sprintf("%q is still on", seq)
		}
	}
	if strings.LastIndex(text, "\x1b[?25h") < strings.LastIndex(text, "\x1b[?25l") {
		return "the cursor is still hidden"
	}
	if after, err := term.GetState(int(p.pts.Fd())); err != nil || !reflect.DeepEqual(after, p.before) {
		return fmt.Sprintf("the terminal's modes are %v, were %v (%v)", after, p.before, err)
	}
	return ""
}

// noRace skips a test under the race detector: if the program does not end with a key, Bubble Tea closes
// its reader of the terminal during a read.
func noRace(t *testing.T) {
	if racing {
		t.Skip("Bubble Tea's own end is a race")
	}
}

func feedOf(t *testing.T, events []event.Event) *event.Feed {
	t.Helper()
	f := &event.Feed{}
	for _, e := range events {
		f.Publish(e)
	}
	return f
}

func TestRun(t *testing.T) {
	f := feedOf(t, recorded(t, "sandbox-install", 63))
	sent := make(chan event.Command, 9)
	p := runScreen(t, t.Context(), Options{Source: f.Reader(), Command: func(c event.Command) { sent <- c }})
	p.wait("queue:broker")
	fmt.Fprint(p.ptm, "p")
	if c := <-sent; c.Name != event.Pause {
		t.Errorf("p sends %v", c)
	}
	for _, e := range recorded(t, "sandbox-install", 0)[63:] {
		f.Publish(e)
	}
	f.Close()
	p.wait("press q")
	fmt.Fprint(p.ptm, "q")
	if err := p.end(); err != nil {
		t.Error(err)
	}
	p.restored()
}

// TestRunSurvivesResizing resizes the terminal while events arrive.
func TestRunSurvivesResizing(t *testing.T) {
	f := &event.Feed{}
	p := runScreen(t, t.Context(), Options{Source: f.Reader(), Command: func(event.Command) {}})
	for i, e := range recorded(t, "sandbox-install", 0) {
		f.Publish(e)
		if i%10 == 0 {
			_ = pty.Setsize(p.ptm, &pty.Winsize{Cols: uint16(20 + i), Rows: uint16(5 + i%50)})
			_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH)
			time.Sleep(5 * time.Millisecond)
		}
	}
	f.Close()
	p.wait("press q")
	fmt.Fprint(p.ptm, "q")
	if err := p.end(); err != nil {
		t.Error(err)
	}
	p.restored()
}

// TestRunPanic: a panic in a frame or a message restores the terminal and is returned as an error.
func TestRunPanic(t *testing.T) {
	noRace(t)
	for name, o := range map[string]Options{
		"view":   {Source: feedOf(t, recorded(t, "sandbox-install", 63)).Reader(), Now: func() time.Time { panic("in View") }},
		"update": {Source: feedOf(t, recorded(t, "sandbox-install", 63)).Reader(), Command: func(event.Command) { panic("in Update") }},
		"source": {Source: broken{}},
	} {
		t.Run(name, func(t *testing.T) {
			old := os.Stderr // where Bubble Tea writes the trace to
			os.Stderr, _ = os.Open(os.DevNull)
			defer func() { os.Stderr = old }()
			p := runScreen(t, t.Context(), o)
			if name == "update" {
				p.wait("queue:broker")
				fmt.Fprint(p.ptm, "p")
			}
			if err := p.end(); !errors.Is(err, tea.ErrProgramPanic) {
				t.Errorf("Run returns %v", err)
			}
			p.restored()
		})
	}
}

// broken is a source that panics.
type broken struct{}

func (broken) Next(context.Context) ([]event.Event, bool) { panic("in a command") }

// TestRunTerminalGone: Run returns when the terminal is gone.
func TestRunTerminalGone(t *testing.T) {
	noRace(t)
	t.Run("write error", func(t *testing.T) {
		r, _ := io.Pipe()
		err := Run(t.Context(), Options{Source: idle{}, Input: r, Output: failing{}})
		if !errors.Is(err, ErrTerminalGone) || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Run returns %v", err)
		}
	})
	t.Run("hangup", func(t *testing.T) {
		p := runScreen(t, t.Context(), Options{Source: feedOf(t, recorded(t, "sandbox-held", 0)).Reader(), Command: func(event.Command) {}})
		p.wait("held")
		_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
		if err := p.end(); !errors.Is(err, ErrTerminalGone) {
			t.Errorf("Run returns %v", err)
		}
	})
	t.Run("terminal closed", func(t *testing.T) {
		p := runScreen(t, t.Context(), Options{Source: feedOf(t, recorded(t, "sandbox-held", 0)).Reader(), Command: func(event.Command) {}})
		p.wait("held")
		_ = p.ptm.Close()
		if err := p.end(); !errors.Is(err, ErrTerminalGone) {
			t.Errorf("Run returns %v", err)
		}
	})
	t.Run("stuck", func(t *testing.T) {
		r, _ := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
		start := time.Now()
		err := Run(ctx, Options{Source: idle{}, Input: r, Output: stuck{}})
		if !errors.Is(err, why) || time.Since(start) > 8*time.Second {
			t.Errorf("Run returns %v after %s", err, time.Since(start))
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// stuck is a terminal whose reader has stopped.
type stuck struct{}

func (stuck) Write([]byte) (int, error) { select {} }

// TestRunContext returns the cause of the context.
func TestRunContext(t *testing.T) {
	noRace(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the run is over")
	p := runScreen(t, ctx, Options{Source: feedOf(t, recorded(t, "sandbox-held", 0)).Reader(), Command: func(event.Command) {}})
	p.wait("held")
	cancel(why)
	if err := p.end(); !errors.Is(err, why) {
		t.Errorf("Run returns %v", err)
	}
	p.restored()
}

// TestNoTicks: nothing wakes the program while nothing is running.
func TestNoTicks(t *testing.T) {
	for run, ticks := range map[string]bool{"sandbox-breakpoint": false, "sandbox-held": false, "sandbox-install": false, "sandbox-rollback": false, "failed": false, "running": true} {
		s := newScreen(t, 100, 30, recorded(t, run, 0))
		s.send(tickMsg{})
		if s.ticking != ticks {
			t.Errorf("%s: ticks %t, want %t", run, s.ticking, ticks)
		}
		if !ticks && s.last != nil {
			t.Errorf("%s: a tick did something", run)
		}
	}
	// A paused run ticks while a group is still running.
	s := newScreen(t, 100, 30, recorded(t, "running", 0))
	s.feed(event.Event{Kind: event.KindRun, Status: event.Paused, Time: s.State.Now})
	s.send(tickMsg{})
	if !s.ticking {
		t.Error("the times of running groups are not updated")
	}
}
