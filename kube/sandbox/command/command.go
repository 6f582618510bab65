// Package command runs the COMMAND of a sandbox.
package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Exit codes of shells for a program that could not be run.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// killAfter is how long the program may take to exit after SIGTERM.
const killAfter = 10 * time.Second

// Check checks whether a program can be run. If not, it returns an exit code and an error.
func Check(name string) (int, error) {
	_, err := exec.LookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		return 0, nil
	case errors.Is(err, fs.ErrPermission):
		return ExitNotExecutable, fmt.Errorf("%s: cannot be executed", name)
	default:
		return ExitNotFound, fmt.Errorf("%s: command not found", name)
	}
}

// Command is a running program. It shares the terminal and the process group of the sandbox, so the
// terminal's own signals reach it directly.
type Command struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs argv with env and stderr, and the stdin and stdout of this process. On Linux the program gets
// SIGTERM when the thread that started it ends. Start therefore locks the calling goroutine to its thread; the
// goroutine must outlive the program.
func Start(argv, env []string, stderr *os.File) (*Command, error) {
	runtime.LockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // the user chose to have "." in PATH
	}
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, stderr
	cmd.SysProcAttr = EndWithParent(syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Command{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // Wait reads the result from ProcessState
	}()
	return c, nil
}

// Signal forwards SIGTERM and SIGHUP. The terminal sends the other signals to the whole process group, so the
// program has already received them.
func (c *Command) Signal(s os.Signal) {
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		_ = c.cmd.Process.Signal(s) // fails if the program has just exited
	}
}

// Wait returns the program's exit code (see ExitCode). If failed delivers an error first, Wait terminates the
// program and returns 1 and that error.
func (c *Command) Wait(failed <-chan error) (int, error) {
	select {
	case <-c.done:
		return ExitCode(c.cmd.ProcessState), nil
	case err := <-failed:
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		t := time.AfterFunc(killAfter, func() { _ = c.cmd.Process.Kill() })
		defer t.Stop()
		<-c.done
		return 1, err
	}
}

// ExitCode returns the exit code of a process, or 128 plus the signal's number if a signal killed it.
func ExitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
