package container

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lockstep/kube/sandbox/command"
)

// drainTime is how long to read output after a process has exited. A child in another process group may keep the
// pipe open.
const drainTime = time.Second

// Process is one attempt of a container.
type Process struct {
	Log Log

	attempt  int
	cmd      *exec.Cmd
	done     chan struct{}
	exit     Exit      // set before done is closed
	deadline time.Time // when it gets SIGKILL; guarded by Runtime.mu
}

// Exit is how a process ended.
type Exit struct {
	Code            int
	Reason, Message string
	At              time.Time
}

// Exit returns how the process ended, or nil while it runs.
func (p *Process) Exit() *Exit {
	select {
	case <-p.done:
		return &p.exit
	default:
		return nil
	}
}

// launch starts cmd in a process group. Both output streams share a pipe, which keeps their lines in order.
func (r *Runtime) launch(cmd *exec.Cmd, attempt int, policy corev1.TerminationMessagePolicy) *Process {
	p := &Process{attempt: attempt, cmd: cmd, done: make(chan struct{})}
	out, in, err := os.Pipe()
	if err == nil {
		cmd.Stdout, cmd.Stderr = in, in
		cmd.SysProcAttr = command.EndWithParent(syscall.SIGKILL)
		cmd.SysProcAttr.Setpgid = true
		started := make(chan error)
		r.launches <- func() { started <- cmd.Start() }
		err = <-started
		_ = in.Close()
	}
	if err != nil {
		_ = out.Close()
		p.end(Exit{Code: 128, Reason: "StartError", Message: "failed to start container: " + err.Error()})
		return p
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.copy(out)
	}()
	go func() {
		_ = cmd.Wait() // ExitCode reads the result from ProcessState
		p.kill()       // its children
		select {
		case <-copied:
		case <-time.After(drainTime):
		}
		_ = out.Close()
		<-copied
		e := Exit{Code: command.ExitCode(cmd.ProcessState), Reason: "Completed"}
		if e.Code != 0 {
			e.Reason = "Error"
			if policy == corev1.TerminationMessageFallbackToLogsOnError {
				e.Message = p.Log.tail()
			}
		}
		p.end(e)
	}()
	return p
}

func (p *Process) end(e Exit) {
	p.exit = e
	p.exit.At = time.Now()
	close(p.done)
	p.Log.end()
}

// copy logs the output line by line. The last line may lack its newline.
func (p *Process) copy(out *os.File) {
	in := bufio.NewReader(out)
	for {
		text, err := in.ReadString('\n')
		if text != "" {
			p.Log.add(text)
		}
		if err != nil {
			return
		}
	}
}

// terminate sends SIGTERM only to the container's main process, as a container runtime does.
func (p *Process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// kill kills the process and its children.
func (p *Process) kill() {
	if p.Exit() == nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}
