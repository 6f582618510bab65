package board

import "lockstep/ui/board/inspector"

import ()

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
	for i, l := range about.Why(n, about.Object, p.H-1, p.W-3) {
		if i >= p.H-1 {
			break
		}
		m.canvas.Line(2, p.Y+1+i, p.W-3, l)
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
