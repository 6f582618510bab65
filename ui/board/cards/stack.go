package cards

import (
	"fmt"
	"math"
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

// PlaceColumn stacks the cards of a column, as detailed as fits. Their heights depend only on the plan and the space, so
// that nothing moves during the run. If one line per group is too much, the least urgent groups fold into one line.
func (l *Layout) PlaceColumn(p Column, top int) {
	nodes := l.ShownIn(p.Index)
	switch l.Detail {
	case screen.Full:
		l.stack(p, top, nodes, nil)
		return
	case screen.Compact:
		l.stack(p, top, nodes, make([]int, len(nodes)))
		return
	}
	from := len(l.Cards)
	if end := l.stack(p, top, nodes, l.heights(nodes, l.Room-top)); end > l.Room && !l.NoFolds {
		l.foldUp(p, top, from, end-l.Room, false)
	}
}

// MinCardRows is the height of a card with one line.
const MinCardRows = 3

// FullRows returns how many rows a group's card takes with all its objects, and a line for what it waits for or why an
// object is not ready. It depends only on the plan.
func (l *Layout) FullRows(n *graph.Node) int {
	if n.Single() || l.IsRelease() {
		return l.listedRows(n)
	}
	return l.listedRows(n) + 1
}

// NeededRows is FullRows, but after the end of the run without that line if nothing is wrong with the group.
func (l *Layout) NeededRows(n *graph.Node) int {
	rows := l.FullRows(n)
	if l.Over() && n.Status.Over() && !picture.InTrouble(n) && !picture.IsUnfinished(n.Status) {
		return max(rows-1, MinCardRows)
	}
	return rows
}

// listedRows returns how many rows a group's card takes with all its objects.
func (l *Layout) listedRows(n *graph.Node) int {
	switch {
	case n.Single():
		return MinCardRows
	case n.Step != nil:
		return 1 + releaseLines // it has no groups
	case l.IsRelease():
		return 2 + releaseLines
	}
	return 2 + max(len(l.ShownObjects(n)), 1)
}

// releaseLines is how many lines a release has: what it waits for or why it is not ready, what happens to it, and its groups.
const releaseLines = 3

// heights returns the heights of a column's cards in a number of rows; 0 stands for a line. If not all objects fit, all cards
// are cut to the same height. Those on top take the rows that are left, and if those are few, finished groups give their cards to
// failed and degraded ones.
func (l *Layout) heights(nodes []*graph.Node, room int) []int {
	out := make([]int, len(nodes))
	if l.LinesOnly {
		return out
	}
	most := 0
	for _, n := range nodes {
		most = max(most, l.listedRows(n))
	}
	for ; most >= MinCardRows; most-- {
		left := room
		for i, n := range nodes {
			out[i] = min(l.listedRows(n), l.NeededRows(n), most)
			left -= out[i]
		}
		if left < 0 {
			continue
		}
		for i := 0; i < len(nodes) && left > 0; i++ {
			if l.NeededRows(nodes[i]) > out[i] {
				out[i]++
				left--
			}
		}
		return out
	}
	left := room - len(nodes)
	for i := range nodes {
		out[i] = 0
		if left >= MinCardRows-1 {
			out[i], left = MinCardRows, left-MinCardRows+1
		}
	}
	for i, n := range nodes {
		if out[i] > 0 || n.Status != event.Failed && n.Degraded == 0 {
			continue
		}
		finished := func(other *graph.Node) bool {
			return out[slices.Index(nodes, other)] > 0 && l.finished(&Card{Node: other})
		}
		if j := slices.IndexFunc(nodes, finished); j >= 0 {
			out[i], out[j] = out[j], 0
		}
	}
	return out
}

// stack places cards with the given heights below each other, and returns the row after them. 0 is the height of a line;
// without heights, cards show everything.
func (l *Layout) stack(p Column, y int, nodes []*graph.Node, heights []int) int {
	for i, n := range nodes {
		c := Card{Node: n, Rect: canvas.Rect{X: p.X, Y: y, W: p.W, H: 1}}
		switch {
		case heights == nil:
			c.rows = l.cardRows(n, math.MaxInt)
			c.Rect.H = max(len(c.rows)+2, MinCardRows)
		case heights[i] == 0:
			c.flat = true
		default:
			c.Rect.H = heights[i]
			c.rows = l.cardRows(n, c.Rect.H-2)
		}
		y += c.Rect.H
		l.Cards = append(l.Cards, c)
	}
	return y
}

// ListedRows returns how many rows groups take in a list with all their objects, and without reasons.
func (l *Layout) ListedRows(nodes []*graph.Node) int {
	rows := 0
	for _, n := range nodes {
		switch {
		case n.Single():
			rows++
		case l.IsRelease():
			rows += l.listedRows(n) - 2 // a line instead of the borders, and no reason
		default:
			rows += 1 + len(l.ShownObjects(n))
		}
	}
	return rows
}

// foldUp folds the column's cards, which start at index from, into one line until the column is shorter by
// the given excess of rows: the least urgent first, never the selected one, and of finished groups only, if so required. It
// reports whether it saved enough.
func (l *Layout) foldUp(p Column, top, from, excess int, finished bool) bool {
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
		if n := own[i].Node; saved < excess && !l.IsSelected(n) && (!finished || n.Status.Over() && !picture.InTrouble(n) && !picture.IsUnfinished(n.Status)) {
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
