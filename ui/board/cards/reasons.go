package cards

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// WrapReasonsOf wraps the reasons on some cards into the free rows above bottom, failures first.
func (l *Layout) WrapReasonsOf(own []Card, bottom int) {
	all, rows := l.Cards, l.Rows
	l.Cards = own
	l.WrapReasons(bottom)
	l.Cards, l.Rows = all, rows
}

// WrapReasons wraps the reasons on cards into the free rows above bottom, failures first. If those are too few, the finished
// cards of the column give up rows.
func (l *Layout) WrapReasons(bottom int) {
	for _, failed := range []bool{true, false} {
		for i := range l.Cards {
			c := &l.Cards[i]
			if (c.Node.Status == event.Failed) != failed || c.Rect.W < 6 {
				continue
			}
			first, last := i, i // in the same column
			for first > 0 && l.Cards[first-1].Rect.X == c.Rect.X {
				first--
			}
			for last+1 < len(l.Cards) && l.Cards[last+1].Rect.X == c.Rect.X {
				last++
			}
			end := l.Cards[last].Rect
			for _, f := range l.Folds {
				if f.Rect.X == end.X {
					end = f.Rect
				}
			}
			more := bottom - (end.Y + end.H)
			freed := l.shrink(l.Cards[first:last+1], l.wanted(c)-max(more, 0))
			grown := l.growCard(c, more+freed)
			for j := i + 1; j <= last; j++ {
				l.Cards[j].Rect.Y += grown
			}
			for j := range l.Folds {
				if f := &l.Folds[j]; f.Rect.X == c.Rect.X {
					f.Rect.Y += grown - freed
				}
			}
			l.Rows = max(l.Rows, end.Y+end.H+grown-freed-l.Area.Y+l.Top)
		}
	}
}

// wanted returns how many more rows a card that has failed or is degraded needs for the reasons on it. One that is in progress may
// have a cause for a moment, such as a readiness probe: for that, nothing moves.
func (l *Layout) wanted(c *Card) int {
	if c.flat || c.Node.Status != event.Failed && c.Node.Degraded == 0 || c.Rect.W < 6 {
		return 0
	}
	whole := *c
	whole.rows = slices.Clone(c.rows)
	return max(l.wrapCard(&whole, math.MaxInt)-(c.Rect.H-2-len(c.rows)), 0)
}

// finished reports whether a card may give up rows for the reasons on others.
func (l *Layout) finished(c *Card) bool {
	return !c.flat && c.Node.Status.Over() && !picture.InTrouble(c.Node) && !picture.IsUnfinished(c.Node.Status)
}

// shrink takes up to some rows from the finished cards of a column, and returns how many: first the empty ones, then those of
// objects.
func (l *Layout) shrink(column []Card, need int) (freed int) {
	for _, empty := range []bool{true, false} {
		for i := range column {
			c := &column[i]
			if freed >= need || !l.finished(c) {
				continue
			}
			least := MinCardRows
			if empty {
				least = max(len(c.rows)+2, least)
			}
			if less := min(c.Rect.H-least, need-freed); less > 0 {
				c.Rect.H -= less
				freed += less
				c.rows = l.cardRows(c.Node, c.Rect.H-2)
			}
		}
	}
	for i := 1; i < len(column) && freed > 0; i++ {
		column[i].Rect.Y = column[i-1].Rect.Y + column[i-1].Rect.H
	}
	return freed
}

// Lacks returns how many more rows some cards, which are in the given number of rows, need for the reasons on them.
func (l *Layout) Lacks(own []Card, rows int) (lacks int) {
	for column := range columnsOf(own) {
		wanted := 0
		for i := range column {
			wanted += l.wanted(&column[i])
		}
		last := column[len(column)-1].Rect
		if wanted > 0 {
			lacks = max(lacks, wanted+last.Y+last.H-rows)
		}
	}
	return lacks
}

