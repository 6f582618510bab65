//go:build !linux

package screen

// DiscardInput would forget what was typed before there was a screen; elsewhere
// than on Linux it is not known how.
func DiscardInput() {}
