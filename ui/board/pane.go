package board

import (
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// The pane is the part of the screen below the board. It shows the selection's status and diff,
// the open inspector, or the final report.

// showsReport reports whether the pane shows the report: after a success or a rollback, until the user moves the selection.
// After another failure, and if an object degrades after the end, the pane shows the cause instead.
func (m *model) showsReport() bool {
	undone := m.State.HasRollback() && !m.State.RollbackFailed()
	return m.HasReport() && m.Follow && !m.insp.Shown && (m.State.Status == event.Succeeded || undone) && (m.Observed == nil || m.Tally.Degraded == 0)
}

// slackRows is how many rows more than it needs the pane keeps, so that it moves less with the selection.
const slackRows = 2

// paneRows returns the minimum height of the pane if the board and the pane share the rows from
// top to bottom: what it needs, up to its share.
func (m *model) paneRows(top, bottom int) int {
	share := m.paneShare(top, bottom)
	switch {
	case !m.insp.Shown && m.board.Narrow(): // the list keeps its place
		return share
	case !m.insp.Shown:
		return min(share, m.paneNeed()+slackRows)
	}
	rows := min(share, m.insp.Rows(m.W))
	if bottom-top-rows < minBoardRows {
		return share
	}
	return rows
}

// minBoardRows is the least height of a board next to the inspector on a small screen.
const minBoardRows = 6

// paneNeed returns how many rows the pane needs while the inspector is closed.
func (m *model) paneNeed() int {
	w := m.W - 3
	switch {
	case m.showsReport():
		return 1 + len(m.reportLines(w))
	case m.Group() == nil:
		return 1
	}
	return 1 + len(m.insp.Subject().Why(m.H, w))
}

// paneShare returns the most rows that the pane takes from a board that could use them.
func (m *model) paneShare(top, bottom int) int {
	if m.insp.Shown {
		if m.H < 26 {
			return bottom - top
		}
		return max(m.H*3/5, bottom-top-14)
	}
	return m.usualPaneRows()
}

// usualPaneRows returns the most rows that the closed inspector takes from a board that could use them.
func (m *model) usualPaneRows() int {
	if m.Held() && m.H >= 18 && m.H < 22 {
		return 5
	}
	switch {
	case m.board.Narrow() && m.H >= 16: // it shows the objects that the list does not
		return m.H / 3
	case m.H >= 34:
		return 7
	case m.H >= 26:
		return 6
	case m.H >= 22:
		return 4
	case m.H >= 16:
		return 3
	}
	return 2
}

func (m *model) drawPane() {
	area := m.insp.Area
	if area.H <= 0 {
		return
	}
	switch {
	case m.insp.Shown:
		m.insp.Draw()
	case m.showsReport():
		m.paneText("report", m.reportLines(area.W-3), "o")
	case m.Group() == nil:
		m.paneText("", nil, "")
	default:
		key := ""
		if len(m.insp.PaneDiff(area.W-3)) > 0 {
			key = "d"
		}
		m.paneText(m.insp.Title(), m.paneLines(area.H-1, area.W-3), key)
	}
}

// paneText draws lines below a heading, which counts those that do not fit and names the key that shows them, "" for none.
func (m *model) paneText(title string, lines []canvas.Line, key string) {
	area := m.insp.Area
	m.Canvas.Heading(area.Y, title)
	for i, l := range lines[:min(len(lines), area.H-1)] {
		m.Canvas.Line(2, area.Y+1+i, area.W-3, l)
	}
	if more := len(lines) - (area.H - 1); more > 0 {
		said := " " + text.Count(more, "more line")
		if key != "" {
			said += ", press " + key
		}
		m.Canvas.PutRight(area.W-2, area.Y, theme.Quiet, said+" ")
	}
}

// paneLines explain the status of the selection, then its diff, or the objects of the group if
// they fit.
func (m *model) paneLines(room, w int) []canvas.Line {
	about := m.insp.Subject()
	lines := about.Why(room, w)
	if diff := m.insp.PaneDiff(w); len(diff) > 0 { // it matters more than who needs the group, and on a small screen than what the group waits for
		at := len(lines)
		if about.NeededBy() != nil {
			at--
		}
		if len(lines)+len(diff) > room {
			at = min(at, 1)
			for at < len(lines) && strings.HasPrefix(lines[at].Text(), canvas.Indent) { // the status takes several lines
				at++
			}
		}
		return m.wrapInto(slices.Insert(lines, at, diff...), room, w)
	}
	lines = m.wrapInto(lines, room, w)
	switch {
	case m.openRelease != nil:
		if groups := about.Groups(); len(lines)+2 < room {
			return append(lines, groups[:min(len(groups), room-len(lines))]...)
		}
	case len(about.Node.Objects) > 1:
		if objects := about.Objects(); len(lines)+len(objects) <= room {
			return append(lines, objects...)
		}
		if names := about.Names(); names != nil && len(lines) < room {
			return slices.Insert(lines, 1, names)
		}
	}
	return lines
}

// wrapInto wraps lines in their order as long as room lines hold them all. Those after that are cut.
func (m *model) wrapInto(lines []canvas.Line, room, w int) (out []canvas.Line) {
	spare := max(room-len(lines), 0)
	for _, l := range lines {
		rows := canvas.WrapLines([]canvas.Line{l}, w)
		more := min(len(rows)-1, spare)
		spare -= more
		switch {
		case more == 0: // cut where it is drawn
			out = append(out, l)
		case more < len(rows)-1:
			out = append(out, rows[:more+1]...)
			out[len(out)-1] = append(slices.Clip(out[len(out)-1]), canvas.Piece{Role: theme.Quiet, Text: " " + m.Theme.Lines.Ellipsis})
		default:
			out = append(out, rows...)
		}
	}
	return out
}

// missingRows returns how many more lines the pane needs for the report, or for the status and the diff
// of the selection.
func (m *model) missingRows() int {
	if m.showsReport() {
		return m.overflow(m.reportLines(m.insp.Area.W - 3))
	}
	return max(m.missingWhyRows(0), m.missingDiffRows())
}

// missingDiffRows returns how many more lines the pane needs for the complete diff of the selection.
func (m *model) missingDiffRows() int {
	w := m.insp.Area.W - 3
	diff := m.insp.PaneDiff(w)
	if len(diff) == 0 {
		return 0
	}
	return m.overflow(slices.Concat(m.insp.Subject().Why(0, w), diff))
}

// missingFailureRows returns how many more lines the pane needs for the complete diagnosis of a selected
// failure.
func (m *model) missingFailureRows() int {
	if n := m.Group(); n == nil || n.Status != event.Failed {
		return 0
	}
	return m.missingWhyRows(m.H)
}

func (m *model) missingWhyRows(room int) int {
	if m.Group() == nil || m.insp.Shown {
		return 0
	}
	return m.overflow(m.insp.Subject().Why(room, m.insp.Area.W-3))
}

// overflow returns how many of the lines do not fit into the pane.
func (m *model) overflow(lines []canvas.Line) int { return max(len(lines)-(m.insp.Area.H-1), 0) }
