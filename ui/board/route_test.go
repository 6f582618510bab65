package board

import (
	"strings"
	"testing"

	"lockstep/theme"
)

// TestDense: if there are too many edges to tell apart, only the selected group's are drawn.
func TestDense(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newScreen(t, 200, 50, large(10_000))
		s.press("z", "z") // cards
		if c := s.Graph.Cols[s.Group().Col]; !c.Dense() {
			t.Fatalf("%d edges do not count as dense", len(c.Sources))
		}
		quiet, heavy := 0, 0
		for k := range s.board.Columns {
			x0, x1 := s.board.Gutter(k)
			for y := s.board.Area.Y; y < s.board.Area.Y+s.board.Area.H; y++ {
				for x := x0; x < x1; x++ {
					switch c := s.Canvas.Cells[y*s.W+x]; {
					case strings.ContainsAny(c.Text, "┃┏┓┗┛━"):
						heavy++
					case c.Role == theme.Faint && strings.ContainsAny(c.Text, "│┌┐└┘"):
						quiet++
					}
				}
			}
		}
		if quiet > 0 || heavy == 0 {
			t.Errorf("%d cells of light edges, %d of the selected group's", quiet, heavy)
		}
	})
}
