package command

import "syscall"

// EndWithParent has a program get SIGTERM when the thread that starts it ends.
func EndWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
