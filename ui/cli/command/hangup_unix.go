//go:build unix

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminals are those of the standard streams that were a terminal when the
// program began: one that has hung up no longer says so.
var terminals = func() (out []int) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if IsTerminal(f) {
			out = append(out, int(f.Fd()))
		}
	}
	return out
}()

// DropTerminal puts nothing in the place of a terminal that has gone: its device
// may soon be somebody else's.
func DropTerminal() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // every write fails, which is as good
	}
	defer null.Close()
	for _, fd := range terminals {
		_ = unix.Dup2(int(null.Fd()), fd) // the same
	}
}
