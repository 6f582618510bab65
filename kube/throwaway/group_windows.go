package throwaway

import "syscall"

// ownGroup keeps the console's Ctrl-C from the sandbox: lockstep may still need the cluster to end what it is doing.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
