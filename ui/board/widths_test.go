package board

import (
	"reflect"
	"slices"
	"testing"

	"lockstep/ui/board/cards"
	"lockstep/ui/board/columns"
	"lockstep/ui/board/graph"
)

// TestColumnsStay: columns do not move with the run or the selection, none is narrower than its names,
// and the names of groups are distinct.
func TestColumnsStay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint"} {
			for _, size := range sizes[1:] {
				s := newScreen(t, size[0], size[1], nil)
				var was columns.Widths
				var stood []cards.Column
				same := func(what string) {
					t.Helper()
					now := s.board.Widths()
					if s.board.ShowsAll {
						if len(stood) == len(s.board.Columns) && !slices.Equal(stood, s.board.Columns) {
							t.Fatalf("%s at %v: after %s columns are %v, were %v", run, size, what, s.board.Columns, stood)
						}
						stood = slices.Clone(s.board.Columns)
						return
					}
					if len(was.Columns) == len(now.Columns) && len(was.Columns) > 0 && !reflect.DeepEqual(now, was) {
						t.Fatalf("%s at %v: after %s columns are %v, were %v", run, size, what, now, was)
					}
					was = now
					for _, p := range s.board.Columns {
						if p.W < graph.TightCard {
							t.Fatalf("%s at %v: column %d is %d wide", run, size, p.Index, p.W)
						}
						if !p.Cut && p.W != cardWidth(now, p.Index) {
							t.Fatalf("%s at %v: column %d is %d wide, want %d", run, size, p.Index, p.W, cardWidth(now, p.Index))
						}
					}
				}
				for _, e := range recorded(t, run, 0) {
					s.feed(e)
					same(string(e.Kind))
				}
				for range s.Graph.Nodes {
					s.press("tab")
					same("tab")
					s.press("down")
					same("down")
				}
				for k, c := range s.Graph.Cols {
					if !slices.ContainsFunc(c.Nodes, s.Shown) { // the other half of a rollback
						continue
					}
					names := map[string]string{}
					for _, n := range s.Graph.Cols[k].Nodes {
						name := s.Graph.NameIn(n, "", cardWidth(s.board.Widths(), k)-4, "…")
						if other, ok := names[name]; ok {
							t.Errorf("%s and %s are both called %s", other, n.ID, name)
						}
						names[name] = n.ID
					}
				}
			}
		}
	})
}

// TestScrolls: the view scrolls if not all columns fit.
func TestScrolls(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-install", 0))
	s.press("z", "z") // all objects
	if n := len(s.board.Columns); n >= len(s.Graph.Cols) || s.board.Tight {
		t.Errorf("%d columns, tight %t", n, s.board.Tight)
	}
}

// cardWidth returns the width of the cards in a column.
func cardWidth(ws columns.Widths, index int) int {
	return ws.Columns[slices.IndexFunc(ws.Columns, func(w columns.Width) bool { return w.Index == index })].Card
}
