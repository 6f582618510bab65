//go:build unix

package cli

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process with another program.
func become(path string, argv []string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, os.Environ()))
}
