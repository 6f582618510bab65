package form

import (
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// choices name what can be chosen for each field.
var choices = map[Field]string{
	Name: "release", Chart: "chart", Version: "version", Values: "values file", Keep: "old value", Namespace: "namespace", Revision: "revision",
}

// drawRows draws the suggestions for the field with the focus, and the details of the selected one: at the right, or below.
func (m *Form) drawRows(y int) {
	f, found, rows := m.current().field, m.found(), m.rows()
	m.Canvas.Heading(y, choices[f]+"s")
	y++
	area := canvas.Rect{X: 0, Y: y, W: m.W, H: m.H - 1 - y}
	switch {
	case found.err != nil && len(rows) == 0:
		m.drawText(area, theme.Stopped, "cannot list them: "+found.err.Error())
		return
	case !found.done && f != Keep:
		m.drawText(area, theme.Quiet, "reading "+m.Theme.Lines.Ellipsis)
		return
	case len(rows) == 0:
		m.drawText(area, theme.Quiet, m.whyNone(len(found.list)))
		return
	}
	at := m.selected()
	if at < 0 || len(rows[at].Detail) == 0 {
		m.drawList(area, rows, at)
		return
	}
	detail := area
	if m.W >= 120 {
		area.W = min(max(rowWidth(rows)+5, m.W/3), m.W/2)
		detail.X, detail.W = area.W+1, m.W-area.W-1
		m.Canvas.PutFit(detail.X, area.Y-1, detail.W-1, theme.Strong, " "+m.detailTitle(rows[at])+" ")
		for n := range area.H {
			m.Canvas.Put(area.W, area.Y+n, theme.Faint, m.Theme.Lines.Light[5])
		}
	} else {
		area.H = min(len(rows), max(area.H/3, 3))
		m.Canvas.Heading(area.Y+area.H, m.detailTitle(rows[at]))
		detail.Y, detail.H = area.Y+area.H+1, detail.H-area.H-1
	}
	m.drawList(area, rows, at)
	m.drawDetail(detail, rows[at].Detail)
}

// detailTitle says what the details of a row are: what a rollback to it changes, or how its values differ.
func (m *Form) detailTitle(s Suggestion) string {
	if m.current().field == Values {
		return "values of " + s.Value
	}
	return "rollback to revision " + s.Value + " changes"
}

// whyNone says why there is nothing to choose.
func (m *Form) whyNone(hidden int) string {
	switch f := m.current().field; {
	case hidden > 0:
		return "none of " + text.Count(hidden, choices[f]) + " matches the text"
	case f == Name && m.o.Operation == Install:
		return "type a name for the new release"
	case f == Revision && m.input().Name != "":
		return "the release has no earlier revision"
	case f == Values:
		return "no values files here; e opens an editor"
	}
	return "no " + choices[m.current().field] + "s found; type it"
}

func (m *Form) drawText(r canvas.Rect, role theme.Role, s string) {
	for n, l := range canvas.Wrap(s, r.W-labelX-1) {
		if n < r.H {
			m.Canvas.Put(r.X+labelX, r.Y+n, role, l)
		}
	}
}

// rowWidth returns the width of the widest row.
func rowWidth(rows []Suggestion) (w int) {
	name := nameWidth(rows)
	for _, s := range rows {
		w = max(w, name+2+canvas.Width(canvas.Clean(s.About)))
	}
	return w
}

func nameWidth(rows []Suggestion) (w int) {
	for _, s := range rows {
		w = max(w, canvas.Width(canvas.Clean(s.Value)))
	}
	return w
}

// drawList draws rows, and scrolls so that the selected one is visible.
func (m *Form) drawList(r canvas.Rect, rows []Suggestion, at int) {
	l, cv := &m.lists, m.Canvas
	l.page = r.H
	if at >= 0 {
		l.top = min(max(l.top, at-r.H+1), at)
	}
	l.top = max(min(l.top, len(rows)-r.H), 0)
	name := min(nameWidth(rows), max(r.W/2-labelX, 8))
	for n, s := range rows[l.top:min(l.top+r.H, len(rows))] {
		y, role := r.Y+n, theme.Text
		if l.top+n == at {
			cv.Highlight(r.X+1, y, r.W-2)
			cv.Put(r.X+labelX-2, y, theme.Accent, m.Theme.Lines.Cursor)
			role = theme.Accent
		}
		value := canvas.FitMiddle(canvas.Clean(s.Value), name, m.Theme.Lines.Ellipsis)
		cv.Put(r.X+labelX, y, role, value)
		from := r.X + labelX + name + 2
		cv.PutFit(from, y, r.X+r.W-2-from, theme.Quiet, s.About)
	}
	cv.ScrollBar(r.X+r.W-1, r, l.top, len(rows))
}

// drawDetail draws the details of the selected row.
func (m *Form) drawDetail(r canvas.Rect, detail []Line) {
	lines := wrap(detail, r.W-labelX)
	l := &m.lists
	l.page = r.H
	l.down = min(l.down, max(len(lines)-r.H, 0))
	for n, line := range lines[l.down:min(l.down+r.H, len(lines))] {
		m.Canvas.Line(r.X+2, r.Y+n, r.W-3, line)
	}
	m.Canvas.ScrollBar(r.X+r.W-1, r, l.down, len(lines))
}
