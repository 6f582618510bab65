// Package e2e tests the program lockstep-sandbox as users run it. It imports no package of the sandbox, so the
// tests link fast.
package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// binary is the program under test: LOCKSTEP_SANDBOX_BIN, or bin/lockstep-sandbox of the repository.
var binary string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	var err error
	if binary, err = build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if common.cmd != nil {
		common.stop()
	}
	os.Exit(code)
}

// build builds the program if it does not exist or is older than its source.
func build() (string, error) {
	if b := os.Getenv("LOCKSTEP_SANDBOX_BIN"); b != "" {
		return b, nil
	}
	out, err := filepath.Abs("../../../bin/lockstep-sandbox")
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(out); err == nil {
		stale := false
		err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && d.Name() != "go.mod" {
				return err
			}
			source, err := d.Info()
			stale = stale || err == nil && source.ModTime().After(info.ModTime())
			return err
		})
		if err != nil || !stale {
			return out, err
		}
	}
	cmd := exec.Command("go", "build", "-p", "2", "-ldflags", "-s -w", "-o", out, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = "..", os.Stdout, os.Stderr
	return out, cmd.Run()
}

// roleEnv makes the test binary act as another program of a test; see play.
const roleEnv = "SANDBOX_TEST_ROLE"

func play(role string) int {
	switch role {
	case "writer": // writes to the cluster, copies stdin to stdout, and exits with code 7
		if err := write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			return 1
		}
		return 7
	case "container":
		if err := container(os.Args[1:]); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	case "stubborn":
		stubborn(os.Args[1:])
	case "parent": // starts a sandbox and waits to be killed
		cmd := exec.Command(os.Getenv("BINARY"), "--json", "--while-stdin")
		cmd.Stdout = os.Stdout
		if _, err := cmd.StdinPipe(); err != nil {
			return 1
		}
		if cmd.Start() != nil {
			return 1
		}
		_ = cmd.Wait()
	}
	return 1
}

// sandbox is a running lockstep-sandbox that is ready.
type sandbox struct {
	Kubeconfig, Server, DataDir, AuditLog string
	PID                                   int

	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *strings.Builder
}

// start starts a sandbox and waits until it is ready. It stops at the end of the test.
func start(t testing.TB, env []string, args ...string) *sandbox {
	t.Helper()
	s, err := launch(env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

func launch(env []string, args ...string) (*sandbox, error) {
	s := &sandbox{stderr: &strings.Builder{}, cmd: exec.Command(binary, append([]string{"--json", "--while-stdin"}, args...)...)}
	s.cmd.Stderr, s.cmd.Env = s.stderr, append(os.Environ(), env...)
	stdin, err1 := s.cmd.StdinPipe()
	stdout, err2 := s.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, s.cmd.Start()); err != nil {
		return nil, err
	}
	s.stdin = stdin
	if err := s.read(stdout); err != nil {
		_ = s.cmd.Wait()
		return nil, fmt.Errorf("%w: %s", err, s.stderr)
	}
	return s, nil
}

// read reads the line of JSON that announces the ready cluster.
func (s *sandbox) read(r io.Reader) error {
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, s)
}

// stop stops the sandbox cleanly and returns its exit code.
func (s *sandbox) stop() int {
	_ = s.stdin.Close()
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func config(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

// common is the cluster that all tests share unless they need a separate sandbox.
var common sandbox

// cluster returns clients of the common cluster.
func cluster(t *testing.T) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	if common.cmd == nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		s, err := launch([]string{"LOCKSTEP_SANDBOX_TEST_SECRET=1"}, "--lockstep-bin", self)
		if err != nil {
			t.Fatal(err)
		}
		common = *s
	}
	cfg := config(t, common.Kubeconfig)
	client, err1 := kubernetes.NewForConfig(cfg)
	dyn, err2 := dynamic.NewForConfig(cfg)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return client, dyn
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after a minute: %s", what)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
