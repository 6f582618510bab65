package format

import (
	"fmt"
	"slices"
	"testing"
)

// TestFold expects the ends of a long path and the number of groups between them.
func TestFold(t *testing.T) {
	var lines []string
	for n := range 30 {
		lines = append(lines, fmt.Sprintf("  c:g%d", n))
	}
	got := Fold(lines, "  … %s")
	if want := slices.Concat(lines[:8], []string{"  … 14 groups"}, lines[22:]); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Fold(lines[:16], "  … %s"); !slices.Equal(got, lines[:16]) {
		t.Errorf("a path of 16: %q", got)
	}
}
