//go:build unix

package sandbox

import (
	"fmt"
	"os"
	"syscall"
)

// replaceProcess replaces this process with another program.
func replaceProcess(path string, argv []string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, os.Environ()))
}
