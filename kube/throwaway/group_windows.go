package throwaway

import "syscall"

// ownGroup keeps the console's Ctrl-C from the sandbox: who started it may need the cluster a little longer.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
