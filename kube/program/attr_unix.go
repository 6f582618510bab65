//go:build unix && !linux

package program

import "syscall"

// ownGroup starts a program in a process group of its own: Ctrl-C in the terminal does not end it, and its children end with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
