package canvas

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWrapLines breaks lines of random pieces: none is too wide, and no text is lost.
func TestWrapLines(t *testing.T) {
	words := []string{"a", "done", "in 52 s", ": ", "1 created, 7 changed", "Deployment/shop-api", "日本語", "condition FailureTarget is True", " ", "—"}
	rnd := rand.New(rand.NewPCG(1, 2))
	squeeze := strings.NewReplacer(" ", "", ":", "")
	for range 20000 {
		var l Line
		all := ""
		for range 1 + rnd.IntN(4) {
			var text strings.Builder
			for range rnd.IntN(6) {
				text.WriteString(words[rnd.IntN(len(words))] + " ")
			}
			l = append(l, Piece{Text: text.String()})
			all += text.String()
		}
		w := 10 + rnd.IntN(60)
		got := ""
		for _, line := range WrapLines([]Line{l}, w) {
			wide := 0
			for _, p := range line {
				wide += Width(p.Text)
				got += p.Text
			}
			if wide > w {
				t.Fatalf("%q in %d: %q is %d wide", all, w, line, wide)
			}
		}
		if squeeze.Replace(got) != squeeze.Replace(all) {
			t.Fatalf("%q in %d: %q", all, w, got)
		}
	}
	head := Line{{Text: "✓ done"}, {Text: " in 12m52.0s (10m33s paused)"}, {Text: ": 1 created, 7 changed, 18 unchanged, 1 deleted"}}
	var lines []string
	for _, l := range WrapLines([]Line{head}, 50) {
		text := ""
		for _, p := range l {
			text += p.Text
		}
		lines = append(lines, text)
	}
	if got, want := strings.Join(lines, "\n"), "✓ done in 12m52.0s (10m33s paused):\n    1 created, 7 changed, 18 unchanged, 1 deleted"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
