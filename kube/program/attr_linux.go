package program

import "syscall"

// ownGroup starts a program in a process group of its own: Ctrl-C in the terminal does not end it, and its children end with it.
// If lockstep is killed, so is the program. The kernel takes the end of the thread that started the program for that of lockstep,
// so the thread must stay locked until the program has ended.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
