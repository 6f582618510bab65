//go:build unix

package stack

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// isRunning reports whether a process has not ended; one that nobody has collected has.
func isRunning(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ")
}
