package board

import (
	"slices"
	"strings"
	"testing"

	"lockstep/theme"
)

// TestDisentangle proves that edges are swapped where they cross less then, and
// left alone otherwise.
func TestDisentangle(t *testing.T) {
	col := func(i int, rows ...int) []*node {
		var out []*node
		for _, row := range rows {
			out = append(out, &node{col: i, row: row, lane: -1})
		}
		return out
	}
	left, right := col(0, 0, 1), col(1, 0, 1, 2, 3)
	total := func(nets []*node) int { return stretchOf(nets[0], 0).crossings(stretchOf(nets[1], 0)) }

	left[0].outs, left[1].outs = right[2:3], right[3:4] // both lead down
	nets := slices.Clone(left)
	before := total(nets)
	disentangle(nets, 0)
	if before != 2 || total(nets) != 0 || nets[0] != left[1] {
		t.Errorf("down: %d crossings before, %d after", before, total(nets))
	}
	left, right = col(0, 2, 3), col(1, 0, 1)
	left[0].outs, left[1].outs = right[:1], right[1:] // both lead up
	nets = slices.Clone(left)
	disentangle(nets, 0)
	if total(nets) != 0 || nets[0] != left[0] {
		t.Errorf("up: %d crossings", total(nets))
	}
	left[0].outs, left[1].outs = right, right // both lead to the same: they join
	if n := total(left); n != 0 {
		t.Errorf("edges that join cross %d times", n)
	}
}

// TestDense proves that where edges are too many to be told apart, the selected
// group's are drawn, and no others.
func TestDense(t *testing.T) {
	s := newScreen(t, 200, 50, large())
	if c := s.graph.cols[s.group().col]; !c.dense() {
		t.Fatalf("%d edges are not dense", len(c.nets))
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