// Lower takes up to some rows from the finished cards so that all columns get lower.
func (l *Layout) Lower(own []Card, need int) {
	most, least := 0, 0
	for column := range columnsOf(own) {
		height, low := 0, 0
		for i := range column {
			h := column[i].Rect.H
			height += h
			if l.finished(&column[i]) {
				h = min(h, MinCardRows)
			}
			low += h
		}
		most, least = max(most, height), max(least, low)
	}
	target := max(most-need, least)
	for column := range columnsOf(own) {
		last := column[len(column)-1].Rect
		l.shrink(column, last.Y+last.H-column[0].Rect.Y-target)
	}
}

// columnsOf yields the cards of each column.
func columnsOf(own []Card) iter.Seq[[]Card] {
	return func(yield func([]Card) bool) {
		for from := 0; from < len(own); {
			to := from + 1
			for to < len(own) && own[to].Rect.X == own[from].Rect.X {
				to++
			}
			if !yield(own[from:to]) {
				return
			}
			from = to
		}
	}
}

// ReasonWidth returns the width of the reasons on a card.
func (l *Layout) ReasonWidth(c *Card) int {
	switch {
	case l.Narrow():
		return l.W - 9
	case l.Tight:
		return c.Rect.W - 4
	}
	return c.Rect.W - 6
}

// growCard gives a card in trouble up to some more rows for its reasons, and returns by how many it grew. On others, reasons
// take the rows that are empty.
func (l *Layout) growCard(c *Card, more int) int {
	empty := 0
	if !c.flat {
		if picture.InTrouble(c.Node) && more > 0 {
			c.rows = l.cardRows(c.Node, c.Rect.H-2+more)
		}
		empty = c.Rect.H - 2 - len(c.rows)
		if len(c.Node.Objects) == 1 && len(c.rows) == 2 && c.rows[0].kind == objectRow && l.wanted(c) > max(more, 0) { // its cause matters more than its name
			c.rows, empty = c.rows[1:], empty+1
		}
	}
	grown := max(l.wrapCard(c, max(empty+max(more, 0), 0))-empty, 0)
	c.Rect.H += grown
	return grown
}

// cause returns why the object of a reason is degraded, without status and time; "" if it is not.
func (l *Layout) cause(n *graph.Node, r row) string {
	if r.o == nil || !picture.Degraded(n, r.o) {
		return ""
	}
	return cmp.Or(phrase.CauseAt(n.GroupState, r.o, l.Now()), r.o.Message)
}

// wrapCard wraps the reasons of a card into at most room more rows, and returns how many it took.
func (l *Layout) wrapCard(c *Card, room int) int {
	grown := 0
	for i := 0; i < len(c.rows) && room > grown; i++ {
		r := c.rows[i]
		if r.kind != reasonRow || r.o != nil && !r.o.InTrouble() && r.o.Status != event.Applying && len(r.o.Drift) == 0 && !picture.IsUnfinished(c.Node.Status) {
			continue // in progress, without a problem
		}
		label := l.reasonLabel(r)
		lines := canvas.Wrap(label+r.text, l.ReasonWidth(c))
		if cause := l.cause(c.Node, r); cause != "" && len(lines)-1 > room-grown { // the border shows status and time
			c.rows[i].label, c.rows[i].text = "", cause
			r, label, lines = c.rows[i], "", canvas.Wrap(cause, l.ReasonWidth(c))
		}
		n := min(len(lines)-1, room-grown)
		if n <= 0 {
			continue
		}
		lines[n] = strings.Join(lines[n:], " ")
		more := make([]row, 0, n)
		for _, text := range lines[1 : n+1] {
			more = append(more, row{kind: reasonRow, o: r.o, text: text, rest: true})
		}
		if len(lines[0]) < len(label) { // it is wrapped itself
			label = ""
		}
		c.rows[i].label, c.rows[i].text = label, lines[0][len(label):]
		c.rows = slices.Insert(c.rows, i+1, more...)
		grown, i = grown+n, i+n
	}
	return grown
}
