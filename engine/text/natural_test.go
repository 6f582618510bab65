package text

import (
	"slices"
	"strings"
	"testing"
)

// TestCompareNatural: numbers in names are compared by their value.
func TestCompareNatural(t *testing.T) {
	const want = "a a-2 a-02x a-10 a-10-1 a-10-9 a10 ab b"
	got := strings.Fields(want)
	slices.Reverse(got)
	slices.SortFunc(got, CompareNatural)
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
	if CompareNatural("a-01", "a-1") == 0 {
		t.Error("two names are the same")
	}
}
