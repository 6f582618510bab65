package board

import (
	"strings"
	"testing"

	"lockstep/theme"
)

// TestDense proves that where edges are too many to be told apart, the selected
// group's are drawn, and no others.
func TestDense(t *testing.T) {
	s := newScreen(t, 200, 50, large(10_000))
	if c := s.Graph.Cols[s.group().Col]; !c.Dense() {
		t.Fatalf("%d edges are not dense", len(c.Nets))
	}
	quiet, heavy := 0, 0
	for k := range s.lay.cols {
		x0, x1 := s.gutter(k)
		for y := s.lay.board.Y; y < s.lay.board.Y+s.lay.board.H; y++ {
			for x := x0; x < x1; x++ {
				switch c := s.canvas.Cells[y*s.w+x]; {
				case strings.ContainsAny(c.Text, "┃┏┓┗┛━"):
					heavy++
				case c.Role == theme.Faint && strings.ContainsAny(c.Text, "│┌┐└┘"):
					quiet++
				}
			}
		}
	}
	if quiet > 0 || heavy == 0 {
		t.Errorf("%d cells of quiet edges, %d of the selected group's", quiet, heavy)
	}
}
