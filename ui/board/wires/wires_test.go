package wires

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstep/theme"
)

const horizontal, vertical = theme.ArmLeft | theme.ArmRight, theme.ArmUp | theme.ArmDown

// randomPlan is a board of random bands and edges, and its size.
func randomPlan(rnd *rand.Rand) (p Plan, w, h int) {
	const card = 6
	y := 0
	for range 1 + rnd.IntN(3) {
		b := Band{Lane: y, Lanes: rnd.IntN(4)}
		y += b.Lanes + 1
		x, tallest := rnd.IntN(6), 0
		b.Gutters = []Gutter{{0, x}}
		for c := range 1 + rnd.IntN(4) {
			row, gutter := y, rnd.IntN(8)
			for range 1 + rnd.IntN(5) {
				p.Ends = append(p.Ends, End{Band: len(p.Bands), Column: c, Row: row, In: x, Out: x + 1 + card})
				row += 1 + rnd.IntN(3)
			}
			tallest = max(tallest, row)
			b.Gutters = append(b.Gutters, Gutter{x + 1 + card, x + 1 + card + gutter})
			x += 1 + card + gutter
		}
		w, y = max(w, x+1), tallest
		p.Bands = append(p.Bands, b)
	}
	for i, from := range p.Ends {
		for j, to := range p.Ends {
			if (to.Band > from.Band || to.Band == from.Band && to.Column > from.Column) && rnd.IntN(2+4*len(p.Ends)/2) == 0 {
				p.Edges = append(p.Edges, Edge{From: i, To: j, Bold: rnd.IntN(9) == 0})
			}
		}
	}
	return p, w, y
}

// TestLinesAreNotAmbiguous: in random graphs, lines of different nets share no cell, except where they cross or where
// they join on their way to the same target; all lines are where lines may be.
func TestLinesAreNotAmbiguous(t *testing.T) {
	drawn, missing := 0, 0
	for seed := range uint64(400) {
		p, w, h := randomPlan(rand.New(rand.NewPCG(seed, 1)))
		r := p.Route(w, h)
		nets := p.nets()
		owner := func(i int) int {
			return slices.IndexFunc(nets, func(n *net) bool { return slices.Contains(n.from, p.Edges[i].From) })
		}
		type part struct {
			net  int
			arms byte
			to   []End
		}
		cells := map[int][]part{}
		for i, e := range p.Edges {
			if r.Missing[i] {
				missing++
				continue
			}
			drawn++
			one := p.route(w, h, func(k int) bool { return k == i })
			for at, c := range one.Cells {
				if c.Arms == 0 {
					continue
				}
				k := slices.IndexFunc(cells[at], func(o part) bool { return o.net == owner(i) })
				if k < 0 {
					k = len(cells[at])
					cells[at] = append(cells[at], part{net: owner(i)})
				}
				cells[at][k].arms |= c.Arms
				cells[at][k].to = append(cells[at][k].to, p.Ends[e.To])
			}
		}
		for at, parts := range cells {
			x, y := at%w, at/w
			for i, a := range parts {
				for _, b := range parts[:i] {
					joins := slices.ContainsFunc(a.to, func(e End) bool { return e.Row == y && x <= e.In && slices.Contains(b.to, e) })
					if crosses := a.arms == horizontal && b.arms == vertical || a.arms == vertical && b.arms == horizontal; !crosses && !joins {
						t.Fatalf("seed %d: two lines touch at %d, %d:\n%s", seed, x, y, r.text())
					}
				}
			}
			for _, e := range p.Ends {
				if y == e.Row && x > e.In && x < e.Out {
					t.Fatalf("seed %d: a line runs through a card at %d, %d:\n%s", seed, x, y, r.text())
				}
			}
		}
	}
	if t.Logf("%d edges are drawn, %d are not", drawn, missing); drawn < missing {
		t.Errorf("only %d of %d edges are drawn", drawn, drawn+missing)
	}
}

func (r *Routed) text() string {
	var b strings.Builder
	lines := theme.New(theme.Options{}).Lines
	for y := range r.h {
		for x := range r.w {
			c := r.Cells[y*r.w+x]
			b.WriteString(lines.Mixed[theme.MixedIndex(c.Arms, c.Bold)])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// connect routes edges between rows of two columns in a gutter of some cells.
func connect(from, to []int, edges [][2]int, cells int) *Routed {
	p := Plan{Bands: []Band{{Gutters: []Gutter{{0, 0}, {1, 1 + cells}, {4 + cells, 4 + cells}}}}}
	h := 0
	for _, row := range from {
		p.Ends, h = append(p.Ends, End{Row: row, In: -1, Out: 1}), max(h, row+1)
	}
	for _, row := range to {
		p.Ends, h = append(p.Ends, End{Column: 1, Row: row, In: 1 + cells, Out: 4 + cells}), max(h, row+1)
	}
	for _, e := range edges {
		p.Edges = append(p.Edges, Edge{From: e[0], To: len(from) + e[1]})
	}
	return p.Route(2+cells, h)
}

// TestShapes compares small pictures.
func TestShapes(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to []int
		edges    [][2]int
		cells    int
		want     string
	}{
		"straight":             {[]int{0}, []int{0}, [][2]int{{0, 0}}, 1, " ─╴"},
		"one to two":           {[]int{0}, []int{0, 2}, [][2]int{{0, 0}, {0, 1}}, 1, " ┬╴/ │ / └╴"},
		"each to each":         {[]int{0, 2}, []int{0, 2}, [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, 1, " ┬╴/ │ / ┴╴"},
		"crossing":             {[]int{0, 3}, []int{1, 4}, [][2]int{{0, 1}, {1, 0}}, 2, " ┐  / │┌╴/ ││ / ┼┘ / └─╴"},
		"below each other":     {[]int{0, 3}, []int{1, 4}, [][2]int{{0, 0}, {1, 1}}, 1, " ┐ / └╴/   / ┐ / └╴"},
		"no room":              {[]int{0, 3}, []int{1, 4}, [][2]int{{0, 1}, {1, 0}}, 1, " ┐ / │ / │ / │ / └╴"},
		"no order is possible": {[]int{0, 1}, []int{0, 1}, [][2]int{{0, 1}, {1, 0}}, 4, ""},
		"two and one":          {[]int{0, 2}, []int{0, 2}, [][2]int{{0, 0}, {0, 1}, {1, 1}}, 2, " ┬─╴/ │  / ┴─╴"},
	} {
		r := connect(tt.from, tt.to, tt.edges, tt.cells)
		lines := strings.Split(strings.TrimSuffix(r.text(), "\n"), "\n")
		if got := strings.Join(lines, "/"); tt.want != "" && got != tt.want {
			t.Errorf("%s:\n%s", name, r.text())
		}
		if tt.want == "" && !slices.Contains(r.Missing, true) {
			t.Errorf("%s: all edges are drawn:\n%s", name, r.text())
		}
	}
}
