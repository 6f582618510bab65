package board

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// randomGraph is a half-finished run of a random graph.
func randomGraph(rnd *rand.Rand) []event.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	events := []event.Event{{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r", Namespace: "n"}, Time: at}, {}}
	layers := 1 + rnd.IntN(9)
	from := 0 // the first group of the layer before
	for layer := range layers {
		before := len(p.Groups)
		for i := range 1 + rnd.IntN(6) {
			g := &plan.Group{ID: fmt.Sprintf("r:g%d-%d", layer, i), Layer: layer, After: []string{}}
			if layer > 0 {
				g.After = append(g.After, p.Groups[from+rnd.IntN(before-from)].ID)
			}
			for _, up := range p.Groups[:before] {
				if rnd.IntN(before+4) == 0 && !slices.Contains(g.After, up.ID) {
					g.After = append(g.After, up.ID)
				}
			}
			for k := range 1 + rnd.IntN(4) {
				g.Objects = append(g.Objects, plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: fmt.Sprintf("service-%d-%d-%d", layer, i, k)})
			}
			p.Groups = append(p.Groups, g)
			events = append(events, groupEvents(p.Name, g, layer, layers/2, at)...)
		}
		from = before
	}
	events[1] = event.Event{Kind: event.KindPlan, Phases: []event.Phase{p}, Time: at}
	for i := range events {
		events[i].Seq = uint64(i + 1)
	}
	return events
}

// armsOf are the arms of the characters of lines.
var armsOf = func() map[string]byte {
	out := map[string]byte{}
	lines := theme.New(theme.Options{}).Lines
	for arms := range byte(16) {
		for bold := range arms + 1 {
			if bold&^arms == 0 && arms > 0 {
				out[lines.Mixed[theme.MixedIndex(arms, bold)]] = arms
			}
		}
	}
	return out
}()

// loose returns what is wrong with the edges on the screen, "" if nothing is: each line must lead from a card to an
// arrow head, and each arrow head must end a line and point at a card.
func (s *rig) loose() string {
	area := s.board.Area
	var rects []canvas.Rect
	for _, c := range s.board.Cards {
		rects = append(rects, c.Rect)
	}
	for _, f := range s.board.Folds {
		rects = append(rects, f.Rect)
	}
	in := func(x, y int) *canvas.Rect {
		i := slices.IndexFunc(rects, func(r canvas.Rect) bool { return r.Has(x, y) })
		if i < 0 {
			return nil
		}
		return &rects[i]
	}
	text := func(x, y int) string {
		if x < 0 || x >= s.W || in(x, y) != nil {
			return ""
		}
		return s.Canvas.Cells[y*s.W+x].Text
	}
	arrow := theme.New(theme.Options{}).Lines.Arrow
	for y := area.Y; y < area.Y+area.H; y++ {
		for x := range s.W - 1 { // the last column is the scroll bar's
			cell := s.Canvas.Cells[y*s.W+x].Text
			arms := armsOf[cell]
			if arms == 0 && cell != arrow || in(x, y) != nil {
				continue // most cells
			}
			if cell == arrow {
				if r := in(x+1, y); r == nil || r.X != x+1 || armsOf[text(x-1, y)]&theme.ArmRight == 0 {
					return fmt.Sprintf("%s at %d, %d has no line or no card", cell, x, y)
				}
			}
			for _, side := range []struct {
				arm, back byte
				x, y      int
			}{{theme.ArmUp, theme.ArmDown, x, y - 1}, {theme.ArmDown, theme.ArmUp, x, y + 1}, {theme.ArmLeft, theme.ArmRight, x - 1, y}, {theme.ArmRight, theme.ArmLeft, x + 1, y}} {
				outside := side.y < area.Y || side.y >= area.Y+area.H
				switch r := in(side.x, side.y); {
				case arms&side.arm == 0:
				case outside && s.board.Rows > area.H: // the board scrolls
				case side.arm == theme.ArmLeft && r != nil && r.X+r.W == x: // it starts at a card
				case side.arm == theme.ArmRight && text(side.x, side.y) == arrow:
				case armsOf[text(side.x, side.y)]&side.back == 0:
					return fmt.Sprintf("%s at %d, %d is not connected", cell, x, y)
				}
			}
		}
	}
	return ""
}

// edgeCount matches how a heading counts edges that are not drawn.
var edgeCount = regexp.MustCompile(`· (\d+) more edges?|· \+(\d+)`)

// countedEdges returns how many edges the headings count.
func (s *rig) countedEdges() (n int) {
	for _, m := range edgeCount.FindAllStringSubmatch(s.text(), -1) {
		k, _ := strconv.Atoi(m[1] + m[2])
		n += k
	}
	return n
}

// TestEdgesAreWhole: in random graphs at all sizes, running and after each move of the selection, each line of the
// picture has two ends and each arrow head a line; the headings count the edges that are not drawn.
func TestEdgesAreWhole(t *testing.T) {
	drawn, left := 0, 0
	for seed := range uint64(60) {
		events := randomGraph(rand.New(rand.NewPCG(seed, 7)))
		for _, size := range append(sizes[1:], [2]int{120, 40}) {
			s := newScreen(t, size[0], size[1], events)
			for range 4 {
				if why := s.loose(); why != "" {
					t.Fatalf("seed %d at %v: %s\n%s", seed, size, why, s.text())
				}
				all := 0
				for _, n := range s.Graph.Nodes {
					all += len(n.Ins)
				}
				if missing := s.board.Undrawn(); s.countedEdges() != missing {
					t.Fatalf("seed %d at %v: the headings count %d edges of %d that are not drawn:\n%s", seed, size, s.countedEdges(), missing, s.text())
				} else {
					drawn, left = drawn+all-missing, left+missing
				}
				s.press("tab")
			}
		}
	}
	if t.Logf("%d edges are drawn, %d are counted", drawn, left); left*10 > drawn {
		t.Errorf("of %d edges, %d are not drawn", drawn+left, left)
	}
}

// TestEdgesOfRuns: the same for recorded runs at each of their events.
func TestEdgesOfRuns(t *testing.T) {
	for _, run := range []string{"sandbox-install", "sandbox-held", "sandbox-rollback", "sandbox-breakpoint", "failed", "retried"} {
		for _, size := range sizes[1:] {
			s := newScreen(t, size[0], size[1], nil)
			for i, e := range recorded(t, run, 0) {
				s.feed(e)
				if why := s.loose(); why != "" {
					t.Fatalf("%s, event %d at %v: %s\n%s", run, i, size, why, s.text())
				}
			}
			if n := s.board.Undrawn(); n > 0 {
				t.Errorf("%s at %v: %d edges are not drawn:\n%s", run, size, n, s.text())
			}
		}
	}
}

// TestDense: if a layer has more edges than can be told apart, the selected group's are drawn and the others counted.
func TestDense(t *testing.T) {
	s := newScreen(t, 200, 50, large(10_000))
	s.press("z", "z") // cards
	if s.board.Undrawn() == 0 {
		t.Errorf("all edges are drawn:\n%s", s.text())
	}
	if !strings.ContainsAny(s.text(), "┏┗┺┹┻┳") {
		t.Errorf("no edge of the selected group is drawn:\n%s", s.text())
	}
	if why := s.loose(); why != "" {
		t.Errorf("%s:\n%s", why, s.text())
	}
}
