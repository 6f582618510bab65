//go:build unix

package throwaway

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/kube/throwaway/auditlog"
)

func TestClusterStartsAndIsGoneAfterClose(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	dir := t.TempDir()
	o := Options{Kubeconfig: filepath.Join(dir, "kubeconfig"), AuditLog: filepath.Join(dir, "audit.log"), Nodes: 3}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Kubeconfig != o.Kubeconfig || c.AuditLog != o.AuditLog || !strings.HasPrefix(c.Server, "https://127.0.0.1:") {
		t.Errorf("%+v", c)
	}
	data, err := os.ReadFile(c.Kubeconfig)
	if err != nil || !strings.Contains(string(data), c.Server) {
		t.Errorf("kubeconfig: %s, %v", data, err)
	}
	if _, err := os.Stat(c.dataDir); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-c.Done()
	for _, path := range []string{c.dataDir, c.Kubeconfig} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", path, err)
		}
	}
	log, err := auditlog.Read(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	nodes := log.Writes().Where(func(e auditlog.Event) bool { return e.Object.Resource == "nodes" && e.Verb == "create" })
	if len(nodes) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes))
	}
}

// fake replaces the sandbox with a shell script.
func fake(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(BinaryEnv, path)
}

const readyScript = `echo '{"kubeconfig":"/k","server":"https://127.0.0.1:1"}'` + "\n"

func TestStartFails(t *testing.T) {
	for script, want := range map[string]string{
		"echo the port is taken >&2; exit 1": "start the sandbox: it exited before it was ready: exit status 1\nthe port is taken",
		"exit 0":                             "start the sandbox: it exited before it was ready",
		"echo hello; cat":                    "which this program cannot read",
	} {
		fake(t, script)
		if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestStartIsCancelled(t *testing.T) {
	fake(t, "cat")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestClusterFailsAfterStart(t *testing.T) {
	fake(t, readyScript+`echo no more memory >&2; exit 1`)
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	for range 2 {
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "exit status 1\nno more memory") {
			t.Error(err)
		}
	}
}

func TestArgs(t *testing.T) {
	got := strings.Join(Options{Kubeconfig: "k", AuditLog: "a", DataDir: "d", Nodes: 5}.args(), " ")
	if want := "--json --while-stdin --kubeconfig=k --audit-log=a --data-dir=d --nodes=5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCtrlCDoesNotReachTheSandbox(t *testing.T) {
	fake(t, readyScript+"cat")
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if group, err := syscall.Getpgid(c.cmd.Process.Pid); err != nil || group != c.cmd.Process.Pid {
		t.Errorf("process group %d, %v", group, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, program)
	if err := os.WriteFile(there, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv(BinaryEnv, there)
	path, argv, err := Command([]string{"--nodes", "1"})
	if path != there || argv[0] != program || !strings.HasSuffix(strings.Join(argv, " "), " --nodes 1") || err != nil {
		t.Errorf("%s is set: %s, %q, %v", BinaryEnv, path, argv, err)
	}
	t.Setenv(BinaryEnv, filepath.Join(dir, "none"))
	if _, _, err := Command(nil); err == nil || !strings.Contains(err.Error(), "is not an executable file") {
		t.Errorf("a wrong path in the environment: %v", err)
	}
	t.Setenv(BinaryEnv, "")
	t.Chdir(dir) // outside of the module
	if _, _, err := Command(nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("not found: %v", err)
	}
	t.Setenv("PATH", dir)
	if path, _, err := Command(nil); path != there || err != nil {
		t.Errorf("in PATH: %s, %v", path, err)
	}
}

func TestCandidates(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "a", "b")
	nested := filepath.Join(root, "a", "go.mod")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{filepath.Join(root, "go.mod"): "module lockstep\n", nested: "module lockstep/a\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(inner)
	if got := candidates("/tmp/x/y.test"); !slices.Contains(got, filepath.Join(root, "bin")) || !slices.Contains(got, filepath.FromSlash("/tmp/x")) {
		t.Errorf("candidates for a test: %q", got)
	}
	if got := candidates("/tmp/x/lockstep"); slices.Contains(got, filepath.Join(root, "bin")) {
		t.Errorf("an installed program searches the module of the working directory: %q", got)
	}
	link := filepath.Join(root, "link")
	real := filepath.Join(inner, "lockstep")
	if err := errors.Join(os.WriteFile(real, nil, 0o700), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	if resolved, err := filepath.EvalSymlinks(inner); err != nil || !slices.Contains(candidates(link), resolved) {
		t.Errorf("candidates for a symbolic link: %q, %v", candidates(link), err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var l tail
	for range 3 {
		if _, err := l.Write([]byte(strings.Repeat("x", tailSize-1) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.text()); n != tailSize {
		t.Errorf("%d bytes are kept", n)
	}
}
