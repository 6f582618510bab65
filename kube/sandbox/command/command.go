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

// Exit codes for a program that could not be run, as shells have them.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// killAfter is how long the program may take to end after the cluster has failed.
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

// Start runs argv with env, stdin and stdout of this process, and stderr. On Linux the program gets SIGTERM
// when this process dies. That is tied to the thread that starts the program, so the calling goroutine keeps
// its thread and must outlive the program.
func Start(argv, env []string, stderr *os.File) (*Command, error) {
	runtime.LockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // a PATH with "." in it is the user's own choice
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
		_ = cmd.Wait() // the exit code says it all
	}()
	return c, nil
}

// Signal forwards a signal that only the sandbox received. Signals of a terminal go to the whole process
// group, so the program has already received them.
func (c *Command) Signal(s os.Signal) {
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		_ = c.cmd.Process.Signal(s) // it may have ended just now
	}
}

// Wait returns the program's exit code, 128 + the signal if one ended it. If failed delivers an error first,
// Wait terminates the program and returns that error.
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

// ExitCode returns the exit code of an ended process, 128 + the signal if one ended it.
func ExitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
