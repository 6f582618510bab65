//go:build !linux

package command

import "syscall"

// EndWithParent does nothing here: this system cannot do it.
func EndWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
