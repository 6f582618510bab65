//go:build unix

package throwaway

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the sandbox: who started it may need the cluster a little longer.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
