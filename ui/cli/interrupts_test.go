package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/ui/cli/command"
)

// silentServer starts an API server that never responds and returns its address. called receives a
// value for each connection.
func silentServer(t *testing.T) (address string, called chan bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	called = make(chan bool, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			called <- true
		}
	}()
	return "http://" + l.Addr().String(), called
}

// TestInterruptWhilePreparing presses Ctrl-C while the API server does not respond: nothing is written,
// and the exit code is 3.
func TestInterruptWhilePreparing(t *testing.T) {
	chart := filepath.Join(data, "charts", "plain")
	for _, args := range [][]string{
		{"install", "s", chart}, {"install", "s", chart, "--no-tui"}, {"install", "s", chart, "--dry-run=server"},
		{"upgrade", "s", chart}, {"rollback", "s"}, {"uninstall", "s", "t"}, {"test", "s"}, {"plan", "s", chart},
		{"status", "s"}, {"watch", "s"}, {"watch", "s", "--once"}, {"history", "s"}, {"list"}, {"get", "values", "s"},
	} {
		t.Run(strings.Join(args[:1], " "), func(t *testing.T) {
			t.Parallel()
			address, called := silentServer(t)
			c := inTerminal(t, 30, 100, nil, append(args, "--kube-apiserver", address)...)
			select {
			case <-called:
			case <-time.After(30 * time.Second):
				t.Fatalf("no request was sent; the terminal shows %s", c.shown())
			}
			c.keys("\x03")
			if code := c.ends(); code != command.ExitAborted {
				t.Errorf("exit code %d, want %d", code, command.ExitAborted)
			}
			if !strings.HasSuffix(strings.TrimSpace(c.shown()), "error: interrupted; nothing was written") {
				t.Errorf("the terminal shows\n%s", c.shown())
			}
		})
	}
}

// TestClosedPipe: writing to a closed pipe does not kill an operation, not even before it starts.
// Commands that only print are killed by SIGPIPE, as is usual in a pipeline.
func TestClosedPipe(t *testing.T) {
	for name, want := range map[string]int{"install": command.ExitNothingWritten, "plan": -1} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := program(t, nil, name, "nobody", filepath.Join(t.TempDir(), "no-chart"), "-o", "json")
		cmd.Stdout, cmd.Stderr = w, w
		_ = cmd.Run()
		w.Close()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit code %d, want %d", name, code, want)
		}
	}
}
