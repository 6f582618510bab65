package board

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/report"
	"lockstep/ui/board/screen"
)

// pane is the part of the screen below the board: status and diff of the selection, the open
// inspector, or the final report.
type pane struct {
	*screen.Screen
	insp   *inspector.Inspector
	report *report.Report
}

// reports reports whether the pane shows the report: after a success, until the user
// moves. After a failure it shows the cause.
func (p *pane) reports() bool {
	return p.HasReport() && p.Follow && !p.insp.Shown && p.State.Status == event.Succeeded
}

// rows returns the minimum height of the pane between two rows of the screen.
func (p *pane) rows(top, bottom int) int {
	if p.insp.Shown {
		if p.H < 26 {
			return bottom - top
		}
		return max(p.H*3/5, bottom-top-14)
	}
	if p.Held() && p.H >= 18 && p.H < 22 {
		return 5
	}
	switch {
	case p.H >= 44:
		return 9
	case p.H >= 34:
		return 7
	case p.H >= 26:
		return 6
	case p.H >= 22:
		return 4
	case p.H >= 16:
		return 3
	}
	return 2
}

func (p *pane) draw() {
	area := p.insp.Area
	if area.H <= 0 {
		return
	}
	switch {
	case p.insp.Shown:
		p.insp.Draw()
	case p.reports():
		p.text("report", p.report.Lines(area.W-3), " o shows all")
	case p.Group() == nil:
		p.text("", nil, "")
	default:
		p.text(p.insp.Title(), p.lines(area.H-1, area.W-3), "")
	}
}

// text draws lines below a heading; rest says how to see the lines that do not fit.
func (p *pane) text(title string, lines []canvas.Line, rest string) {
	area := p.insp.Area
	p.Canvas.Head(area.Y, title)
	for i, l := range lines[:min(len(lines), area.H-1)] {
		p.Canvas.Line(2, area.Y+1+i, area.W-3, l)
	}
	if len(lines) > area.H-1 {
		p.Canvas.PutRight(area.W-1, area.Y+area.H-1, theme.Quiet, " "+p.Theme.Lines.Ellipsis+rest)
	}
}

// lines explain the status of the selection, then its diff, or the objects of the group if
// they fit.
func (p *pane) lines(room, w int) []canvas.Line {
	about := p.insp.Selected()
	lines := about.Why(room, w)
	if whole := canvas.WrapLines(lines, w); len(whole) <= room {
		lines = whole
	}
	switch {
	case p.insp.ShowsDiff() && len(lines)+2 > room: // the diff matters more than the gates
		return slices.Insert(lines, 1, p.insp.Diff(w)...)
	case p.insp.ShowsDiff():
		return slices.Concat(lines, []canvas.Line{nil}, p.insp.Diff(w))
	case len(about.Node.Objects) > 1:
		if objects := about.Objects(); len(lines)+len(objects) <= room {
			return append(lines, objects...)
		}
	}
	return lines
}

// missingRows returns how many more lines the pane needs to explain why the selection is not ready.
func (p *pane) missingRows() int {
	if p.reports() {
		return p.over(p.report.Lines(p.insp.Area.W - 3))
	}
	return max(p.missingWhyRows(0), p.missingDiffRows())
}

// missingDiffRows returns how many more lines the pane needs for the whole diff of the selection.
func (p *pane) missingDiffRows() int {
	if p.Group() == nil || !p.insp.ShowsDiff() {
		return 0
	}
	w := p.insp.Area.W - 3
	return p.over(slices.Concat(p.insp.Selected().Why(0, w), []canvas.Line{nil}, p.insp.Diff(w)))
}

// missingFailureRows returns how many more lines the pane needs for the whole diagnosis of a failure.
func (p *pane) missingFailureRows() int {
	if n := p.Group(); n == nil || n.Status != event.Failed {
		return 0
	}
	return p.missingWhyRows(p.H)
}

func (p *pane) missingWhyRows(room int) int {
	if p.Group() == nil || p.insp.Shown {
		return 0
	}
	return p.over(p.insp.Selected().Why(room, p.insp.Area.W-3))
}

// over returns how many lines do not fit.
func (p *pane) over(lines []canvas.Line) int { return max(len(lines)-(p.insp.Area.H-1), 0) }
