package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/command"
)

// terminal is a program in a pseudo-terminal.
type terminal struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer
	read chan struct{} // closed when nothing more can be read
	over chan struct{} // closed when the program has ended
	code int
}

// inTerminal starts lockstep in a terminal of the given size.
func inTerminal(t *testing.T, rows, cols uint16, env []string, args ...string) *terminal {
	t.Helper()
	return inTerminalAt(t, "", rows, cols, env, args...)
}

// inTerminalAt is like inTerminal, in a folder.
func inTerminalAt(t *testing.T, dir string, rows, cols uint16, env []string, args ...string) *terminal {
	t.Helper()
	return startIn(t, dir, rows, cols, env, programLink(t), args...)
}

func startIn(t *testing.T, dir string, rows, cols uint16, env []string, program string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(withoutCI(os.Environ()), append([]string{"TERM=xterm-256color", "XDG_STATE_HOME=" + t.TempDir()}, env...)...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, tty: tty, cmd: cmd, read: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(term.read)
		buf := make([]byte, 32<<10)
		for {
			n, err := tty.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		_ = cmd.Wait() // callers check the exit code
		term.code = cmd.ProcessState.ExitCode()
		close(term.over)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-term.over
		_ = tty.Close()
	})
	return term
}

// inShell starts lockstep by a command line in a shell that controls jobs.
func inShell(t *testing.T, rows, cols uint16, env []string, args ...string) *terminal {
	t.Helper()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	program := programLink(t)
	c := startIn(t, "", rows, cols, env, shell, "--norc", "--noprofile", "-i")
	c.keys(command.ShellJoin(append([]string{program}, args...)) + "\n")
	return c
}

