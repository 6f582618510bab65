package report

import (
	"slices"
	"testing"
)

// TestTable expects that colours and wide characters do not shift columns.
func TestTable(t *testing.T) {
	got := table([][]string{{"\x1b[32mready\x1b[m", "a"}, {"日本語", "b"}, {"x"}})
	want := []string{"  \x1b[32mready\x1b[m   a", "  日本語  b", "  x"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
