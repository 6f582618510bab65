//go:build !linux

package command

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
