package inspector

import (
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// tabPlaces returns the places of the tabs' names.
func (r *Region) tabPlaces() []canvas.Rect {
	p := r.Area
	total := 0
	for _, name := range TabNames {
		total += len(name) + 3
	}
	x := p.X + p.W - total
	if r.tabsBelow() {
		x = p.X + 2
	}
	places := make([]canvas.Rect, Tabs)
	for k, name := range TabNames {
		y := p.Y
		if r.tabsBelow() {
			y++
		}
		places[k] = canvas.Rect{X: x, Y: y, W: len(name) + 2, H: 1}
		x += len(name) + 3
		if r.W < 68 {
			x--
		}
	}
	r.scrollTabs(places)
	return places
}

// scrollTabs scrolls the open tab into view.
func (r *Region) scrollTabs(places []canvas.Rect) {
	open := places[r.Tab]
	by := max(open.X+open.W+1-r.W, 0)
	for k := range places {
		places[k].X -= by
	}
}

// tabsBelow reports whether the tabs go below the title.
func (r *Region) tabsBelow() bool { return r.W < 100 }

func (r *Region) Draw() {
	p := r.Area
	defer r.Canvas.Within(p)()
	r.Canvas.Head(p.Y, canvas.Fit(r.Title(), r.titleRoom(), r.Theme.Lines.Ellipsis))
	for k, at := range r.tabPlaces() {
		if at.X < 0 {
			continue
		}
		role := theme.Quiet
		if Tab(k) == r.Tab {
			role = theme.Accent
			r.Canvas.Mark(at.X, at.Y, at.W)
		}
		r.Canvas.Put(at.X, at.Y, role, " "+TabNames[k]+" ")
	}
	body, head := r.tabBody()
	if body.H <= 0 {
		return
	}
	for i, l := range head {
		r.Canvas.Line(body.X, body.Y+i, body.W, l)
	}
	body.Y, body.H = body.Y+len(head), body.H-len(head)
	lines := r.Lines(r.Selected(), body.W)
	r.Hits = r.matched(lines)
	pg := &r.Page
	pg.Last = max(len(lines)-body.H, 0)
	if pg.End {
		pg.Top = pg.Last
	}
	pg.Top = min(pg.Top, pg.Last)
	for i, l := range lines[pg.Top:min(pg.Top+body.H, len(lines))] {
		r.Canvas.Line(body.X, body.Y+i, body.W, l)
		for _, f := range r.Found(l) {
			r.Canvas.Mark(body.X+f[0], body.Y+i, min(f[1], body.W)-f[0])
		}
		if r.At() == pg.Top+i {
			r.Canvas.Put(0, body.Y+i, theme.Key, r.Theme.Lines.Cursor)
		}
	}
	r.Canvas.ScrollBar(r.W-1, body, pg.Top, len(lines))
}

// tabBody returns the area of the open tab's text, and its lines that do not scroll.
func (r *Region) tabBody() (body canvas.Rect, head []canvas.Line) {
	p := r.Area
	body = canvas.Rect{X: 2, Y: p.Y + 1, W: p.W - 4, H: p.H - 1}
	if r.tabsBelow() {
		body.Y++
		body.H--
	}
	if head = r.Head(r.Selected(), body.W); len(head) >= body.H {
		head = nil
	}
	return body, head
}

func (r *Region) titleRoom() int {
	if r.tabsBelow() {
		return r.W - 6
	}
	return r.tabPlaces()[0].X - 5
}
