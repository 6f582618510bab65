//go:build race

package board

// racing tells that the race detector is on.
const racing = true
