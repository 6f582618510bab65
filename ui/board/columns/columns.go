// Package columns places groups in columns, draws the dependencies between them, and moves the
// selection and the view. Its central type is Board, the region with the groups. Only package
// board imports it.
package columns

import (
	"slices"

	"lockstep/engine/plan"
	"lockstep/ui/board/cards"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/screen"
)

// Board is the region of the screen with the groups.
type Board struct {
	cards.Layout
	First    int // first column in view
	Strip    Strip
	ShowsAll bool   // all groups are in view
	heads    []head // titles of the overview
	bands    []band
	maxLanes int         // the most rows for edges above a band
	undrawn  map[int]int // how many edges to the groups of a column are not drawn
	layOut   func()      // lays out the whole screen
}

// New returns a board; layOut lays out the whole screen.
func New(s *screen.Screen, layOut func()) *Board {
	return &Board{Layout: cards.Layout{Screen: s}, layOut: layOut}
}

// Place places the groups in a frame. If those of an operation and of its rollback do not fit as cards, it places one half.
func (b *Board) Place(f cards.Frame) {
	b.Half = false
	if !b.place(f) && b.State.HasRollback() && b.Detail == screen.Auto && !b.Narrow() && !b.Filter.On() {
		b.Half = true
		b.place(f)
		b.selectShown()
	}
	b.Graph.ShortKinds = b.NeedsShortKinds()
}

// selectShown replaces a selected group that is not on the board by the one of the same name.
func (b *Board) selectShown() {
	n := b.Group()
	if n == nil || b.Shown(n) {
		return
	}
	for _, other := range b.Visible() {
		if other.ID == n.ID {
			b.Sel = screen.Spot{Unit: other.Unit()}
			return
		}
	}
	if first := b.initialGroup(); first != nil {
		b.Sel = screen.Spot{Unit: first.Unit()}
	}
}

// place places the groups that are shown. It reports whether all have cards in view.
func (b *Board) place(f cards.Frame) bool {
	b.Reset(f)
	b.Strip, b.ShowsAll, b.heads, b.bands, b.undrawn = Strip{}, false, nil, nil, map[int]int{}
	switch {
	case b.placeBanded():
		return !b.LinesOnly
	case b.placeOverview():
		return false
	case b.Narrow():
		b.PlaceList()
		return false
	}
	b.Area.Y++ // titles
	b.Area.H, b.Room = max(b.Area.H-1, 0), max(b.Room-1, 0)
	ws := b.Widths()
	b.Tight = ws.tight
	b.fill(ws) // the screen may have become wider
	b.Columns = b.across(ws, b.First, 1)
	b.Strip = b.placeStrip()
	for _, p := range b.Columns {
		b.PlaceColumn(p, b.lanes())
	}
	b.FinishColumns()
	b.bands = []band{{area: b.Area, columns: b.Columns, title: b.Area.Y - 1, lane: b.Area.Y - b.Top, lanes: b.lanes()}}
	cols := b.columns()
	return len(cols) == 0 || b.allFitAsCards(cols)
}

func (b *Board) Draw() {
	switch {
	case b.ShowsAll && len(b.bands) == 0:
		b.drawOverview()
	case b.Narrow():
		b.DrawList()
	default:
		b.drawColumns()
	}
}

func (b *Board) drawColumns() {
	restore := b.Canvas.Within(b.Area)
	b.drawEdges()
	b.DrawCards()
	restore()
	for k := range b.bands {
		b.drawTitles(&b.bands[k])
	}
}

// lanes returns how many rows the edges that skip columns take.
func (b *Board) lanes() int {
	if b.Room < 12 {
		return min(b.Graph.Lanes, 1)
	}
	return min(b.Graph.Lanes, 3)
}

// Show scrolls the selection into view.
func (b *Board) Show() {
	n := b.Group()
	if n == nil || b.TooSmall() {
		b.layOut()
		return
	}
	if !b.Narrow() {
		b.showColumn(n.Col)
	}
	b.layOut()
	from, to := b.Extent(n)
	top := min(max(b.Top, min(to, from+b.Area.H)-b.Area.H), from)
	if b.Top != top {
		b.Top = top
		b.layOut()
	}
}

// showColumn scrolls sideways as little as needed.
func (b *Board) showColumn(col int) {
	if col < b.First {
		b.First = col
	}
	ws := b.Widths()
	for b.First < col && !b.fits(ws, b.First, col) {
		b.First++
	}
	b.fill(ws)
}

// fill scrolls left as far as possible with the last column in view.
func (b *Board) fill(ws Widths) {
	for k := len(ws.Columns) - 2; k >= 0; k-- {
		first := ws.Columns[k].Index
		if !b.fits(ws, first, ws.Columns[len(ws.Columns)-1].Index) {
			return
		}
		b.First = min(b.First, first)
	}
}

// Extent returns the rows of a group on the board, end excluded; of the selected object if the
// card is higher than the view.
func (b *Board) Extent(n *graph.Node) (from, to int) {
	i := slices.IndexFunc(b.Cards, func(c cards.Card) bool { return c.Node == n })
	if i < 0 {
		return b.Top, b.Top
	}
	c := &b.Cards[i]
	from = c.Rect.Y - b.Area.Y + b.Top
	if line := c.LineOf(b.Sel); b.Sel.Object != (plan.Object{}) && c.Rect.H > b.Area.H && line >= 0 {
		return from + line, from + line + 3
	}
	return from, from + c.Rect.H
}

// InView reports whether every group has its place in view: none is folded, cut, scrolled away or of the half that is not shown.
func (b *Board) InView() bool {
	inView := func(n *graph.Node) bool {
		return slices.ContainsFunc(b.Cards, func(c cards.Card) bool {
			return c.Node == n && c.Rect.Y >= b.Area.Y && c.Rect.Y+c.Rect.H <= b.Area.Y+b.Area.H
		})
	}
	cut := func(p cards.Column) bool { return p.Cut }
	return !b.Half && !slices.ContainsFunc(b.Columns, cut) && !slices.ContainsFunc(b.Visible(), func(n *graph.Node) bool { return !inView(n) })
}

// SteadyRows returns how many rows a list takes with all groups, and with all objects if they fit. With that height, the pane does
// not move with the run or the selection.
func (b *Board) SteadyRows() int {
	if b.Detail != screen.Auto {
		return b.Rows
	}
	if rows := b.ListedRows(b.Visible()); rows <= b.Area.H {
		return rows
	}
	return len(b.Visible())
}
