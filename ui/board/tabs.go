package board

import (
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/inspector"
)

// tabPlaces are where the names of the tabs stand.
func (m *model) tabPlaces() []canvas.Rect {
	p := m.lay.pane
	total := 0
	for _, name := range inspector.TabNames {
		total += len(name) + 3
	}
	x := p.X + p.W - total
	if m.tabsBelow() {
		x = p.X + 2
	}
	places := make([]canvas.Rect, inspector.Tabs)
	for k, name := range inspector.TabNames {
		y := p.Y
		if m.tabsBelow() {
			y++
		}
		places[k] = canvas.Rect{X: x, Y: y, W: len(name) + 2, H: 1}
		x += len(name) + 3
		if m.w < 68 {
			x--
		}
	}
	m.scrollTabs(places)
	return places
}

// scrollTabs brings the open tab into view where there is no room for all.
func (m *model) scrollTabs(places []canvas.Rect) {
	open := places[m.insp.Tab]
	by := max(open.X+open.W+1-m.w, 0)
	for k := range places {
		places[k].X -= by
	}
}

// tabsBelow reports whether the tabs need a line of their own.
func (m *model) tabsBelow() bool { return m.w < 100 }

// drawInspector draws the open inspector.
func (m *model) drawInspector(p canvas.Rect) {
	restore := m.canvas.Within(p)
	defer restore()
	m.canvas.Head(p.Y, canvas.Fit(m.spotTitle(), m.titleRoom(), m.Theme.Lines.Ellipsis))
	for k, r := range m.tabPlaces() {
		if r.X < 0 {
			continue
		}
		role := theme.Quiet
		if inspector.Tab(k) == m.insp.Tab {
			role = theme.Accent
			m.canvas.Mark(r.X, r.Y, r.W)
		}
		m.canvas.Put(r.X, r.Y, role, " "+inspector.TabNames[k]+" ")
	}
	body, head := m.tabBody()
	if body.H <= 0 {
		return
	}
	for i, l := range head {
		m.canvas.Line(body.X, body.Y+i, body.W, l)
	}
	body.Y, body.H = body.Y+len(head), body.H-len(head)
	lines := m.insp.Lines(m.selected(), body.W)
	m.found = m.matched(lines)
	pg := &m.insp.Page
	pg.Last = max(len(lines)-body.H, 0)
	if pg.End {
		pg.Top = pg.Last
	}
	pg.Top = min(pg.Top, pg.Last)
	for i, l := range lines[pg.Top:min(pg.Top+body.H, len(lines))] {
		m.canvas.Line(body.X, body.Y+i, body.W, l)
		for _, f := range m.insp.Found(l) {
			m.canvas.Mark(body.X+f[0], body.Y+i, min(f[1], body.W)-f[0])
		}
		if m.insp.At() == pg.Top+i {
			m.canvas.Put(0, body.Y+i, theme.Key, m.Theme.Lines.Cursor)
		}
	}
	m.drawPageScroll(body, len(lines))
}

// tabBody is where the text of the open tab is, and what of it does not scroll.
func (m *model) tabBody() (body canvas.Rect, head []canvas.Line) {
	p := m.lay.pane
	body = canvas.Rect{X: 2, Y: p.Y + 1, W: p.W - 4, H: p.H - 1}
	if m.tabsBelow() {
		body.Y++
		body.H--
	}
	if head = m.insp.Head(m.selected(), body.W); len(head) >= body.H {
		head = nil
	}
	return body, head
}

func (m *model) titleRoom() int {
	if m.tabsBelow() {
		return m.w - 6
	}
	return m.tabPlaces()[0].X - 5
}

// drawPageScroll shows which part of a text is in view.
func (m *model) drawPageScroll(body canvas.Rect, n int) {
	if n <= body.H {
		return
	}
	size := max(body.H*body.H/n, 1)
	at := m.insp.Page.Top * (body.H - size) / max(n-body.H, 1)
	for i := range size {
		m.canvas.Put(m.w-1, body.Y+at+i, theme.Faint, m.Theme.Lines.Heavy[5])
	}
}
