package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// start runs a shell script with its output in a file.
func start(t *testing.T, script string) (*Command, *os.File) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	c, err := Start([]string{"sh", "-c", script}, []string{"PATH=" + os.Getenv("PATH"), "X=from the sandbox"}, out)
	if err != nil {
		t.Fatal(err)
	}
	return c, out
}

func TestWait(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "kill -TERM $$": 128 + int(syscall.SIGTERM), "kill -KILL $$": 128 + int(syscall.SIGKILL),
	} {
		c, _ := start(t, script)
		if code, err := c.Wait(nil); code != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", script, code, err, want)
		}
	}
}

func TestEnvAndStderr(t *testing.T) {
	c, out := start(t, `echo "$X" >&2`)
	if code, err := c.Wait(nil); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if data, err := os.ReadFile(out.Name()); string(data) != "from the sandbox\n" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// waitForTraps waits until the script has printed that its traps are set.
func waitForTraps(t *testing.T, out *os.File) {
	t.Helper()
	for {
		data, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "set") {
			return
		}
	}
}

func TestSignals(t *testing.T) {
	c, out := start(t, `trap 'exit 3' TERM; trap 'exit 4' INT; echo set >&2; while :; do sleep 0.01; done`)
	waitForTraps(t, out)
	c.Signal(syscall.SIGINT) // must not be forwarded: the terminal has sent it
	c.Signal(syscall.SIGTERM)
	if code, err := c.Wait(nil); code != 3 || err != nil {
		t.Errorf("%d, %v: want 3, only SIGTERM is forwarded", code, err)
	}
}

func TestClusterFails(t *testing.T) {
	c, out := start(t, `trap 'exit 0' TERM; echo set >&2; while :; do sleep 0.01; done`)
	waitForTraps(t, out)
	failed := make(chan error, 1)
	gone := errors.New("the cluster is gone")
	failed <- gone
	if code, err := c.Wait(failed); code != 1 || !errors.Is(err, gone) {
		t.Errorf("%d, %v", code, err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"sh": 0, "no-such-command": ExitNotFound, filepath.Join(dir, "none"): ExitNotFound, plain: ExitNotExecutable} {
		if code, err := Check(name); code != want || (err == nil) != (want == 0) {
			t.Errorf("%s: %d, %v, want %d", name, code, err, want)
		}
	}
}
