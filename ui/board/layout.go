package board

import (
	"slices"

	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
)

// besideFrom is the width of a screen from which the inspector can be beside the board.
const besideFrom = 180

// layOut lays out the screen. On a wide screen the inspector is beside the board if that shows more.
func (m *model) layOut() {
	m.beside = 0
	m.layOutBelow()
	if m.W < besideFrom || !m.insp.Shown || m.TooSmall() {
		return
	}
	hidden := m.hiddenRows()
	if hidden == 0 {
		return
	}
	m.beside = m.W * 2 / 5
	if m.arrange(nil, false); m.hiddenRows() >= hidden {
		m.beside = 0
		m.layOutBelow()
	}
}

// hiddenRows returns how many rows of the inspector and of cards are out of view.
func (m *model) hiddenRows() int {
	return max(m.insp.Rows(m.insp.Area.W)-m.insp.Area.H, 0) + m.board.HiddenRows()
}

// layOutBelow lays out the screen with the pane below the board. In columns, the board gets the rows that do not depend on the
// run (see usualPaneRows). Its free rows go to the state lines of a failure, then to lines that the pane is missing, then to the
// reasons on cards; the pane gets the rest.
func (m *model) layOutBelow() {
	m.arrange(nil, false)
	if m.TooSmall() {
		return
	}
	b := m.board
	free := b.Area.H - b.Rows
	if lines := m.header.Lines(m.H); b.Narrow() && !m.insp.Shown && len(lines)-1 > free { // the failure matters more than the contents of waiting groups
		m.arrange(nil, true)
		free = b.Area.H - b.Rows
	}
	if len(b.Cards) == 0 {
		return
	}
	spare := 0 // rows of the pane
	if !m.insp.Shown && !b.Narrow() {
		spare = max(m.insp.Area.H-m.paneNeed(), 0)
	}
	if free+spare <= 0 {
		m.wrapReasons(0)
		return
	}
	forState := max(free, 0) + spare
	if b.Narrow() { // the pane explains the selected failure completely
		forState = max(free-m.missingFailureRows(), 0)
	}
	if lines, was := m.header.Lines(1+forState), m.places(); len(lines) > 1 {
		if m.arrange(lines, b.Terse); m.insp.Shown && !slices.Equal(m.places(), was) { // with a tab, the groups matter more
			m.arrange(nil, b.Terse)
		}
		free = b.Area.H - b.Rows
	}
	if free <= 0 {
		m.wrapReasons(0)
		return
	}
	missing := min(m.missingRows(), free)
	m.wrapReasons(missing)
	rows := min(b.Rows, b.Area.H-missing)
	if b.Narrow() {
		rows = min(max(b.Rows, min(b.SteadyRows(), b.Area.H-max(missing, b.MissingPaneRows))), b.Area.H-missing)
	}
	m.insp.Area.H += b.Area.H - rows
	m.insp.Area.Y -= b.Area.H - rows
	b.Area.H = rows
}

// places returns where the cards are on the board.
func (m *model) places() (all []canvas.Rect) {
	for _, c := range m.board.Cards {
		c.Rect.Y -= m.board.Area.Y
		all = append(all, c.Rect)
	}
	return all
}

// wrapReasons wraps the reasons on cards, and leaves some rows of the board to the pane. Bands have done so themselves.
func (m *model) wrapReasons(missing int) {
	if b := m.board; !b.ShowsAll && !b.Narrow() {
		b.WrapReasons(b.Area.Y + b.Area.H - missing)
	}
}

// arrange lays out the regions with the given state lines. terse omits the contents of waiting groups in a list.
func (m *model) arrange(lines []string, terse bool) {
	m.header.StateLines, m.insp.Area = lines, canvas.Rect{}
	if m.TooSmall() {
		m.board.Reset(cards.Frame{})
		return
	}
	stateRows := max(len(lines)-1, 0)
	top, bottom := m.header.Rows(), m.H-1
	if m.replay != nil {
		bottom-- // the timeline
	}
	area := canvas.Rect{X: 0, Y: top, W: m.W, H: max(bottom-top, 0)}
	usual, room := max(bottom-m.header.UsualRows()-m.usualPaneRows(), 0), 0
	switch {
	case m.beside > 0:
		area.W -= m.beside
		m.insp.Area = canvas.Rect{X: area.W, Y: top, W: m.beside, H: area.H}
	case m.insp.Shown || m.board.Narrow():
		rows := m.paneRows(top-stateRows, bottom)
		m.insp.Area = canvas.Rect{X: 0, Y: bottom - rows, W: m.W, H: rows}
	default: // the pane gives up the rows of the state lines
		room = usual
		rows := max(area.H-room, min(m.paneNeed(), m.usualPaneRows()-max(top-stateRows-m.header.UsualRows(), 0)), 0)
		m.insp.Area = canvas.Rect{X: 0, Y: bottom - rows, W: m.W, H: rows}
	}
	if m.beside == 0 {
		area.H = max(m.insp.Area.Y-top, 0)
	}
	m.board.Place(cards.Frame{Area: area, Terse: terse, StateRows: stateRows, Room: max(room, area.H), UsualRoom: usual, MissingPaneRows: m.missingFailureRows()})
}
