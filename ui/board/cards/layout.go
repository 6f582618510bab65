// Package cards draws groups: a card for each, or a line, as detailed as there is
// room for. Its central types are Layout, what is where on the board, and Card, a
// group with its place in it. What is beside what is decided in columns.
package cards

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// Layout is what is where on the board at one moment.
type Layout struct {
	*screen.Screen
	Frame
	Top     int // the first row in view
	Cards   []Card
	Folds   []Fold
	Columns []Column
	Tight   bool // there is no air in cards and between them
	Rows    int  // how high the board would be with room enough
}

// Frame is the room that the board has.
type Frame struct {
	Area  canvas.Rect
	Terse bool // what is in waiting groups is left out
	Given int  // rows that the state line has taken
	// Wanted is how many rows more the pane would take for what it has to say.
	Wanted int
}

// Reset begins a layout in a frame.
func (l *Layout) Reset(f Frame) { *l = Layout{Screen: l.Screen, Frame: f, Top: l.Top} }

// Card is a group with its place on the screen, part of which may be out of
// view.
type Card struct {
	Node *graph.Node
	Rect canvas.Rect
	rows []row
	flat bool
}

// Anchor is the row that the card's edges begin and end at.
func (c *Card) Anchor() int {
	if c.flat {
		return c.Rect.Y
	}
	return c.Rect.Y + 1
}

// Spots are what can be selected on a card, from top to bottom: the group and its objects.
func (c *Card) Spots() []screen.Spot {
	spots := []screen.Spot{{Unit: c.Node.Unit()}}
	for _, r := range c.rows {
		if r.kind == objectRow {
			spots = append(spots, screen.Spot{Unit: c.Node.Unit(), Object: r.o.Object})
		}
	}
	return spots
}

// At is what a line of a card is about.
func (c *Card) At(line int) screen.Spot {
	at := screen.Spot{Unit: c.Node.Unit()}
	if line--; line >= 0 && line < len(c.rows) && c.rows[line].o != nil {
		at.Object = c.rows[line].o.Object
	}
	return at
}

// LineOf is the first line below a card's border that is about an object.
func (c *Card) LineOf(at screen.Spot) (line int, ok bool) {
	for line, r := range c.rows {
		if r.o != nil && r.o.Object == at.Object {
			return line, true
		}
	}
	return 0, false
}

// Column is a column in view.
type Column struct {
	Index int
	X, W  int
	Cut   bool // less wide than it should be, at the right end
	// Prefix is what the names of all groups of the column begin with, if not all
	// of them fit: the title says it once.
	Prefix string
}

// Stacked ends a layout in columns: it is as high as they are.
func (l *Layout) Stacked() {
	for i := range l.Cards {
		l.Rows = max(l.Rows, l.Cards[i].Rect.Y+l.Cards[i].Rect.H)
	}
	l.shift()
}

// shift moves what was placed from the first row of the board to where that is.
func (l *Layout) shift() {
	l.Top = max(min(l.Top, l.Rows-l.Area.H), 0)
	for i := range l.Cards {
		l.Cards[i].Rect.Y += l.Area.Y - l.Top
	}
	for i := range l.Folds {
		l.Folds[i].Rect.Y += l.Area.Y - l.Top
	}
}
