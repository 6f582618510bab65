package board

import (
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/cards"
)

// layOut lays out the screen. First the board gets the rows it needs. Spare rows go to the state lines of
// a failure, then to lines that the pane is missing, then to the reasons on cards; the pane gets the rest.
// Waiting groups lose their contents if the state lines do not fit, and cards lose details if a diff does
// not fit.
func (m *model) layOut() {
	m.arrange(nil, false, 0)
	if m.TooSmall() {
		return
	}
	b := m.board
	free := b.Area.H - b.Rows
	if lines := m.stateLines(m.H); len(lines)-1 > free { // the failure matters more than the contents of waiting groups
		m.arrange(nil, true, 0)
		free = b.Area.H - b.Rows
		if len(lines)-1 > free && b.ShowsAll { // and than large cards
			if m.arrange(lines, true, 0); b.ShowsAll && b.Rows <= b.Area.H {
				return
			}
			m.arrange(nil, true, 0)
		}
	}
	if more := min(m.missingDiffRows(), m.H/2-m.insp.Area.H); more > free && !b.Narrow() { // a complete diff matters more than full cards
		m.arrange(nil, b.Terse, more)
		if len(b.Folds) > 0 || b.Rows > b.Area.H {
			m.arrange(nil, b.Terse, 0)
		}
		free = b.Area.H - b.Rows
	}
	if free <= 0 || len(b.Cards) == 0 {
		return
	}
	if lines := m.stateLines(1 + free); len(lines) > 1 {
		m.arrange(lines, b.Terse, 0)
		free = b.Area.H - b.Rows
	}
	missing := min(m.missingRows(), free)
	if !b.ShowsAll {
		b.WrapReasons(b.Area.Y + b.Area.H - missing)
	}
	rows := min(b.SteadyRows(), b.Area.H-max(missing, b.MissingPaneRows))
	rows = min(max(b.Rows, rows), b.Area.H-missing)
	m.insp.Area.H += b.Area.H - rows
	m.insp.Area.Y -= b.Area.H - rows
	b.Area.H = rows
}

// stateLines returns the state in at most room lines; nil while the inspector is open, since it
// needs the rows.
func (m *model) stateLines(room int) []string {
	if m.insp.Shown {
		return nil
	}
	return m.header.Lines(room)
}

// arrange lays out the regions with the given state lines. terse omits the contents of waiting
// groups; the pane gets its minimum height and more rows.
func (m *model) arrange(lines []string, terse bool, more int) {
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
	rows := m.paneRows(top-stateRows, bottom) + more
	m.insp.Area = canvas.Rect{X: 0, Y: bottom - rows, W: m.W, H: rows}
	area := canvas.Rect{X: 0, Y: top, W: m.W, H: max(m.insp.Area.Y-top, 0)}
	m.board.Place(cards.Frame{Area: area, Terse: terse, StateRows: stateRows, MissingPaneRows: m.missingFailureRows()})
}
