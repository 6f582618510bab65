package cards

import (
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/picture"
)

// WrapReasonsOf wraps the reasons on some cards into the free rows above bottom, failures first.
func (l *Layout) WrapReasonsOf(own []Card, bottom int) {
	all, rows := l.Cards, l.Rows
	l.Cards = own
	l.WrapReasons(bottom)
	l.Cards, l.Rows = all, rows
}

// WrapReasons wraps the reasons on cards into the free rows above bottom, failures first.
func (l *Layout) WrapReasons(bottom int) {
	for _, failed := range []bool{true, false} {
		for i := range l.Cards {
			c := &l.Cards[i]
			if (c.Node.Status == event.Failed) != failed || c.Rect.W < 6 {
				continue
			}
			last := i // in the same column
			for last+1 < len(l.Cards) && l.Cards[last+1].Rect.X == c.Rect.X {
				last++
			}
			end := l.Cards[last].Rect
			for _, f := range l.Folds {
				if f.Rect.X == end.X {
					end = f.Rect
				}
			}
			grown := l.growCard(c, bottom-(end.Y+end.H))
			for j := i + 1; j <= last; j++ {
				l.Cards[j].Rect.Y += grown
			}
			for j := range l.Folds {
				if f := &l.Folds[j]; f.Rect.X == c.Rect.X {
					f.Rect.Y += grown
				}
			}
			l.Rows = max(l.Rows, end.Y+end.H+grown-l.Area.Y+l.Top)
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
	}
	grown := max(l.wrapCard(c, max(empty+max(more, 0), 0))-empty, 0)
	c.Rect.H += grown
	return grown
}

// wrapCard wraps the reasons of a card into at most room more rows, and returns how many it took.
func (l *Layout) wrapCard(c *Card, room int) int {
	grown := 0
	for i := 0; i < len(c.rows) && room > grown; i++ {
		r := c.rows[i]
		if r.kind != reasonRow || r.o != nil && !r.o.InTrouble() && len(r.o.Drift) == 0 && !picture.IsUnfinished(c.Node.Status) {
			continue // in progress, without a problem
		}
		label := l.reasonLabel(r)
		lines := canvas.Wrap(label+r.text, l.ReasonWidth(c))
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
