package cli

import (
	"testing"
)

// TestGCPercent: small heaps grow to smallHeap, larger ones double, and very large ones grow by half.
func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 8 << 20: 300, 16 << 20: 100, 24 << 20: 100, 64 << 20: 100, 96 << 20: 66, 128 << 20: 50, 1 << 30: 50} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MB live: %d %%, want %d", live>>20, got, want)
		}
	}
}
