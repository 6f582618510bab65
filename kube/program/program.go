// Package program runs a program on this machine as a part of a run: its output is passed on in lines and is bounded, and it ends
// with all its children when the run does. The central type is Program. Package kube/stack imports it.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Program is a command line with where it runs. Env is added to the environment of lockstep.
type Program struct {
	Command string
	Args    []string
	Dir     string
	Env     []string
}

const (
	// grace is the time between asking a program to end and killing it with its children.
	grace = 5 * time.Second
	// orphanGrace is how long a program that has ended is waited for because a child of it still holds its output, as a daemon does.
	orphanGrace = 2 * time.Second
)

// ExitError is the error of a program that ended without success.
type ExitError struct {
	// Code is the exit code, Signal what killed it, "" if it exited.
	Code   int
	Signal string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "killed by signal: " + e.Signal
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}

// Run runs the program and passes lines of its output on while it runs. When ctx is done, it asks the program and its children to
// end, kills them soon after, and returns the cause of ctx. Children that outlive the program, such as daemons, stay.
func (p Program) Run(ctx context.Context, output func(lines []string)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	runtime.LockOSThread() // see ownGroup
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.Command, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), p.Env...)
	cmd.SysProcAttr, cmd.WaitDelay = ownGroup(), orphanGrace
	out := NewOutput(output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Command, err)
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
			return
		case <-ctx.Done():
			terminate(cmd.Process)
		}
		select {
		case <-ended:
		case <-time.After(grace):
		}
		kill(cmd.Process)
	}()
	err := cmd.Wait()
	close(ended)
	<-watched
	out.Close()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left a child behind
		return nil
	case errors.As(err, &exit):
		return &ExitError{exit.ExitCode(), signalOf(exit.ProcessState)}
	}
	return err
}
