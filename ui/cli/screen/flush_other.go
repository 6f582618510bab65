//go:build !linux

package screen

// DiscardInput does nothing: only Linux is supported.
func DiscardInput() {}
