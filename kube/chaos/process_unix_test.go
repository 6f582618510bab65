//go:build unix

package chaos

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a process that has not been started its own process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a process and its children.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
