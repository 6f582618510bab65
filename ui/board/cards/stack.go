package cards

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Fold is a line that stands for the groups of a column that do not fit.
type Fold struct {
	Rect  canvas.Rect
	Nodes []*graph.Node
}

// PlaceColumn stacks the cards of a column, as detailed as fits. Finished groups fold into one line
// before running groups lose their objects. If one line per group is still too much, the least urgent
// groups fold too.
func (l *Layout) PlaceColumn(p Column, top int) {
	nodes := l.ShownIn(p.Index)
	switch l.Detail {
	case screen.Full:
		l.stack(p, top, nodes, listed)
		return
	case screen.Compact:
		l.stack(p, top, nodes, lines)
		return
	}
	room := l.Area.H
	from := len(l.Cards)
	first := listed
	if l.LinesOnly {
		first = lines
	}
	for d := first; d < densities; d++ {
		if d == listed && l.ListedRows(nodes) > room-top {
			continue // cannot fit; building the rows of many objects is slow
		}
		l.Cards = l.Cards[:from]
		end := l.stack(p, top, nodes, d)
		if end <= room {
			if !l.LinesOnly {
				l.expand(from, top, room-end)
			}
			return
		}
		if d >= scarce && !l.NoFolds && l.foldUp(p, top, from, end-room, d) {
			return
		}
	}
}

// expand gives a column's free rows to cards that do not show everything: first the selected one, then
// by urgency, then from the top.
func (l *Layout) expand(from, top, free int) {
	own := l.Cards[from:]
	rank := func(i int) int {
		if l.IsSelected(own[i].Node) {
			return -1
		}
		return Rank(own[i].Node)
	}
	for _, i := range Order(len(own), func(a, b int) int { return rank(a) - rank(b) }) {
		c := own[i]
		if len(l.ShownObjects(c.Node)) > c.Rect.H+free {
			continue // each object takes at least a row
		}
		c.flat, c.rows = false, l.cardRows(c.Node, listed, l.Area.H)
		c.Rect.H = max(len(c.rows)+2, MinCardRows)
		if c.Node.Single() && len(c.rows) == 0 && len(c.Node.Ins)+len(c.Node.Outs) == 0 {
			c.Rect.H = 2
		}
		if grows := c.Rect.H - own[i].Rect.H; grows > 0 && grows <= free {
			own[i], free = c, free-grows
		}
	}
	y := top
	for i := range own {
		own[i].Rect.Y = y
		y += own[i].Rect.H
	}
}

// MinCardRows is the minimum height of a card with edges.
const MinCardRows = 3

// ListedRows returns the minimum number of rows of groups with all their objects.
func (l *Layout) ListedRows(nodes []*graph.Node) int {
	rows := 0
	for _, n := range nodes {
		rows += 2 + len(l.ShownObjects(n))
		if n.Single() {
			rows--
		}
	}
	return rows
}

// stack places cards below each other, and returns the row after them.
func (l *Layout) stack(p Column, y int, nodes []*graph.Node, d density) int {
	for _, n := range nodes {
		c := Card{Node: n, Rect: canvas.Rect{X: p.X, Y: y, W: p.W, H: 1}, flat: d.flat(n)}
		if !c.flat {
			c.rows = l.cardRows(n, d, l.Area.H+l.StateRows)
			c.Rect.H = len(c.rows) + 2
			if len(n.Ins)+len(n.Outs) > 0 {
				c.Rect.H = max(c.Rect.H, MinCardRows)
			}
		}
		y += c.Rect.H
		l.Cards = append(l.Cards, c)
	}
	return y
}

// foldUp folds the column's cards, which start at index from, into one line until the column is shorter by
// the given excess of rows: the least urgent first, never the selected one. Unless d is lines, it only
// folds finished groups. It reports whether it saved enough.
func (l *Layout) foldUp(p Column, top, from, excess int, d density) bool {
	own := l.Cards[from:]
	// The least urgent groups fold first. Of equally urgent ones, the last folds first, but finished
	// groups fold in plan order.
	order := Order(len(own), func(a, b int) int {
		if ra, rb := Rank(own[a].Node), Rank(own[b].Node); ra != rb || own[a].Node.Status.Over() {
			return rb - ra
		}
		return b - a
	})
	folded := map[*graph.Node]bool{}
	saved := -1 // the fold itself takes a row
	for _, i := range order {
		if n := own[i].Node; saved < excess && !l.IsSelected(n) && (d >= lines || n.Status.Over() && !picture.IsUnfinished(n.Status)) {
			folded[n] = true
			saved += own[i].Rect.H
		}
	}
	if saved < excess {
		return false
	}
	f := Fold{Rect: canvas.Rect{X: p.X, Y: top, W: p.W, H: 1}}
	kept := l.Cards[:from]
	for _, c := range own {
		if folded[c.Node] {
			f.Nodes = append(f.Nodes, c.Node)
			continue
		}
		c.Rect.Y = f.Rect.Y
		f.Rect.Y += c.Rect.H
		kept = append(kept, c)
	}
	l.Cards, l.Folds = kept, append(l.Folds, f)
	return true
}

// Order returns the numbers 0 to n-1, stably sorted.
func Order(n int, compare func(a, b int) int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	return order
}

// drawFold draws how many groups a fold stands for, and their statuses.
func (l *Layout) drawFold(f *Fold) {
	counts := map[theme.Mark]int{}
	var marks []theme.Mark
	for _, n := range f.Nodes {
		mark := l.GroupMark(n)
		if counts[mark] == 0 {
			marks = append(marks, mark)
		}
		counts[mark]++
	}
	text := fmt.Sprintf("+ %d more", len(f.Nodes))
	long, short := text+" "+marks[0].Word, text+" "+marks[0].Glyph
	if len(marks) > 1 {
		var words, glyphs []string
		for _, mark := range marks {
			words = append(words, fmt.Sprintf("%d %s", counts[mark], mark.Word))
			glyphs = append(glyphs, fmt.Sprintf("%d%s", counts[mark], mark.Glyph))
		}
		long, short = text+": "+strings.Join(words, ", "), text+": "+strings.Join(glyphs, " ")
	}
	l.Canvas.Blank(f.Rect)
	l.Canvas.PutFit(f.Rect.X+1, f.Rect.Y, f.Rect.W-1, theme.Text, lastFitting(f.Rect.W-4, text, short, long))
}

// lastFitting returns the last text that fits a width, or the first if none does.
func lastFitting(w int, texts ...string) string {
	for _, text := range slices.Backward(texts[1:]) {
		if canvas.Width(text) <= w {
			return text
		}
	}
	return texts[0]
}

// urgencies are the statuses of groups, the most urgent first.
var urgencies = []event.Status{event.Failed, event.Degraded, event.AtBreakpoint, event.Aborted, event.Running, event.Waiting, event.Skipped, event.Applied}

// Rank orders groups by urgency; 0 is the most urgent.
func Rank(n *graph.Node) int {
	status := n.Status
	if n.Degraded > 0 {
		status = event.Degraded
	}
	if i := slices.Index(urgencies, status); i >= 0 {
		return i
	}
	return len(urgencies)
}
