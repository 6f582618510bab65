//go:build unix

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminals are the standard streams that were terminals when the program started. A closed
// terminal is no longer recognised as one.
var terminals = func() (out []int) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if IsTerminal(f) {
			out = append(out, int(f.Fd()))
		}
	}
	return out
}()

// DropTerminal replaces a closed terminal with /dev/null, because another session may reuse its
// device.
func DropTerminal() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // every write to the closed terminal fails
	}
	defer null.Close()
	for _, fd := range terminals {
		_ = unix.Dup2(int(null.Fd()), fd) // on an error, writes to the closed terminal fail
	}
}
