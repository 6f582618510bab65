package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// If the sandbox itself is killed, its command is told to end, and the next sandbox removes the folder: even
// one that is interrupted while it starts.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tmp, told := filepath.Join(dir, "tmp"), filepath.Join(dir, "told")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--", "sh", "-c", `trap 'echo told > "$TOLD"; exit' TERM; echo set; while :; do sleep 0.02; done`)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TOLD="+told)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the command is told", func() bool { return exists(told) })
	left := folders(t, tmp)
	if len(left) != 1 {
		t.Fatalf("folders of the killed sandbox: %q", left)
	}
	next := exec.Command(binary)
	next.Env = append(os.Environ(), "TMPDIR="+tmp)
	if err := next.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next one has begun", func() bool { return !exists(left[0]) && len(folders(t, tmp)) == 1 })
	if err := next.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, next.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	if left := folders(t, tmp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
