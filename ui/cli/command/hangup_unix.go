//go:build unix

package command

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminals are the standard streams that were terminals when the program started. A closed
// terminal is no longer recognised as one.
var terminals = func() (out []int) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if IsTerminal(f) {
			out = append(out, int(f.Fd()))
		}
	}
	return out
}()

// DropTerminal replaces a closed terminal with /dev/null, because another session may reuse its
// device. Home, if it has started this process, uses the terminal again.
func DropTerminal() {
	if toHome != nil {
		defer toHome.Close()
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // every write to the closed terminal fails
	}
	defer null.Close()
	for _, fd := range terminals {
		_ = unix.Dup2(int(null.Fd()), fd) // on an error, writes to the closed terminal fail
	}
}

// CanReturnTerminal reports whether ReturnTerminal works on this system.
const CanReturnTerminal = true

// maxStops limits how often ReturnTerminal stops the process, which its helper continues every stopSeconds. After stopTakes, a stop
// has taken effect and is over.
const (
	maxStops    = 10
	stopSeconds = "0.3"
	stopTakes   = 50 * time.Millisecond
)

// ReturnTerminal replaces the terminal with /dev/null and gives it back to the shell, while the process continues in the
// background. A shell takes its terminal back when the process stops, so it stops until the shell has noticed. A helper
// continues it, again and again, so that it cannot stay stopped. Without a shell that controls jobs, nothing waits for the terminal.
func ReturnTerminal() {
	tty, err := os.Open("/dev/tty")
	DropTerminal()
	if err != nil {
		return
	}
	defer tty.Close()
	foreground := func() bool {
		group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
		return err == nil && group == unix.Getpgrp()
	}
	if parents, err := unix.Getpgid(os.Getppid()); err != nil || parents == unix.Getpgrp() {
		return
	}
	if session, err := unix.Getsid(0); err != nil || session == os.Getpid() {
		return
	}
	helper := exec.Command("/bin/sh", "-c", fmt.Sprintf("while sleep %s; do kill -CONT %d || exit; done", stopSeconds, os.Getpid()))
	helper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if helper.Start() != nil {
		return
	}
	for i := 0; i < maxStops && foreground(); i++ {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // cannot fail: it is this process
		time.Sleep(stopTakes)
	}
	_ = unix.Kill(os.Getpid(), unix.SIGCONT) // discards a stop that has not taken effect, before the helper ends
	_ = helper.Process.Kill()
	_ = helper.Wait()
}
