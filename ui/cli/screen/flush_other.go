//go:build !linux

package screen

// discardInput does nothing: it is implemented only for Linux.
func discardInput() {}
