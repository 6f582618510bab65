package board

import (
	"lockstep/ui/board/canvas"
	"slices"
	"testing"

	"lockstep/engine/plan"
)

// TestAllInView proves that all columns of a deep chart are in view on a large
// screen, with the names of groups to be told apart, and that nothing moves as
// the run goes on.
func TestAllInView(t *testing.T) {
	s := newScreen(t, 200, 50, nil)
	var was []colPlace
	for _, e := range recorded(t, "sandbox-install", 0) {
		s.feed(e)
		if len(s.graph.nodes) == 0 {
			continue
		}
		if n := len(s.lay.cols); n != len(s.graph.cols) || s.lay.cols[n-1].cut {
			t.Fatalf("%d of %d columns are in view:\n%s", n, len(s.graph.cols), s.text())
		}
		if was != nil && !slices.Equal(was, s.lay.cols) {
			t.Fatalf("columns move from %v to %v", was, s.lay.cols)
		}
		was = s.lay.cols
	}
	names := map[string]string{}
	for _, c := range s.lay.cards {
		name := s.graph.nameIn(c.n, c.r.W-4, "…")
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
	for range len(s.graph.cols) - 1 {
		was, from := s.lay.cols, s.group().col
		s.press("right")
		to := s.group().col
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
	if n := len(s.lay.cols); n >= len(s.graph.cols) || s.lay.tight {
		t.Errorf("%d columns, tight %t", n, s.lay.tight)
	}
}

// TestNames cuts names to widths.
func TestNames(t *testing.T) {
	object := func(kind, name string) plan.Object { return plan.Object{Kind: kind, Name: name} }
	for _, c := range []struct {
		o    plan.Object
		w    int
		want string
	}{
		{object("ConfigMap", "shop-db-migrations"), 28, "ConfigMap/shop-db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 27, "cm/shop-db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 18, "cm/…db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 10, "cm/…ations"},
		{object("Deployment", "shop-api"), 11, "deploy/…api"},
		{object("Deployment", "shop-api"), 10, "deplo…-api"},
		{object("Gadget", "a-rather-long-name"), 18, "Gadget/a-rat…-name"},
		{object("ValidatingWebhookConfiguration", "x"), 12, "Valida…ion/x"},
		{object("Service", "日本語日本語"), 12, "svc/日本…語"},
	} {
		p := graph{release: "shop"}
		if got := p.objectIn(c.o, c.w, "…"); got != c.want || canvas.Width(got) > c.w {
			t.Errorf("%s in %d is %q, want %q", c.o, c.w, got, c.want)
		}
	}
	for _, c := range []struct {
		name string
		w    int
		want string
	}{
		{"db:schema", 9, "db:schema"},
		{"worker:(unseq.)", 15, "worker:(unseq.)"},
		{"worker:(unseq.)", 12, "worker:…"},
		{"warehouse:database", 12, "wareho…abase"},
		{"queue:broker", 6, "queue…"},
		{"queue:broker", 1, "…"},
		{"queue:broker", 0, ""},
	} {
		if got := groupIn(c.name, c.w, "…"); got != c.want {
			t.Errorf("%s in %d is %q, want %q", c.name, c.w, got, c.want)
		}
	}
	for w := range 40 { // nothing is ever wider than it may be
		for _, s := range append(nasty, "Deployment/shop-api") {
			p := graph{release: "shop"}
			if got := p.objectIn(object("Deployment", canvas.Clean(s)), w, "…"); canvas.Width(got) > w {
				t.Errorf("%q in %d is %q", s, w, got)
			}
		}
	}
}
