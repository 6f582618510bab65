//go:build !unix

package command

// DropTerminal does nothing: there is no SIGHUP on this system.
func DropTerminal() {}
