package screen

import (
	"os"

	"golang.org/x/sys/unix"
)

// DiscardInput drops what was typed before the screen opened.
func DiscardInput() {
	_ = unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH) // fails without a terminal
}
