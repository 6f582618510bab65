// Package throwaway starts a Kubernetes cluster that is removed when it is closed or when this process ends,
// even by a crash. The cluster runs in a separate process, the program lockstep-sandbox (see kube/sandbox).
package throwaway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stopTimeout is how long a cluster may take to stop before it is killed.
const stopTimeout = 20 * time.Second

// Options configure a cluster. All of them are optional.
type Options struct {
	// Kubeconfig is the file for the kubeconfig, "" for one in the cluster's folder. If the file exists and is
	// not from a sandbox, Start fails and does not change it.
	Kubeconfig string
	// AuditLog is the file to which the API server's audit log is appended, "" for none. It is complete when
	// Close has returned, and is not removed.
	AuditLog string
	// DataDir keeps the cluster's data for a later Start with the same DataDir. With "" the data is removed.
	DataDir string
	// Nodes is the number of nodes, 0 for the sandbox's default.
	Nodes int
}

// Cluster is a running cluster.
type Cluster struct {
	Kubeconfig string // path of a kubeconfig for an administrator
	Server     string // https://127.0.0.1:PORT
	AuditLog   string // as in Options, absolute; "" if there is none

	dataDir string
	temp    bool
	cmd     *exec.Cmd
	stdin   io.Closer
	output  tail
	done    chan struct{} // closed when the process has ended
	ended   error         // how it ended; set before done is closed
	close   func() error
}

// readyLine is what lockstep-sandbox --json prints.
type readyLine struct {
	Kubeconfig, Server, DataDir, AuditLog string
}

// Start starts a cluster and waits until pods can be created in it, which takes some seconds. ctx limits only
// the start: the cluster runs until Close. If Start fails, it stops the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	path, argv, err := Command(o.args())
	if err != nil {
		return nil, err
	}
	c := &Cluster{temp: o.DataDir == "", done: make(chan struct{})}
	c.close = sync.OnceValue(c.stop)
	c.cmd = &exec.Cmd{Path: path, Args: argv, Stderr: &c.output, SysProcAttr: ownProcessGroup()}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	line := make(chan []byte, 1)
	go c.watch(stdout, line)
	select {
	case first := <-line:
		err = c.ready(first)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("start the sandbox: %w%s", err, c.output.text())
	}
	return c, nil
}

func (o Options) args() []string {
	args := []string{"--json", "--while-stdin"}
	for _, f := range []struct{ name, value string }{
		{"--kubeconfig", o.Kubeconfig}, {"--audit-log", o.AuditLog}, {"--data-dir", o.DataDir},
	} {
		if f.value != "" {
			args = append(args, f.name+"="+f.value)
		}
	}
	if o.Nodes > 0 {
		args = append(args, "--nodes="+strconv.Itoa(o.Nodes))
	}
	return args
}

// watch sends the first line of stdout, or nil if there is none, and waits until the process has ended.
func (c *Cluster) watch(stdout io.Reader, line chan<- []byte) {
	r := bufio.NewReader(stdout)
	first, err := r.ReadBytes('\n')
	if err == nil {
		line <- first
		_, _ = io.Copy(io.Discard, r)
	}
	c.ended = c.cmd.Wait()
	close(c.done)
	if err != nil { // only after the end, so that the error can quote all output
		line <- nil
	}
}

// ready parses the first line of stdout.
func (c *Cluster) ready(line []byte) error {
	switch {
	case line == nil && c.ended != nil:
		return fmt.Errorf("it exited before it was ready: %w", c.ended)
	case line == nil:
		return errors.New("it exited before it was ready")
	}
	var r readyLine
	if err := json.Unmarshal(line, &r); err != nil || r.Kubeconfig == "" {
		return fmt.Errorf("%s printed %q, which this program cannot read: install the same version of both", c.cmd.Path, line)
	}
	c.Kubeconfig, c.Server, c.AuditLog, c.dataDir = r.Kubeconfig, r.Server, r.AuditLog, r.DataDir
	return nil
}

