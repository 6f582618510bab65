package board

import (
	"slices"
	"testing"
)

// TestAllInView proves that all columns of a deep chart are in view on a large
// screen, with the names of groups to be told apart, and that nothing moves as
// the run goes on.
func TestAllInView(t *testing.T) {
	s := newScreen(t, 200, 50, nil)
	var was []colPlace
	for _, e := range recorded(t, "sandbox-install", 0) {
		s.feed(e)
		if len(s.Graph.Nodes) == 0 {
			continue
		}
		if n := len(s.lay.cols); n != len(s.Graph.Cols) || s.lay.cols[n-1].cut {
			t.Fatalf("%d of %d columns are in view:\n%s", n, len(s.Graph.Cols), s.text())
		}
		if was != nil && !slices.Equal(was, s.lay.cols) {
			t.Fatalf("columns move from %v to %v", was, s.lay.cols)
		}
		was = s.lay.cols
	}
	names := map[string]string{}
	for _, c := range s.lay.cards {
		name := s.Graph.NameIn(c.n, c.r.W-4, "…")
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s are both called %s", other, c.n.ID, name)
		}
		names[name] = c.n.ID
	}
}

// TestFocus moves over a board whose selected column is wider than others, and
// proves that only what is between the old and the new one moves, and that
// nothing moves away from under the mouse.
func TestFocus(t *testing.T) {
	s := newScreen(t, 215, 50, recorded(t, "sandbox-install", 0))
	s.press("g")
	for range len(s.Graph.Cols) - 1 {
		was, from := s.lay.cols, s.group().Col
		s.press("right")
		to := s.group().Col
		if from == to || s.lay.cols[to].w <= was[to].w {
			t.Fatalf("column %d is not wider than it was: %v, %v", to, was, s.lay.cols)
		}
		for k, p := range s.lay.cols {
			if k != from && k != to && p != was[k] {
				t.Errorf("from %d to %d column %d moves from %v to %v", from, to, k, was[k], p)
			}
		}
		if now, old := s.lay.cols[to], was[to]; now.x > old.x || now.x+now.w < old.x+old.w {
			t.Errorf("column %d moves from %v to %v", to, old, now)
		}
	}
}

// TestScrolls keeps scrolling where not all columns can be in view.
func TestScrolls(t *testing.T) {
	s := newScreen(t, 100, 30, recorded(t, "sandbox-install", 0))
	if n := len(s.lay.cols); n >= len(s.Graph.Cols) || s.lay.tight {
		t.Errorf("%d columns, tight %t", n, s.lay.tight)
	}
}
