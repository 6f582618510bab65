package command

import "syscall"

// EndWithParent returns attributes that make the kernel send a signal to a process when the thread that started
// it ends.
func EndWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal}
}
