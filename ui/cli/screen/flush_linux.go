package screen

import (
	"os"

	"golang.org/x/sys/unix"
)

// DiscardInput forgets what was typed before there was a screen to see it act on.
func DiscardInput() {
	_ = unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH) // no terminal, nothing typed
}
