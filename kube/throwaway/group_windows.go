package throwaway

import "syscall"

// ownProcessGroup starts the sandbox in a new process group, so that Ctrl-C in the console does not end it:
// lockstep may still need the cluster to finish.
func ownProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
