package graph

import (
	"slices"
	"testing"
)

// TestDisentangle: edges are swapped if that reduces crossings, else left alone.
func TestDisentangle(t *testing.T) {
	col := func(i int, rows ...int) []*Node {
		var out []*Node
		for _, row := range rows {
			out = append(out, &Node{Col: i, Row: row, Lane: -1})
		}
		return out
	}
	left, right := col(0, 0, 1), col(1, 0, 1, 2, 3)
	total := func(sources []*Node) int {
		return newStretch(sources[0], 0).crossings(newStretch(sources[1], 0))
	}

	left[0].Outs, left[1].Outs = right[2:3], right[3:4] // both lead down
	sources := slices.Clone(left)
	before := total(sources)
	disentangle(sources, 0)
	if before != 2 || total(sources) != 0 || sources[0] != left[1] {
		t.Errorf("down: %d crossings before, %d after", before, total(sources))
	}
	left, right = col(0, 2, 3), col(1, 0, 1)
	left[0].Outs, left[1].Outs = right[:1], right[1:] // both lead up
	sources = slices.Clone(left)
	disentangle(sources, 0)
	if total(sources) != 0 || sources[0] != left[0] {
		t.Errorf("up: %d crossings", total(sources))
	}
	left[0].Outs, left[1].Outs = right, right // both lead to the same: they join
	if n := total(left); n != 0 {
		t.Errorf("edges that join cross %d times", n)
	}
}
