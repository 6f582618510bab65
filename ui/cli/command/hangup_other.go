//go:build !unix

package command

// DropTerminal does nothing: there is no SIGHUP on this system.
func DropTerminal() {}

// CanReturnTerminal reports whether ReturnTerminal works on this system.
const CanReturnTerminal = false

// ReturnTerminal does nothing: shells of this system cannot continue a process in the background.
func ReturnTerminal() {}
