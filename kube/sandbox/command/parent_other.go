//go:build !linux

package command

import "syscall"

// EndWithParent returns attributes without effect: only Linux has such a signal.
func EndWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
