package board

import (
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// Sizes below which the screen is drawn otherwise.
const (
	accordionBelow = 80 // columns
	smallestWidth  = 40
	smallestHeight = 10
)

// layout is what is where on a screen of one size at one moment.
type layout struct {
	board canvas.Rect // where cards are
	pane  canvas.Rect // below: why, or the inspector
	cards []card
	folds []fold
	cols  []colPlace
	tight bool // there is no air in cards and between them
	terse bool // what is in waiting groups is left out
	// rows is how high the board would be with room enough.
	rows int
	// said is what the state line says, on more lines where there is room, and
	// given how many rows of the board are given to that.
	said  []string
	given int
	line  canvas.Rect // of a replay
	strip strip       // of all columns
}

// card is a group with its place on the screen, part of which may be out of
// view.
type card struct {
	n    *graph.Node
	r    canvas.Rect
	rows []row
	flat bool
}

// anchor is the row that the card's edges begin and end at.
func (c *card) anchor() int {
	if c.flat {
		return c.r.Y
	}
	return c.r.Y + 1
}

// colPlace is a column in view.
type colPlace struct {
	i    int
	x, w int
	cut  bool // less wide than it should be, at the right end
	// prefix is what the names of all groups of the column begin with, where not all
	// of them fit: the title says it once.
	prefix string
}

func (m *model) accordion() bool { return m.w < accordionBelow }

func (m *model) tooSmall() bool { return m.w < smallestWidth || m.h < smallestHeight }

// place lays out what is in view. The board takes the rows that it needs, what is
// said of a failure and the reasons on cards those that they lack, and the pane all
// others.
func (m *model) place() {
	m.lay = layout{}
	if m.tooSmall() {
		return
	}
	m.arrange(nil, false)
	free := m.lay.board.H - m.lay.rows
	if said := m.stateLines(m.h); len(said)-1 > free { // what failed is worth more than what waits
		m.arrange(nil, true)
		free = m.lay.board.H - m.lay.rows
	}
	if free <= 0 || len(m.lay.cards) == 0 {
		return
	}
	if said := m.stateLines(1 + free); len(said) > 1 {
		m.arrange(said, m.lay.terse)
		free = m.lay.board.H - m.lay.rows
	}
	lacks := min(m.paneLacks(), free)
	m.spend(m.lay.board.Y + m.lay.board.H - lacks)
	rows := min(m.steadyRows(), m.lay.board.H-max(lacks, m.paneWants()))
	rows = min(max(m.lay.rows, rows), m.lay.board.H-lacks)
	m.lay.pane.H += m.lay.board.H - rows
	m.lay.pane.Y -= m.lay.board.H - rows
	m.lay.board.H = rows
}

// arrange lays out the parts of the screen, with so many lines for the state, what is
// in waiting groups or not, and the pane as low as it may be.
func (m *model) arrange(said []string, terse bool) {
	m.lay = layout{said: said, given: max(len(said)-1, 0), terse: terse}
	top := m.headerRows()
	bottom := m.h - m.footerRows()
	rows := m.paneRows(top - m.lay.given)
	m.lay.pane = canvas.Rect{X: 0, Y: bottom - rows, W: m.w, H: rows}
	m.lay.board = canvas.Rect{X: 0, Y: top, W: m.w, H: max(m.lay.pane.Y-top, 0)}
	if m.accordion() {
		m.placeList()
		return
	}
	m.lay.board.Y++ // titles
	m.lay.board.H = max(m.lay.board.H-1, 0)
	m.placeColumns()
}

func (m *model) headerRows() int {
	more := max(len(m.lay.said)-1, 0)
	if m.h >= 36 || held(m) {
		return 3 + more
	}
	return 2 + more
}

// paneRows is how high the part below the board is at least: a failure that is held
// has its last words there.
func (m *model) paneRows(top int) int {
	if m.insp != nil {
		bottom := m.h - m.footerRows()
		if m.h < 26 {
			return bottom - top
		}
		return max(m.h*3/5, bottom-top-14)
	}
	if held(m) && m.h >= 18 && m.h < 22 {
		return 5
	}
	switch {
	case m.h >= 44:
		return 9
	case m.h >= 34:
		return 7
	case m.h >= 26:
		return 6
	case m.h >= 22:
		return 4
	case m.h >= 16:
		return 3
	}
	return 2
}

func (m *model) placeColumns() {
	ws := m.widths()
	m.lay.tight = ws.tight
	m.lay.cols = m.across(ws, m.first)
	m.lay.strip = m.placeStrip()
	lanes := m.lanes()
	for _, p := range m.lay.cols {
		m.placeColumn(p, lanes)
	}
	for i := range m.lay.cards {
		c := &m.lay.cards[i]
		m.lay.rows = max(m.lay.rows, c.r.Y+c.r.H)
	}
	m.top = min(m.top, max(m.lay.rows-m.lay.board.H, 0))
	for i := range m.lay.cards {
		m.lay.cards[i].r.Y += m.lay.board.Y - m.top
	}
	for i := range m.lay.folds {
		m.lay.folds[i].r.Y += m.lay.board.Y - m.top
	}
}

// lanes is how many rows the edges past columns take.
func (m *model) lanes() int {
	if m.lay.board.H+m.lay.given < 12 {
		return min(m.Graph.Lanes, 1)
	}
	return m.Graph.Lanes
}

// show brings what is selected into view.
func (m *model) show() {
	m.stale = true
	n := m.group()
	if n == nil || m.tooSmall() {
		m.place()
		return
	}
	if !m.accordion() {
		m.showColumn(n.Col)
	}
	m.place()
	from, to := m.extent(n)
	if to-from > m.lay.board.H {
		to = from + m.lay.board.H
	}
	old := m.top
	if from < m.top {
		m.top = from
	} else if to > m.top+m.lay.board.H {
		m.top = to - m.lay.board.H
	}
	if m.top != old {
		m.place()
	}
}

// showColumn scrolls sideways as little as is needed.
func (m *model) showColumn(col int) {
	if col < m.first {
		m.first = col
	}
	for m.first < col && !m.fits(m.first, col) {
		m.first++
	}
	m.fill()
}

// fill scrolls back where there would be room at the right end for columns that
// are out of view at the left.
func (m *model) fill() {
	cols := m.columns()
	for i := len(cols) - 2; i >= 0; i-- {
		if cols[i] < m.first && m.fits(cols[i], cols[len(cols)-1]) {
			m.first = cols[i]
		}
	}
}

// extent is the first row of the selected thing on the board and the one after
// its last.
func (m *model) extent(n *graph.Node) (from, to int) {
	base := m.lay.board.Y - m.top
	for i := range m.lay.cards {
		c := &m.lay.cards[i]
		if c.n != n {
			continue
		}
		if m.sel.object != (plan.Object{}) && c.r.H > m.lay.board.H {
			for j, r := range c.rows {
				if r.o != nil && r.o.Object == m.sel.object {
					return c.r.Y - base + j, c.r.Y - base + j + 3
				}
			}
		}
		return c.r.Y - base, c.r.Y - base + c.r.H
	}
	return m.top, m.top
}
