package command

import "syscall"

// EndWithParent makes a program get a signal when the thread that starts it ends.
func EndWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal}
}
