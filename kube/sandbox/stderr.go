package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// stderr is the original stderr of the process, for messages of the sandbox and for COMMAND.
var stderr = os.Stderr

// redirectStderr redirects file descriptor 2 to a file: some libraries write to it, which would disturb
// COMMAND's output. Crash traces still go to the original stderr.
func redirectStderr(file string) error {
	fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("stderr: %w", err)
	}
	stderr = os.NewFile(uintptr(fd), "stderr")
	if err := debug.SetCrashOutput(stderr, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("stderr: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Dup2(int(f.Fd()), 2); err != nil {
		return fmt.Errorf("stderr: %w", err)
	}
	return nil
}
