//go:build !linux

package screen

// discardInput does nothing: only Linux is supported.
func discardInput() {}
