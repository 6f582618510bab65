package cli

import (
	"os"
	"syscall"
)

// peak returns the peak memory of a process in MiB.
func peak(ended *os.ProcessState) int64 {
	return ended.SysUsage().(*syscall.Rusage).Maxrss >> 10 // in KiB on Linux
}
