package cli

import (
	"os"
	"syscall"
)

// peak is how many MiB of memory a process had at most.
func peak(ended *os.ProcessState) int64 {
	return ended.SysUsage().(*syscall.Rusage).Maxrss >> 10 // KiB, on Linux alone
}
