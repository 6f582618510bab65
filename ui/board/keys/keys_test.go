package keys

import "testing"

// TestFit: hints that do not fit are skipped, but pinned ones stay.
func TestFit(t *testing.T) {
	hints := []Hint{{Key: "A", Word: "re-check"}, {Key: "e", Word: "edit values"}, {Key: "R", Word: "retry"}, {Key: "a", Word: "abort", Pinned: true}}
	for room, want := range map[int]string{0: "", 7: "a", 19: "Aa", 20: "Aa", 28: "ARa", 50: "AeRa"} {
		got := ""
		for _, h := range Fit(hints, room, 2) {
			got += h.Key
		}
		if got != want {
			t.Errorf("%d cells hold %q, want %q", room, got, want)
		}
	}
}
