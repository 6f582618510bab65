package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// drawBoard draws the columns in view.
func (m *model) drawBoard() {
	c := m.canvas
	m.drawTitles()
	restore := c.Within(m.lay.board)
	defer restore()
	if len(m.lay.cols) == 0 {
		m.drawEmpty()
		return
	}
	m.drawEdges()
	for i := range m.lay.cards {
		m.drawCard(&m.lay.cards[i])
	}
	for i := range m.lay.folds {
		m.drawFold(&m.lay.folds[i])
	}
	m.drawScroll()
}

// drawEmpty says why there is nothing on the board.
func (m *model) drawEmpty() {
	text := "preparing " + m.Theme.Lines.Ellipsis
	if m.filter.on() {
		text = "nothing matches the filter"
	}
	b := m.lay.board
	m.canvas.PutFit(b.X+2, b.Y+min(1, b.H-1), b.W-4, theme.Quiet, text)
}

// drawCard draws a group.
func (m *model) drawCard(c *card) {
	b := m.lay.board
	if c.r.Y >= b.Y+b.H || c.r.Y+c.r.H <= b.Y {
		return
	}
	if c.flat {
		m.drawFlat(c.n, c.r.X, c.r.Y, c.r.W)
		return
	}
	m.drawFrame(c)
	inner := canvas.Rect{X: c.r.X + 2, Y: c.r.Y + 1, W: c.r.W - 4, H: c.r.H - 2}
	if m.lay.tight {
		inner.X, inner.W = inner.X-1, inner.W+2
	}
	for i, r := range c.rows {
		m.drawRow(c, r, i, inner.X, inner.Y+i, inner.W)
	}
}

// chosen reports whether the group itself or something in it is selected.
func (m *model) chosen(n *graph.Node) bool { return n.Unit() == m.sel.Unit }

// frameRole is the role of a card's border: it leads the eye to where work is.
func frameRole(n *graph.Node) theme.Role {
	switch n.Status {
	case event.Running:
		return theme.Busy
	case event.Failed:
		return theme.Bad
	case event.Held:
		return theme.Stopped
	}
	return theme.Faint
}

// drawFrame draws a card's border with the group's name and how far it is.
func (m *model) drawFrame(c *card) {
	cv, l, r := m.canvas, m.Theme.Lines, c.r
	role := frameRole(c.n)
	edge := l.Light
	corner := l.Round
	if m.chosen(c.n) {
		edge = l.Heavy
		corner = [4]string{edge[6], edge[12], edge[3], edge[9]}
		if role == theme.Faint {
			role = theme.Accent
		}
	}
	right, bottom := r.X+r.W-1, r.Y+r.H-1
	cv.Blank(r)
	cv.Rule(r.X+1, r.Y, r.W-2, role, edge[10])
	cv.Rule(r.X+1, bottom, r.W-2, role, edge[10])
	for y := r.Y + 1; y < bottom; y++ {
		cv.Put(r.X, y, role, edge[5])
		cv.Put(right, y, role, edge[5])
	}
	for i, at := range [4][2]int{{r.X, r.Y}, {right, r.Y}, {r.X, bottom}, {right, bottom}} {
		cv.Put(at[0], at[1], role, corner[i])
	}
	end := right
	if m.nameWidth(c.n)+len(countOf(c.n))+3 <= r.W-3 { // the name is worth more than the count
		end = m.drawCount(c.n, right-1, r.Y) - 1
	}
	left, foot := r.X+2, right-1
	cv.Put(r.X+1, r.Y, role, " ")
	if m.lay.tight {
		left, foot = r.X+1, right
	} else {
		end--
	}
	if x := m.drawName(c.n, left, r.Y, end-left); x < right {
		cv.Put(x, r.Y, role, " ")
	}
	from := m.drawFoot(c.n, r.X+1, foot, bottom)
	m.drawShared(c, r.X+1, from, bottom)
}

// drawCount writes how many objects are done, and returns where it begins.
func (m *model) drawCount(n *graph.Node, end, y int) int {
	role := theme.Quiet
	if picture.Active(n) || n.Status == event.Failed {
		role = theme.Text
	}
	return m.canvas.PutRight(end, y, role, " "+countOf(n)+" ")
}

func countOf(n *graph.Node) string { return fmt.Sprintf("%d/%d", n.Reached(), len(n.Objects)) }

// broken reports whether a breakpoint is still to come on a group.
func (m *model) broken(n *graph.Node) bool { return m.State.Stops(n.Unit()) && !n.Status.Over() }