// PID returns the process id of the cluster.
func (c *Cluster) PID() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the cluster has ended, after Close or a failure. Close reports the
// failure.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Close ends the cluster and waits until its process and its folder are gone. It may be called more than once
// and by several goroutines; all calls return the same error.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) stop() error {
	early := false
	select {
	case <-c.done:
		early = true
	default:
	}
	_ = c.stdin.Close() // the process ends when its stdin is closed
	select {
	case <-c.done:
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
		<-c.done
		if c.temp && c.dataDir != "" {
			_ = os.RemoveAll(c.dataDir)
		}
		return fmt.Errorf("the sandbox did not stop within %v and was killed%s", stopTimeout, c.output.text())
	}
	switch {
	case c.ended != nil:
		return fmt.Errorf("the sandbox failed: %w%s", c.ended, c.output.text())
	case early:
		return errors.New("the sandbox exited unexpectedly" + c.output.text())
	}
	return nil
}

// tail keeps the last tailSize bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if n := len(t.data); n > tailSize {
		t.data = append(t.data[:0], t.data[n-tailSize:]...)
	}
	return len(p), nil
}

// text returns the kept text after a newline, for the end of an error message.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.data)); s != "" {
		return "\n" + s
	}
	return ""
}

// BinaryEnv is the environment variable with the path of lockstep-sandbox.
const BinaryEnv = "LOCKSTEP_SANDBOX_BIN"

const (
	program = "lockstep-sandbox"
	module  = "lockstep" // also the name of its main program
)

// ErrNotFound is the error of Start and Command if there is no lockstep-sandbox.
var ErrNotFound = errors.New(program + " not found: build it with make in a clone of lockstep, or set " + BinaryEnv + " to its path")

// Command returns the path and the argv of `lockstep-sandbox ARGS...`. If BinaryEnv is unset, it searches for
// the program next to this executable, in a test also in bin/ of this module, and then in PATH.
func Command(args []string) (path string, argv []string, err error) {
	if path, err = find(); err != nil {
		return "", nil, err
	}
	argv = []string{program}
	if bin := lockstepBin(); bin != "" {
		argv = append(argv, "--lockstep-bin="+bin)
	}
	return path, append(argv, args...), nil
}

// lockstepBin returns the path of the program that the cluster runs for containers of the lockstep image: this
// program if it is lockstep, in a test the one in bin/ of this module. With "" the sandbox chooses.
func lockstepBin() string {
	self, err := os.Executable()
	if err != nil || strings.TrimSuffix(filepath.Base(self), ".exe") == module {
		return self
	}
	if path := filepath.Join(testBin(self), module); filepath.IsAbs(path) && executable(path) {
		return path
	}
	return ""
}

// testBin returns bin/ of this module if this executable is a test of the module, otherwise "".
func testBin(self string) string {
	wd, err := os.Getwd()
	if err != nil || !strings.HasSuffix(strings.TrimSuffix(self, ".exe"), ".test") {
		return ""
	}
	for ; ; wd = filepath.Dir(wd) {
		mod, _ := os.ReadFile(filepath.Join(wd, "go.mod"))
		switch first, _, _ := strings.Cut(string(mod), "\n"); {
		case strings.TrimSpace(first) == "module "+module:
			return filepath.Join(wd, "bin")
		case wd == filepath.Dir(wd):
			return ""
		}
	}
}

// find returns the path of lockstep-sandbox.
func find() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if !executable(path) {
			return "", fmt.Errorf("%s=%s is not an executable file: set it to the path of %s", BinaryEnv, path, program)
		}
		return filepath.Abs(path)
	}
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	for _, dir := range candidates(self) {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", ErrNotFound
}

// candidates returns the folders to search before PATH. self is the path of this executable, "" if unknown.
func candidates(self string) []string {
	var dirs []string
	if self != "" {
		dirs = append(dirs, filepath.Dir(self))
		if real, err := filepath.EvalSymlinks(self); err == nil && real != self {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	if bin := testBin(self); bin != "" {
		dirs = append(dirs, bin)
	}
	return dirs
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
