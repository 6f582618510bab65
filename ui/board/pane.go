package board

import (
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
)

// drawPane draws what is below the board: why the selected thing is as it is,
// or the inspector.
func (m *model) drawPane() {
	p := m.lay.pane
	if p.H <= 0 {
		return
	}
	if m.insp != nil {
		m.drawInspector(p)
		return
	}
	if m.reports() {
		m.drawReport(p)
		return
	}
	n := m.group()
	title := ""
	if n != nil {
		title = m.spotTitle()
	}
	m.canvas.Head(p.Y, title)
	if n == nil {
		return
	}
	about := inspector.Subject{Picture: &m.Picture, Node: n, Object: m.object()}
	lines := about.Why(n, about.Object, p.H-1, p.W-3)
	if whole := canvas.WrapLines(lines, p.W-3); len(whole) <= p.H-1 {
		lines = whole
	}
	for i, l := range lines[:min(len(lines), p.H-1)] {
		m.canvas.Line(2, p.Y+1+i, p.W-3, l)
	}
	if len(lines) > p.H-1 {
		m.canvas.PutRight(p.W-1, p.Y+p.H-1, theme.Quiet, " "+m.Theme.Lines.Ellipsis)
	}
}

// spotTitle names what is selected in full.
func (m *model) spotTitle() string {
	n := m.group()
	if n == nil {
		return ""
	}
	title := n.ID
	if o := m.object(); o != nil && o.Object.String() != n.Name {
		title += " " + m.Theme.Lines.Dot + " " + o.Object.String()
	}
	return title
}
