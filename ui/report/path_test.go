package report

import (
	"fmt"
	"slices"
	"testing"
)

// TestLongPath expects the ends of a long path and the number of groups between them.
func TestLongPath(t *testing.T) {
	var lines []string
	for n := range 30 {
		lines = append(lines, fmt.Sprintf("  c:g%d", n))
	}
	got := fold(lines, "  … %s")
	if want := slices.Concat(lines[:8], []string{"  … 14 groups"}, lines[22:]); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := fold(lines[:16], "  … %s"); !slices.Equal(got, lines[:16]) {
		t.Errorf("a path of 16: %q", got)
	}
}
