package screen

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardInput discards keys that were pressed before the screen opened.
func discardInput() {
	_ = unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH) // fails without a terminal
}
