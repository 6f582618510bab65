package board

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
)

// place lays out what is in view. The board takes the rows that it needs, what is
// said of a failure and the reasons on cards those that they lack, and the pane all
// others.
func (m *model) place() {
	m.arrange(nil, false, 0)
	if m.TooSmall() {
		return
	}
	b := m.board
	free := b.Area.H - b.Rows
	if said := m.said(m.H); len(said)-1 > free { // what failed is worth more than what waits
		m.arrange(nil, true, 0)
		free = b.Area.H - b.Rows
	}
	if more := min(m.pane.Ahead(), m.H/2-m.insp.Area.H); more > free && !b.Narrow() { // a diff is shown whole before any card
		m.arrange(nil, b.Terse, more)
		if len(b.Folds) > 0 || b.Rows > b.Area.H {
			m.arrange(nil, b.Terse, 0)
		}
		free = b.Area.H - b.Rows
	}
	if free <= 0 || len(b.Cards) == 0 {
		return
	}
	if said := m.said(1 + free); len(said) > 1 {
		m.arrange(said, b.Terse, 0)
		free = b.Area.H - b.Rows
	}
	lacks := min(m.pane.Lacks(), free)
	if !b.Whole {
		b.Spend(b.Area.Y + b.Area.H - lacks)
	}
	rows := min(b.SteadyRows(), b.Area.H-max(lacks, b.Wanted))
	rows = min(max(b.Rows, rows), b.Area.H-lacks)
	m.insp.Area.H += b.Area.H - rows
	m.insp.Area.Y -= b.Area.H - rows
	b.Area.H = rows
}

// said is what the state line says on so many lines; an open inspector needs them itself.
func (m *model) said(room int) []string {
	if m.insp.Shown {
		return nil
	}
	return m.header.Lines(room)
}

// arrange lays out the parts of the screen, with so many lines for the state, what is
// in waiting groups or not, and the pane so many rows higher than it has to be.
func (m *model) arrange(said []string, terse bool, more int) {
	m.header.Said, m.insp.Area = said, canvas.Rect{}
	if m.TooSmall() {
		m.board.Reset(cards.Frame{})
		return
	}
	given := max(len(said)-1, 0)
	top, bottom := m.header.Rows(), m.H-1
	for _, r := range m.replays {
		bottom -= r.Rows()
	}
	rows := m.pane.Rows(top-given, bottom) + more
	m.insp.Area = canvas.Rect{X: 0, Y: bottom - rows, W: m.W, H: rows}
	area := canvas.Rect{X: 0, Y: top, W: m.W, H: max(m.insp.Area.Y-top, 0)}
	m.board.Lay(cards.Frame{Area: area, Terse: terse, Given: given, Wanted: m.pane.Wants()})
}
