package inspector

import (
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// tabRects returns the areas of the tabs' names, scrolled so that the open tab is in view.
func (i *Inspector) tabRects() []canvas.Rect {
	at, gap := canvas.Rect{X: i.Area.X + i.Area.W, Y: i.Area.Y, H: 1}, 3
	for _, name := range TabNames {
		at.X -= len(name) + gap
	}
	if i.tabsBelow() {
		at.X, at.Y = i.Area.X+2, at.Y+1
	}
	if i.Area.W < 68 {
		gap--
	}
	rects := make([]canvas.Rect, Tabs)
	for k, name := range TabNames {
		at.W = len(name) + 2
		rects[k] = at
		at.X += len(name) + gap
	}
	open := rects[i.Tab]
	by := max(open.X+open.W+1-i.Area.X-i.Area.W, 0)
	for k := range rects {
		rects[k].X -= by
	}
	return rects
}

// tabsBelow reports whether the tabs have their own line below the title.
func (i *Inspector) tabsBelow() bool { return i.Area.W < 100 }

func (i *Inspector) Draw() {
	cv, tabs := i.Canvas, i.tabRects()
	defer cv.Within(i.Area)()
	room := tabs[0].X - i.Area.X - 5
	if i.tabsBelow() {
		room = i.Area.W - 6
	}
	cv.HeadingOf(i.Area, canvas.Fit(i.Title(), room, i.Theme.Lines.Ellipsis))
	for k, at := range tabs {
		if at.X < i.Area.X {
			continue
		}
		role := theme.Quiet
		if Tab(k) == i.Tab {
			role = theme.Accent
			cv.Highlight(at.X, at.Y, at.W)
		}
		cv.Put(at.X, at.Y, role, " "+TabNames[k]+" ")
	}
	body, head := i.tabBody()
	if body.H <= 0 {
		return
	}
	for n, l := range head {
		cv.Line(body.X, body.Y+n, body.W, l)
	}
	body.Y, body.H = body.Y+len(head), body.H-len(head)
	lines, pg := i.lines(body.W), &i.Page
	pg.Last = max(len(lines)-body.H, 0)
	if pg.End {
		pg.Top = pg.Last
	}
	pg.Top = min(pg.Top, pg.Last)
	for n, l := range lines[pg.Top:min(pg.Top+body.H, len(lines))] {
		cv.Line(body.X, body.Y+n, body.W, l)
		for _, f := range found(l, i.search.query) {
			cv.Highlight(body.X+f[0], body.Y+n, min(f[1], body.W)-f[0])
		}
		if i.search.query != "" && i.search.at == pg.Top+n {
			cv.Put(i.Area.X, body.Y+n, theme.Key, i.Theme.Lines.Cursor)
		}
	}
	cv.ScrollBar(i.Area.X+i.Area.W-1, body, pg.Top, len(lines))
}

// loadingRows is the height that the inspector keeps for an answer from the cluster.
const loadingRows = 8

// Rows returns how many rows the inspector needs at a width to show all of the open tab.
func (i *Inspector) Rows(w int) int {
	width, rows := w-4, 1
	if w < 100 {
		rows++
	}
	if n := len(i.logs.lines); n > i.H && i.Tab == TabLogs { // do not wrap them all
		return n
	}
	rows += len(i.head(width)) + len(i.lines(width))
	if i.busy {
		rows = max(rows, loadingRows)
	}
	return rows
}

// tabBody returns the area of the open tab, and its lines that do not scroll.
func (i *Inspector) tabBody() (body canvas.Rect, head []canvas.Line) {
	top := i.tabRects()[0].Y + 1
	body = canvas.Rect{X: i.Area.X + 2, Y: top, W: i.Area.W - 4, H: i.Area.Y + i.Area.H - top}
	if head = i.head(body.W); len(head) >= body.H {
		head = nil
	}
	return body, head
}
