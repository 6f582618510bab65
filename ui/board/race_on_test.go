//go:build race

package board

// racing means that the race detector is on.
const racing = true
