package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropTyped forgets what was typed before there was a screen to see it act on.
func dropTyped() {
	_ = unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH) // no terminal, nothing typed
}
