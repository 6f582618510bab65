package cards

import (
	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// In the overview, each group is a cell: one line, possibly with its problems below, or only its
// glyph.

// MinNamedCell is the minimum width of a cell with a name.
const MinNamedCell = 12

// AddCell places a group at a row of the board. If the group has failed or is degraded, its contents take up to free rows below;
// AddCell returns how many. Other groups keep their height, so that the picture keeps its shape.
func (l *Layout) AddCell(n *graph.Node, at canvas.Rect, free int) int {
	c := Card{Node: n, Rect: at, flat: true}
	if free > 0 && at.W >= MinNamedCell && picture.InTrouble(n) {
		c.rows = l.contents(n, free)
		c.Rect.H += len(c.rows)
	}
	l.Cards = append(l.Cards, c)
	return len(c.rows)
}

// CellWidth returns the width of a cell with the group's full name and its progress.
func (l *Layout) CellWidth(n *graph.Node) int { return canvas.Width(n.Name) + 12 }

// DrawCells draws the cells and folds of the overview.
func (l *Layout) DrawCells() {
	if len(l.Cards) == 0 {
		l.drawEmpty()
		return
	}
	for i := range l.Cards {
		c := &l.Cards[i]
		if c.Rect.W < MinNamedCell {
			l.drawDot(c)
			continue
		}
		l.drawCell(c)
		for i, r := range c.rows {
			l.drawRow(c, r, c.Rect.X+2, c.Rect.Y+1+i, c.Rect.W-3)
		}
	}
	l.drawFolds()
}

// drawDot draws a group as its glyph, or as its code while the user jumps to a group.
func (l *Layout) drawDot(c *Card) {
	mark := l.GroupMark(c.Node)
	text, role := mark.Glyph, mark.Role
	if code := l.Codes[c.Node.Unit()]; code != "" {
		text, role = code, theme.Key
	}
	if l.IsSelected(c.Node) {
		l.Canvas.Highlight(c.Rect.X, c.Rect.Y, c.Rect.W-1)
	}
	l.Canvas.Put(c.Rect.X, c.Rect.Y, role, text)
}

// drawCell draws a group's name and as much of its progress as fits.
func (l *Layout) drawCell(c *Card) {
	n, r := c.Node, c.Rect
	if l.IsSelected(n) {
		l.Canvas.Highlight(r.X, r.Y, r.W)
	}
	mark, texts := l.GroupMark(n), []string{"", l.spent(n)}
	switch {
	case n.Status == event.Waiting:
	case picture.Active(n) || n.Degraded > 0:
		texts = append(texts, l.Progress(n), text.Join(" ", mark.Word, l.Progress(n)))
	case mark.Role != theme.Good:
		texts = append(texts, mark.Word)
	}
	end := r.X + r.W - 1
	if text := lastFitting(r.W-3-l.nameWidth(n), texts...); text != "" {
		end = l.Canvas.PutRight(end-1, r.Y, quietIfGood(mark), text)
	}
	l.drawName(n, r.X, r.Y, end-r.X-1)
}
