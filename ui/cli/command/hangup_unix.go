//go:build unix

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminals are the standard streams that were terminals at the start; a closed
// terminal can no longer be recognised.
var terminals = func() (out []int) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if IsTerminal(f) {
			out = append(out, int(f.Fd()))
		}
	}
	return out
}()

// DropTerminal replaces a closed terminal by /dev/null because its device may soon belong
// to somebody else.
func DropTerminal() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // then every write fails
	}
	defer null.Close()
	for _, fd := range terminals {
		_ = unix.Dup2(int(null.Fd()), fd) // a write to the closed terminal fails too
	}
}