// nameWidth is how wide drawName draws, with its glyphs.
func (m *model) nameWidth(n *graph.Node) int {
	w := canvas.Width(n.Name) + 4
	if cut := m.cutName(n); cut != "" {
		w -= canvas.Width(cut) - 1
	}
	if m.broken(n) {
		w += 2
	}
	if m.Next == n.GroupState {
		w += 2
	}
	return w
}

// drawName writes a group's glyph and name into a width, and returns where
// they end.
func (m *model) drawName(n *graph.Node, x, y, w int) int {
	mark := m.GroupMark(n)
	role := theme.Text
	switch {
	case m.chosen(n):
		role = theme.Accent
	case picture.Active(n), n.Status == event.Failed:
		role = theme.Strong
	case n.Status == event.Waiting, n.Status == event.Skipped:
		role = theme.Quiet
	}
	end := x + w
	x = m.canvas.Put(x, y, mark.Role, mark.Glyph+" ")
	if m.broken(n) {
		x = m.canvas.Put(x, y, theme.Stopped, m.Theme.Lines.Break+" ")
	}
	if m.Next == n.GroupState {
		x = m.canvas.Put(x, y, theme.Key, m.Theme.Lines.Next+" ")
	}
	return m.canvas.Put(x, y, role, m.Graph.NameIn(n, m.cutName(n), end-x, m.Theme.Lines.Ellipsis))
}

// drawFoot writes a group's status in words and its time into a border, and returns
// where that begins.
func (m *model) drawFoot(n *graph.Node, x, end, y int) int {
	mark := m.GroupMark(n)
	text := mark.Word
	if d, over, ok := m.Spent(n); ok && n.Outcome == "" { // it took that to come to be, not to go
		if timed := text + " " + canvas.Span(d, over); !m.lay.tight || canvas.Width(timed)+1 <= end-x {
			text = timed
		}
	}
	if n.Status == event.Held && n.Message != "" {
		text = mark.Word + ": " + n.Message
	}
	if _, now, ok := strings.Cut(text, ", "); ok && m.lay.tight { // its glyph has told the rest
		text = now
	}
	before, after := " ", " "
	if m.lay.tight && canvas.Width(text)+2 > end-x {
		after = ""
		if canvas.Width(text)+1 > end-x {
			before = ""
		}
	}
	text = before + canvas.Fit(text, end-x-len(before+after), m.Theme.Lines.Ellipsis) + after
	role := mark.Role
	if n.Status == event.Ready || n.Status == event.Gone {
		role = theme.Quiet
	}
	if _, slow := m.expected().slow[n.Unit()]; slow {
		role = theme.Stopped
	}
	return m.canvas.PutRight(end, y, role, text)
}

// drawShared writes what the names of a card's objects begin with into a border, where
// they leave it out.
func (m *model) drawShared(c *card, x, end, y int) {
	if !slices.ContainsFunc(c.rows, func(r row) bool { return r.kind == objectRow }) {
		return
	}
	cut := m.Graph.Shared(c.n.Writing(m.reasonWidth(c)))
	if cut = " " + cut + m.Theme.Lines.Ellipsis + " "; canvas.Width(cut) > 3 && x+canvas.Width(cut) < end {
		m.canvas.Put(x, y, theme.Quiet, cut)
	}
}

// drawFlat draws a group as one line: its name, and as much of word, count and
// time as there is room for.
func (m *model) drawFlat(n *graph.Node, x, y, w int) {
	mark := m.GroupMark(n)
	m.canvas.Blank(canvas.Rect{X: x, Y: y, W: w, H: 1})
	if m.chosen(n) {
		m.canvas.Mark(x, y, w)
	}
	name := m.nameWidth(n)
	text := mark.Word
	counted := text + " " + countOf(n)
	timed := counted
	if d, over, ok := m.Spent(n); ok && n.Outcome == "" {
		timed += " " + canvas.Span(d, over)
	}
	for _, longer := range []string{counted, timed} {
		if name+1+len(longer) <= w {
			text = longer
		}
	}
	role := theme.Quiet
	if mark.Role != theme.Good {
		role = mark.Role
	}
	end := m.canvas.PutRight(x+w-1, y, role, text)
	m.drawName(n, x+1, y, end-x-2)
}

