package canvas

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lockstep/theme"
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
}

// TestWrapLinesAtSigns: a sign at the start of a piece stays with the word before it.
func TestWrapLinesAtSigns(t *testing.T) {
	for _, c := range []struct {
		line Line
		want string
	}{
		{Line{{Text: "✓ done"}, {Text: " in 12m52.0s (10m33s paused)"}, {Text: ": 1 created, 7 changed, 18 unchanged, 1 deleted"}},
			"✓ done in 12m52.0s (10m33s paused):\n    1 created, 7 changed, 18 unchanged, 1 deleted"},
		{Line{{Text: "waits for Certificate.example.com/infra/ca 2 s"}, {Text: ", times out in 11 s"}, {Text: ": not in the cluster"}},
			"waits for Certificate.example.com/infra/ca 2 s,\n    times out in 11 s:\n    not in the cluster"},
	} {
		var lines []string
		for _, l := range WrapLines([]Line{c.line}, 50) {
			text := ""
			for _, p := range l {
				text += p.Text
			}
			lines = append(lines, text)
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}

// TestBoxWithoutRoom: a box has an empty row above and below its lines only if the screen holds them all, and leaves the keys
// visible.
func TestBoxWithoutRoom(t *testing.T) {
	for lines, want := range map[int]Rect{5: {Y: 7, H: 5}, 15: {Y: 2, H: 15}, 16: {Y: 2, H: 16}, 17: {Y: 1, H: 17}} {
		c := New(40, 20, NewPens(theme.New(theme.Options{})))
		if got := c.Box("title", 30, make([]Line, lines), theme.Text); got.Y != want.Y || got.H != want.H {
			t.Errorf("%d lines are in %+v, want %+v", lines, got, want)
		}
	}
}
