package cli

import (
	"testing"
)

func TestGCPercent(t *testing.T) {
	for kept, want := range map[uint64]int{0: 800, 1 << 20: 800, 8 << 20: 300, 16 << 20: 100, 24 << 20: 100, 64 << 20: 100, 96 << 20: 66, 128 << 20: 50, 1 << 30: 50} {
		if got := gcPercent(kept); got != want {
			t.Errorf("%d MB kept: %d %%, want %d", kept>>20, got, want)
		}
	}
}
