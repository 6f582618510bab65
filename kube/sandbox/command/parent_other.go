//go:build !linux

package command

import "syscall"

// EndWithParent does nothing on this system.
func EndWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
