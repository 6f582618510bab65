// Package cards draws groups as cards or lines, as detailed as fits. Its central types are Layout,
// the places of all cards, and Card, one group with its place. Package columns imports it and
// decides which cards are side by side.
package cards

import (
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// Layout holds the places of all cards of the board.
type Layout struct {
	*screen.Screen
	Frame
	Top     int // the first row in view
	Cards   []Card
	Folds   []Fold
	Columns []Column
	Tight   bool // no padding in or between cards
	// LinesOnly means that there is no room for any card, NoFolds that a line for each group fits.
	LinesOnly, NoFolds bool
	Rows               int // height of the whole board, including rows out of view
}

// Frame is the space for the board.
type Frame struct {
	Area      canvas.Rect
	Terse     bool // waiting groups do not show their contents
	StateRows int  // rows that the state lines took from the board
	Room      int  // the rows for which cards in columns are laid out; they do not depend on the run and the selection
	UsualRoom int  // Room while no tab is open
	// MissingPaneRows is how many more rows the pane needs to show a failure.
	MissingPaneRows int
}

// Reset starts an empty layout in a frame.
func (l *Layout) Reset(f Frame) { *l = Layout{Screen: l.Screen, Frame: f, Top: l.Top} }

// ShownIn returns the visible groups of a column; the caller must not change the list.
func (l *Layout) ShownIn(col int) []*graph.Node {
	if !l.Filter.On() && !l.Half {
		return l.Graph.Cols[col].Nodes
	}
	return slices.DeleteFunc(slices.Clone(l.Graph.Cols[col].Nodes), func(n *graph.Node) bool { return !l.Shown(n) })
}

// Card is a group with its place on the screen; it may be partly out of view.
type Card struct {
	Node *graph.Node
	Rect canvas.Rect
	rows []row
	flat bool // one line, without a border
}

// Anchor returns the row where the card's edges start and end.
func (c *Card) Anchor() int {
	if c.flat {
		return c.Rect.Y
	}
	return c.Rect.Y + 1
}

// IsLine reports whether the card is one line without a border.
func (c *Card) IsLine() bool { return c.flat }

// Spots returns the card's selectable lines, from top to bottom: the group and its objects.
func (c *Card) Spots() []screen.Spot {
	spots := []screen.Spot{{Unit: c.Node.Unit()}}
	for _, r := range c.rows {
		if r.kind == objectRow {
			spots = append(spots, screen.Spot{Unit: c.Node.Unit(), Object: r.o.Object})
		}
	}
	return spots
}

// At returns the group or object that a line of the card shows.
func (c *Card) At(line int) screen.Spot {
	at := screen.Spot{Unit: c.Node.Unit()}
	if line--; line >= 0 && line < len(c.rows) && c.rows[line].o != nil {
		at.Object = c.rows[line].o.Object
	}
	return at
}

// LineOf returns the first line below the card's border that shows an object, or -1.
func (c *Card) LineOf(at screen.Spot) int {
	return slices.IndexFunc(c.rows, func(r row) bool { return r.o != nil && r.o.Object == at.Object })
}

// Column is a column in view.
type Column struct {
	Index int
	X, W  int
	Cut   bool // truncated at the right edge of the screen
	// Prefix is the common prefix of the groups' names, if not all of them fit; the title shows
	// it once.
	Prefix string
}

// NeedsShortKinds reports whether the names on some card in view fit only with short kinds.
func (l *Layout) NeedsShortKinds() bool {
	return !l.IsRelease() && slices.ContainsFunc(l.Cards, func(c Card) bool {
		switch {
		case c.Rect.Y >= l.Area.Y+l.Area.H || c.Rect.Y+c.Rect.H <= l.Area.Y:
			return false
		case c.Node.Single():
			return canvas.Width(c.Node.Name)+6 > c.Rect.W
		case c.flat && len(c.rows) == 0:
			return false
		}
		return c.Node.NeedsShortKinds(l.ReasonWidth(&c))
	})
}

// HiddenRows returns how many rows the cards are smaller than they could be.
func (l *Layout) HiddenRows() (rows int) {
	shown := 0
	for i := range l.Cards {
		c := &l.Cards[i]
		if l.Shown(c.Node) {
			shown++
		}
		if !l.LinesOnly {
			rows += max(l.NeededRows(c.Node)-c.Rect.H, 0)
		}
	}
	return rows + 2*(len(l.Visible())-shown)
}

// FinishColumns finishes a layout in columns: it sets its height and scrolls.
func (l *Layout) FinishColumns() {
	for i := range l.Cards {
		l.Rows = max(l.Rows, l.Cards[i].Rect.Y+l.Cards[i].Rect.H)
	}
	l.shift()
}

// shift moves all cards from board rows to screen rows.
func (l *Layout) shift() {
	l.Top = max(min(l.Top, l.Rows-l.Area.H), 0)
	for i := range l.Cards {
		l.Cards[i].Rect.Y += l.Area.Y - l.Top
	}
	for i := range l.Folds {
		l.Folds[i].Rect.Y += l.Area.Y - l.Top
	}
}
