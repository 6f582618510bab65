package board

import (
	"slices"

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
	lines := m.paneLines(m.selected(), p.H-1, p.W-3)
	for i, l := range lines[:min(len(lines), p.H-1)] {
		m.canvas.Line(2, p.Y+1+i, p.W-3, l)
	}
	if len(lines) > p.H-1 {
		m.canvas.PutRight(p.W-1, p.Y+p.H-1, theme.Quiet, " "+m.Theme.Lines.Ellipsis)
	}
}

// paneLines say why the selected thing is as it is; where there is room for more, what
// is going to happen to it, or the objects of the group.
func (m *model) paneLines(about inspector.Subject, room, w int) []canvas.Line {
	lines := about.Why(about.Node, about.Object, room, w)
	if whole := canvas.WrapLines(lines, w); len(whole) <= room {
		lines = whole
	}
	switch {
	case m.foresees() && len(lines)+2 > room: // what happens next counts for more than who waits
		return slices.Insert(lines, 1, m.changes.Lines(about, w)...)
	case m.foresees():
		return slices.Concat(lines, []canvas.Line{nil}, m.changes.Lines(about, w))
	case about.Object == nil && len(about.Node.Objects) > 1:
		if objects := about.Objects(about.Node); len(lines)+len(objects) <= room {
			return append(lines, objects...)
		}
	}
	return lines
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