// programLink returns the path of lockstep: the test binary is lockstep by that name.
func programLink(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lockstep")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// withoutCI removes the variables that disable the screen.
func withoutCI(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "CI=") && !strings.HasPrefix(e, "NO_COLOR=") {
			out = append(out, e)
		}
	}
	return out
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b.`)

// shown returns all text sent to the terminal, without control sequences.
func (c *terminal) shown() string { return sequences.ReplaceAllString(c.raw(), "") }

func (c *terminal) raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// mark returns the current position in the output, for await.
func (c *terminal) mark() int { return len(c.shown()) }

// unspaced returns a text without white space: a terminal wraps a text where it does not
// fit, and the screen moves the cursor over blanks.
func unspaced(s string) string { return strings.Join(strings.Fields(s), "") }

// await waits until one of the texts is sent after a mark, wherever it is wrapped.
func (c *terminal) await(since int, texts ...string) {
	c.t.Helper()
	read := -1
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		n := len(c.raw())
		if n == read {
			continue
		}
		read = n
		shown := c.shown()
		sent := unspaced(shown[min(since, len(shown)):])
		for _, text := range texts {
			if strings.Contains(sent, unspaced(text)) {
				return
			}
		}
	}
	c.t.Fatalf("the terminal never showed %q, but:\n%s", texts, tailOf(c.shown(), 3000))
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }

func (c *terminal) keys(s string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(s); err != nil {
		c.t.Fatal(err)
	}
}

// press sends keys and waits until one of the texts is sent after them.
func (c *terminal) press(keys string, texts ...string) {
	c.t.Helper()
	since := c.mark()
	c.keys(keys)
	c.await(since, texts...)
}

// ends waits until the program ends and returns its exit code.
func (c *terminal) ends() int {
	c.t.Helper()
	select {
	case <-c.over:
		<-c.read // reads the last output
		return c.code
	case <-time.After(60 * time.Second):
		c.t.Fatalf("the program does not end; it shows:\n%s", tailOf(c.shown(), 3000))
		return -1
	}
}

// done quits the screen of a run that is done.
func (c *terminal) done() {
	c.t.Helper()
	c.keys("q")
	if code := c.ends(); code != 0 {
		c.t.Errorf("exit code %d", code)
	}
	c.restored()
}

// TestScreenControlsRuns controls runs with keys in a terminal (R40 to R43).
func TestScreenControlsRuns(t *testing.T) {
	t.Parallel()
	env := []string{"KUBECONFIG=" + testcluster.Get(t).Kubeconfig}
	chart := filepath.Join(data, "charts", "fanout")

	t.Run("step, break, continue, abort with rollback", func(t *testing.T) {
		c := inTerminal(t, 36, 120, env, "install", "s", chart, "-n", "a", "--create-namespace", "--step", "--break-on", "fanout:right-2")
		c.await(0, "paused")
		c.press("n", "left-1")      // the namespace
		c.press("n", "in progress") // the first group
		c.press("c", "breakpoint fanout:right-2", "breakpoint right-2")
		c.press("a", "roll back")
		c.press("r", "the release was uninstalled")
		c.keys("q")
		if code := c.ends(); code != 3 {
			t.Errorf("exit code %d, want 3", code)
		}
		c.restored()
		c.await(0, " aborted by ")
		if out := helm(t, env, "list", "-n", "a"); strings.Contains(out, "fanout") {
			t.Errorf("the release is still there: %s", out)
		}
	})

	t.Run("a held failure that is left failed", func(t *testing.T) { // R44, R26
		c := inTerminal(t, 36, 120, env, "install", "s", filepath.Join(data, "charts", "fail-image"), "-n", "g", "--create-namespace", "--readiness-timeout", "10s")
		c.await(0, "stop here")
		c.press("c", "cannot resume: the run is held on a failure")
		c.press("G", "stop here?")
		c.press("G", "the release is marked failed")
		c.keys("q")
		if code := c.ends(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		c.restored()
		c.await(0, "install s failed after")
		c.await(0, "never started: after")
		if out := helm(t, env, "list", "-n", "g"); !strings.Contains(out, "failed") {
			t.Errorf("the release should be failed: %s", out)
		}
	})

	t.Run("to the end, with a resize", func(t *testing.T) {
		c := inTerminal(t, 30, 100, env, "install", "s", chart, "-n", "b", "--create-namespace")
		c.await(0, "running")
		if err := pty.Setsize(c.tty, &pty.Winsize{Rows: 20, Cols: 60}); err != nil {
			t.Fatal(err)
		}
		c.await(0, "press q to quit")
		c.done()
		c.await(0, "install s done in")
	})

	t.Run("ctrl-c without the screen, in the middle of shop", func(t *testing.T) {
		c := inTerminal(t, 30, 200, env, "install", "s", filepath.Join(data, "charts", "shop"), "-n", "f", "--create-namespace",
			"--no-tui", "--set", "global.topicGroup=f.example")
		c.await(0, "shop/db:database started")
		c.keys("\x03")
		if code := c.ends(); code != 3 {
			t.Errorf("exit code %d, want 3", code)
		}
		c.await(0, "install s aborted by SIGINT after")
		c.await(0, "next: lockstep install s")
		if strings.Contains(c.raw(), "\x1b[?1049h") {
			t.Error("there was a screen")
		}
		if out := helm(t, env, "list", "-n", "f"); !strings.Contains(out, "failed") {
			t.Errorf("the release should be failed: %s", out)
		}
	})

	t.Run("watch, with the libraries' logs out of the way", func(t *testing.T) {
		c := inTerminal(t, 30, 100, env, "watch", "s", "-n", "b", "--debug")
		c.await(0, "read-only")
		c.await(0, "left-1")
		c.done()
		c.await(0, "s: chart fanout-0.1.0, namespace b, revision 1, deployed")
		c.await(0, "debug log:")
		if _, screen, _ := strings.Cut(c.raw(), "\x1b[?1049h"); strings.Contains(screen, "level=DEBUG") {
			t.Error("logs have torn the screen")
		}
	})

	t.Run("dag", func(t *testing.T) {
		c := inTerminal(t, 30, 100, env, "dag", chart, "--tui")
		c.await(0, "left-1")
		c.done()
	})

	t.Run("keys before the screen", func(t *testing.T) {
		c := inTerminal(t, 30, 100, env, "install", "early", filepath.Join(data, "charts", "plain"), "-n", "early", "--create-namespace")
		c.keys("qk")
		c.await(0, "press q to quit")
		c.done()
	})

	t.Run("replay", func(t *testing.T) {
		run := filepath.Join(data, "runs", "sandbox-install.ndjson")
		c := inTerminal(t, 30, 100, env, "replay", run, "--speed", "0")
		c.await(0, "REPLAY")
		c.done()
		c.await(0, "critical path")

		c = inTerminal(t, 30, 100, env, "replay", run, "--no-tui")
		if code := c.ends(); code != 0 || strings.Contains(c.raw(), "\x1b[?1049h") || !strings.Contains(c.shown(), "critical path") {
			t.Errorf("exit code %d, and on the terminal %q", code, c.raw())
		}
	})
}

// restored checks that the alternate screen is closed and the cursor visible.
func (c *terminal) restored() {
	c.t.Helper()
	raw := c.raw()
	if enter, leave := strings.LastIndex(raw, "\x1b[?1049h"), strings.LastIndex(raw, "\x1b[?1049l"); enter < 0 || leave < enter {
		c.t.Errorf("the alternate screen was entered at %d and left at %d", enter, leave)
	}
	if hide, show := strings.LastIndex(raw, "\x1b[?25l"), strings.LastIndex(raw, "\x1b[?25h"); show < hide {
		c.t.Errorf("the cursor was hidden at %d and shown at %d", hide, show)
	}
}

// helm runs Helm, which must succeed, and returns its output.
func helm(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testcluster.Helm(t), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestAccessibleMode: with ACCESSIBLE, lockstep prints lines on a terminal.
func TestAccessibleMode(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Get(t)
	c := inTerminal(t, 30, 100, []string{"KUBECONFIG=" + cluster.Kubeconfig, "ACCESSIBLE=1"},
		"install", "read", filepath.Join(data, "charts", "plain"), "-n", "read", "--create-namespace")
	if code := c.ends(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	c.await(0, "install read done in")
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.text.String(); strings.ContainsAny(s, "╭│─━") || strings.Contains(s, "\x1b[?1049h") {
		t.Errorf("there are boxes, or a screen of its own:\n%s", s)
	}
}
