//go:build unix

package throwaway

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the sandbox: lockstep may still need the cluster
// to end what it is doing.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
