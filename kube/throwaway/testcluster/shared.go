//go:build linux || darwin

package testcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"lockstep/kube/throwaway"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
)

// member is a process that uses the cluster of a test run.
type member struct {
	dir   string   // the folder of the test run
	users *os.File // every member holds a shared lock on it; only the last one can lock it exclusively
	stdin *os.File // the write end of the sandbox's stdin; the sandbox ends when all members have closed theirs
}

// folder returns the folder of a test run. pid is the process id of go test, or of a package that runs alone.
func folder(pid int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-test-%d-%d", os.Getuid(), pid))
}

// start joins the test run of the go test that started this process.
func start() (*Cluster, error) {
	program, argv, err := throwaway.Command(nil)
	if err != nil {
		return nil, err
	}
	m := &member{dir: folder(os.Getppid())}
	if alone {
		m.dir = folder(os.Getpid())
	}
	unlock, err := m.join()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if m.stdin, err = m.openStdin(); errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrNotExist) {
		err = m.launch(program, argv)
	}
	c := &Cluster{leave: m.leave, AuditLog: m.path("audit.log")}
	if err == nil {
		err = m.readReady(c)
	}
	if err != nil {
		_ = m.users.Close()
		if m.stdin != nil {
			_ = m.stdin.Close()
		}
		return nil, fmt.Errorf("%w%s", err, m.output())
	}
	return c, nil
}

// Hold keeps the cluster of a go test running between two packages, until release is called. It does
// not start a cluster. pid is the process id of go test.
func Hold(pid int) (release func() error, err error) {
	m := &member{dir: folder(pid)}
	unlock, err := m.join()
	if err != nil {
		return nil, err
	}
	defer unlock()
	reader, err := m.openRead()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if m.stdin, err = m.openStdin(); err != nil {
		return nil, err
	}
	return m.leave, nil
}

func (m *member) path(name string) string { return filepath.Join(m.dir, name) }

// lock locks the folder: other members wait until unlock is called.
func (m *member) lock() (unlock func(), err error) {
	for {
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(m.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the last member has just removed the folder
		}
		if err != nil {
			return nil, err
		}
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err == nil && isAt(f, f.Name()) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		// A signal interrupted the wait, or the last member has removed this lock file.
	}
}

// isAt reports whether an open file is the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	current, pathErr := os.Stat(path)
	return err == nil && pathErr == nil && os.SameFile(open, current)
}

// join makes this process a member. It returns with the lock held.
func (m *member) join() (unlock func(), err error) {
	if unlock, err = m.lock(); err != nil {
		return nil, err
	}
	if m.users, err = os.OpenFile(m.path("users"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		err = syscall.Flock(int(m.users.Fd()), syscall.LOCK_SH)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// openStdin opens the write end of the sandbox's stdin. The error is ENXIO if no sandbox is running.
func (m *member) openStdin() (*os.File, error) {
	return os.OpenFile(m.path("stdin"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
}

// openRead opens the read end of the sandbox's stdin, a FIFO.
func (m *member) openRead() (*os.File, error) {
	if err := syscall.Mkfifo(m.path("stdin"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenFile(m.path("stdin"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// launch starts the sandbox and waits until it is ready. Its output goes to files, so that it
// can outlive this process.
func (m *member) launch(program string, argv []string) error {
	stdin, err := m.openRead()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if m.stdin, err = m.openStdin(); err != nil {
		return err
	}
	stdout, err := os.Create(m.path("ready.json"))
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := os.Create(m.path("stderr"))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd := &exec.Cmd{
		Path: program, Args: append(argv, "--json", "--while-stdin", "--audit-objects", "--audit-log="+m.path("audit.log")),
		Stdin: stdin, Stdout: stdout, Stderr: stderr, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timeout := time.After(startTimeout)
	for {
		if text, err := os.ReadFile(stdout.Name()); err != nil || bytes.HasSuffix(text, []byte("\n")) {
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the sandbox exited before it was ready: %v", err)
		case <-timeout:
			_ = cmd.Process.Kill()
			return fmt.Errorf("the sandbox was not ready within %v", startTimeout)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readReady reads the line that the sandbox printed when it was ready.
func (m *member) readReady(c *Cluster) error {
	text, err := os.ReadFile(m.path("ready.json"))
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil {
		return fmt.Errorf("read the first line of the sandbox: %w", err)
	}
	return nil
}

// leave stops using the cluster. The last member waits until the cluster has ended.
func (m *member) leave() error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(m.path("ready.json")); err == nil && !m.runs() {
		err = errors.New("the sandbox exited unexpectedly" + m.output())
		_ = os.RemoveAll(m.dir)
		return err
	}
	_ = syscall.Flock(int(m.users.Fd()), syscall.LOCK_UN)
	last := syscall.Flock(int(m.users.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	_ = m.stdin.Close()
	_ = m.users.Close()
	if !last {
		return nil
	}
	for end := time.Now().Add(stopTimeout); m.runs(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the sandbox did not stop within %v%s", stopTimeout, m.output())
		}
	}
	return os.RemoveAll(m.dir)
}

// runs reports whether the sandbox is running, which means that the read end of its stdin is open.
func (m *member) runs() bool {
	f, err := m.openStdin()
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

// output returns the error output of the sandbox after a newline, for the end of an error message.
func (m *member) output() string {
	text, _ := os.ReadFile(m.path("stderr"))
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return ""
	}
	return "\n" + string(text)
}
