//go:build linux || darwin

package bench

import (
	"os"
	"syscall"
)

// maxrss returns the peak memory of a process in MB.
func maxrss(ended *os.ProcessState) float64 {
	return float64(ended.SysUsage().(*syscall.Rusage).Maxrss) * maxrssUnit / 1e6
}
