//go:build unix

package throwaway

import "syscall"

// ownGroup puts the sandbox into its own process group, so that Ctrl-C in the terminal does not end it:
// lockstep may still need the cluster to finish.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
