package graph

import (
	"slices"
	"testing"
)

// TestDisentangle proves that edges are swapped where they cross less then, and
// left alone otherwise.
func TestDisentangle(t *testing.T) {
	col := func(i int, rows ...int) []*Node {
		var out []*Node
		for _, row := range rows {
			out = append(out, &Node{Col: i, Row: row, Lane: -1})
		}
		return out
	}
	left, right := col(0, 0, 1), col(1, 0, 1, 2, 3)
	total := func(nets []*Node) int {
		return newStretch(nets[0], 0).crossings(newStretch(nets[1], 0))
	}

	left[0].Outs, left[1].Outs = right[2:3], right[3:4] // both lead down
	nets := slices.Clone(left)
	before := total(nets)
	disentangle(nets, 0)
	if before != 2 || total(nets) != 0 || nets[0] != left[1] {
		t.Errorf("down: %d crossings before, %d after", before, total(nets))
	}
	left, right = col(0, 2, 3), col(1, 0, 1)
	left[0].Outs, left[1].Outs = right[:1], right[1:] // both lead up
	nets = slices.Clone(left)
	disentangle(nets, 0)
	if total(nets) != 0 || nets[0] != left[0] {
		t.Errorf("up: %d crossings", total(nets))
	}
	left[0].Outs, left[1].Outs = right, right // both lead to the same: they join
	if n := total(left); n != 0 {
		t.Errorf("edges that join cross %d times", n)
	}
}