// drawRow draws a line of a card.
func (m *model) drawRow(c *card, r row, i, x, y, w int) {
	cv, l := m.canvas, m.Theme.Lines
	switch r.kind {
	case objectRow:
		if m.chosen(c.n) && m.sel.object == r.o.Object {
			cv.Mark(x-1, y, w+2)
		}
		m.drawObject(c.n, r.o, x, y, w)
	case reasonRow:
		m.drawReason(c.n, r, x+2, y, w-2)
	case afterRow:
		if !m.lay.tight {
			if i == 0 {
				cv.Put(x, y, theme.Quiet, "after ")
			}
			x, w = x+6, w-6
		}
		cv.Put(x, y, theme.Text, graph.GroupIn(r.text, w, l.Ellipsis))
	case moreRow:
		text := r.text
		if c.n.Status != event.Waiting {
			text = strings.Replace(text, "+", l.Ellipsis, 1)
		}
		cv.PutFit(x, y, w, theme.Quiet, text)
	}
}

// drawObject draws glyph, name and status word of an object.
func (m *model) drawObject(n *graph.Node, o *event.ObjectState, x, y, w int) {
	mark := m.ObjectMark(n, o)
	word, role := mark.Role, theme.Text
	switch mark.Role {
	case theme.Good, theme.Idle, theme.Quiet:
		word, role = theme.Quiet, theme.Quiet
	}
	if n.Status == event.Waiting || n.Status == event.Skipped {
		role = theme.Quiet
	}
	writing := n.Writing(w - 2)
	name := writing.Object(o.Object, w-2, m.Theme.Lines.Ellipsis)
	room := w - 2 - canvas.Width(name)
	switch o.Status {
	case event.Ready, event.Gone, event.Waiting: // on all lines of a card, or on none
		room = w - 2 - writing.Width
	}
	if m.wordOnLine(n, o) && room > canvas.Width(mark.Word) {
		m.canvas.PutRight(x+w, y, word, mark.Word)
	}
	m.canvas.Put(x, y, mark.Role, mark.Glyph)
	m.canvas.Put(x+2, y, role, name)
}

// wordOnLine reports whether the status word of an object stands beside its
// name, where there is room: not where the next line begins with it, nor where nothing
// of the group has begun. The glyph says it as well.
func (m *model) wordOnLine(n *graph.Node, o *event.ObjectState) bool {
	switch o.Status {
	case event.InProgress, event.Deleting:
		return false
	case event.Waiting:
		return n.Status != event.Waiting && n.Status != event.Held
	}
	return true
}

// cutName is what the names of the groups in a node's column begin with, where the
// column's title says it for all of them.
func (m *model) cutName(n *graph.Node) string {
	if m.accordion() {
		return ""
	}
	for _, p := range m.lay.cols {
		if p.i == n.Col {
			return p.prefix
		}
	}
	return ""
}

// drawReason draws why the object above is not ready: its status in the
// status' colour, the rest less loud.
func (m *model) drawReason(n *graph.Node, r row, x, y, w int) {
	if r.o == nil || r.o.Status == event.Failed || picture.CutShort(n.Status) {
		m.canvas.PutFit(x, y, w, m.Theme.Mark(string(n.Status)).Role, m.reasonText(&card{n: n}, r))
		return
	}
	mark := m.ObjectMark(n, r.o)
	text := r.text
	if !r.rest && canvas.Width(text) > w { // the time is on the card's border as well
		text = join(m.Theme, mark.Word, cmp.Or(r.o.Cause, r.o.Message))
	}
	if !r.rest && canvas.Width(text) > w && r.o.Status == event.InProgress { // and so is the word, or nearly
		text = cmp.Or(r.o.Cause, r.o.Message, text)
	}
	text = canvas.Fit(canvas.Clean(text), w, m.Theme.Lines.Ellipsis)
	if rest, ok := strings.CutPrefix(text, mark.Word); ok && !r.rest {
		x = m.canvas.Put(x, y, mark.Role, mark.Word)
		text = rest
	}
	m.canvas.Put(x, y, theme.Quiet, text)
}

// reasonText is what a card says of why an object is not ready.
func (m *model) reasonText(c *card, r row) string {
	if m.lay.tight && picture.CutShort(c.n.Status) { // the glyph above has said so
		return strings.TrimPrefix(r.text, "not ready: ")
	}
	return r.text
}

// drawScroll tells that there is more above or below.
func (m *model) drawScroll() {
	b := m.lay.board
	if m.lay.rows <= b.H || b.H < 3 {
		return
	}
	size := max(b.H*b.H/m.lay.rows, 1)
	at := m.top * (b.H - size) / max(m.lay.rows-b.H, 1)
	for i := range size {
		m.canvas.Put(b.X+b.W-1, b.Y+at+i, theme.Faint, m.Theme.Lines.Heavy[5])
	}
}
