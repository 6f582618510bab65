package cards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// DrawCards draws the cards and folds of all columns.
func (l *Layout) DrawCards() {
	if len(l.Columns) == 0 {
		l.drawEmpty()
		return
	}
	for i := range l.Cards {
		l.drawCard(&l.Cards[i])
	}
	l.drawFolds()
}

// drawFolds draws the lines for folded groups, and the scroll bar.
func (l *Layout) drawFolds() {
	for i := range l.Folds {
		l.drawFold(&l.Folds[i])
	}
	if l.Area.H >= 3 {
		l.Canvas.ScrollBar(l.Area.X+l.Area.W-1, l.Area, l.Top, l.Rows)
	}
}

func (l *Layout) drawEmpty() {
	text := "preparing " + l.Theme.Lines.Ellipsis
	if l.Filter.On() {
		text = "nothing matches the filter"
	}
	b := l.Area
	l.Canvas.PutFit(b.X+2, b.Y+min(1, b.H-1), b.W-4, theme.Quiet, text)
}

func (l *Layout) drawCard(c *Card) {
	b := l.Area
	if c.Rect.Y >= b.Y+b.H || c.Rect.Y+c.Rect.H <= b.Y {
		return
	}
	if c.flat {
		l.drawFlat(c.Node, c.Rect.X, c.Rect.Y, c.Rect.W)
		return
	}
	l.drawFrame(c)
	inner := canvas.Rect{X: c.Rect.X + 2, Y: c.Rect.Y + 1, W: c.Rect.W - 4, H: c.Rect.H - 2}
	if l.Tight {
		inner.X, inner.W = inner.X-1, inner.W+2
	}
	for i, r := range c.rows {
		l.drawRow(c, r, inner.X, inner.Y+i, inner.W)
	}
}

// frameRole returns the role of a card's border: only groups that run or need attention stand out.
func (l *Layout) frameRole(n *graph.Node) theme.Role {
	switch {
	case l.State.ReleaseRun(n.GroupState) != "":
		return l.GroupMark(n).Role
	case n.Degraded > 0:
		return l.GroupMark(n).Role
	case n.Status == event.AtBreakpoint:
		return theme.Stopped
	case n.Status == event.Running:
		return theme.Busy
	case n.Status == event.Failed:
		return theme.Bad
	}
	return theme.Faint
}

func (l *Layout) drawFrame(c *Card) {
	cv, r, role := l.Canvas, c.Rect, l.frameRole(c.Node)
	edge, corner := l.Theme.Lines.Light, l.Theme.Lines.Round
	if l.IsSelected(c.Node) {
		edge = l.Theme.Lines.Heavy
		corner = [4]string{edge[6], edge[12], edge[3], edge[9]}
		if role == theme.Faint {
			role = theme.Accent
		}
	}
	right, bottom := r.X+r.W-1, r.Y+r.H-1
	cv.Frame(r, role, edge, corner)
	end := right
	if count := l.Progress(c.Node); count != "" && l.nameWidth(c.Node)+len(count)+3 <= r.W-3 { // else the name needs the space
		countRole := theme.Quiet
		if picture.Active(c.Node) || c.Node.Status == event.Failed {
			countRole = theme.Text
		}
		end = cv.PutRight(right-1, r.Y, countRole, " "+count+" ") - 1
	}
	left, foot := r.X+2, right-1
	cv.Put(r.X+1, r.Y, role, " ")
	if l.Tight {
		left, foot = r.X+1, right
	} else {
		end--
	}
	if x := l.drawName(c.Node, left, r.Y, end-left); x < right {
		cv.Put(x, r.Y, role, " ")
	}
	from := l.drawFoot(c.Node, r.X+1, foot, bottom)
	l.drawShared(c, r.X+1, from, bottom)
}

// signs returns the signs before a group's name: its glyph, its code while the user jumps to a group,
// its breakpoint, and the next step.
func (l *Layout) signs(n *graph.Node) canvas.Line {
	mark := l.GroupMark(n)
	parts := canvas.Plain(mark.Role, mark.Glyph+" ")
	if code := l.Codes[n.Unit()]; code != "" {
		parts = append(parts, canvas.Piece{Role: theme.Key, Text: code + " "})
	}
	if l.HasBreakpoint(n) {
		parts = append(parts, canvas.Piece{Role: theme.Stopped, Text: l.Theme.Lines.Break + " "})
	}
	if l.Next == n.GroupState {
		parts = append(parts, canvas.Piece{Role: theme.Key, Text: l.Theme.Lines.Next + " "})
	}
	return parts
}

// nameWidth returns the width of a group's signs and name, plus two cells of padding.
func (l *Layout) nameWidth(n *graph.Node) int {
	w := canvas.Width(l.signs(n).Text()+n.Name) + 2
	if cut := l.cutName(n); cut != "" {
		w -= canvas.Width(cut) - 1
	}
	return w
}

// nameRole returns the role of the name of a group that is not selected.
func nameRole(n *graph.Node) theme.Role {
	switch {
	case picture.Active(n), n.Status == event.Failed:
		return theme.Strong
	case n.Status == event.Waiting, n.Status == event.Skipped:
		return theme.Quiet
	}
	return theme.Text
}

// drawName draws a group's signs and name in a width, and returns the x after them.
func (l *Layout) drawName(n *graph.Node, x, y, w int) int {
	role, end := nameRole(n), x+w
	if l.IsSelected(n) {
		role = theme.Accent
	}
	for _, p := range l.signs(n) {
		x = l.Canvas.Put(x, y, p.Role, p.Text)
	}
	return l.Canvas.Put(x, y, role, l.Graph.NameIn(n, l.cutName(n), end-x, l.Theme.Lines.Ellipsis))
}

// spent returns how long a group has taken; "" if that is unknown, if its release is paused or held,
// or if it was rolled back, since the time would be that of its creation.
func (l *Layout) spent(n *graph.Node) string {
	if n.Outcome != "" || l.State.ReleaseRun(n.GroupState) != "" {
		return ""
	}
	spent, _ := l.Spent(n)
	return spent
}

// quietIfGood returns the role of a mark, but Quiet for success, which should not stand out.
func quietIfGood(mark theme.Mark) theme.Role {
	if mark.Role == theme.Good {
		return theme.Quiet
	}
	return mark.Role
}

// drawFoot draws a group's status and duration in the bottom border, and returns where the text
// starts.
func (l *Layout) drawFoot(n *graph.Node, x, end, y int) int {
	mark := l.GroupMark(n)
	if l.Tight {
		mark = l.ShortMark(n)
	}
	text := mark.Word
	if spent := l.spent(n); spent != "" && (!l.Tight || canvas.Width(text+spent)+2 <= end-x) {
		text += " " + spent
	}
	switch why := l.PausedAt(n); {
	case why != "" && n.Code == event.Unapproved:
		if text = why; canvas.Width(why)+2 > end-x { // the pane has the reason
			text = phrase.Missing(nil)
		}
	case why != "":
		text = lastFitting(end-x-2, mark.Word, "paused: "+phrase.Briefly(why), "paused: "+why)
	}
	before, after := " ", " "
	if l.Tight && canvas.Width(text)+2 > end-x {
		after = ""
		if canvas.Width(text)+1 > end-x {
			before = ""
		}
	}
	text = before + canvas.Fit(text, end-x-len(before+after), l.Theme.Lines.Ellipsis) + after
	role := mark.Role
	if n.Status == event.Ready || n.Status == event.Gone {
		role = theme.Quiet
	}
	if l.Outlook().Slow(n.Unit()) {
		role = theme.Stopped
	}
	return l.Canvas.PutRight(end, y, role, text)
}

// drawShared draws the common prefix of the objects' names in the bottom border, if their lines omit
// it.
func (l *Layout) drawShared(c *Card, x, end, y int) {
	if !slices.ContainsFunc(c.rows, func(r row) bool { return r.kind == objectRow }) {
		return
	}
	cut := l.Graph.Shared(l.Graph.NameStyle(c.Node, l.ReasonWidth(c)))
	if cut = " " + cut + l.Theme.Lines.Ellipsis + " "; canvas.Width(cut) > 3 && x+canvas.Width(cut) < end {
		l.Canvas.Put(x, y, theme.Quiet, cut)
	}
}

// drawFlat draws a group as one line: its name, and as much of status, count and time as fits.
func (l *Layout) drawFlat(n *graph.Node, x, y, w int) {
	mark := l.GroupMark(n)
	l.Canvas.Blank(canvas.Rect{X: x, Y: y, W: w, H: 1})
	if l.IsSelected(n) {
		l.Canvas.Highlight(x, y, w)
	}
	status, short := text.Join(" ", mark.Word, l.Progress(n)), l.ShortMark(n).Word
	least := short
	if l.Tight || n.Status == event.Running && n.Degraded == 0 { // the name matters more; the glyph shows the status
		least = ""
	}
	text := lastFitting(w-1-l.nameWidth(n), least, short, mark.Word, status, text.Join(" ", status, l.spent(n)))
	end := l.Canvas.PutRight(x+w-1, y, quietIfGood(mark), text)
	l.drawName(n, x+1, y, end-x-2)
}

func (l *Layout) drawRow(c *Card, r row, x, y, w int) {
	cv, ellipsis := l.Canvas, l.Theme.Lines.Ellipsis
	if canvas.Width(r.text) > w && r.short != "" {
		r.text = r.short
	}
	switch r.kind {
	case objectRow:
		if l.IsSelected(c.Node) && l.Sel.Object == r.o.Object {
			cv.Highlight(x-1, y, w+2)
		}
		l.drawObject(c.Node, r.o, x, y, w)
	case reasonRow:
		l.drawReason(c.Node, r, x+2, y, w-2)
	case afterRow:
		x, w = cv.Put(x, y, theme.Quiet, waitsFor), w-len(waitsFor)
		if n := len(r.names); n > 1 && canvas.Width(fmt.Sprintf("%s +%d", r.names[0], n-1)) > w {
			cv.PutFit(x, y, w, theme.Text, text.Count(n, "group"))
			break
		}
		l.drawNames(r.names, x, y, w)
	case namesRow:
		style := l.Graph.NameStyle(c.Node, w)
		var names []string
		for _, o := range changedFirst(l.ShownObjects(c.Node)) {
			names = append(names, style.Object(o.Object, w, ellipsis))
		}
		l.drawNames(names, x, y, w)
	case moreRow:
		cv.PutFit(x, y, w, theme.Quiet, r.text)
	case planRow:
		cv.PutFit(x, y, w, theme.Text, r.text)
	case stripRow:
		l.drawGroups(c.Node, x, y, w)
	}
}

// drawNames draws as many names as fit a width, and counts the others.
func (l *Layout) drawNames(names []string, x, y, w int) {
	for n := len(names); n > 0; n-- {
		text, more := strings.Join(names[:n], ", "), ""
		if n < len(names) {
			more = fmt.Sprintf(" +%d", len(names)-n)
		}
		fits := canvas.Width(text+more) <= w
		if _, release, ok := strings.Cut(text, "/"); ok && n == 1 && !fits && l.IsRelease() { // its name matters more than its namespace
			text = release
		}
		if fits || n == 1 {
			l.Canvas.Put(x, y, theme.Text, graph.GroupIn(text, w-len(more), l.Theme.Lines.Ellipsis)+more)
			return
		}
	}
}

func (l *Layout) drawObject(n *graph.Node, o *event.ObjectState, x, y, w int) {
	mark := l.ObjectMark(n, o)
	wordRole, role := mark.Role, theme.Text
	switch mark.Role {
	case theme.Good, theme.Idle, theme.Quiet:
		wordRole, role = theme.Quiet, theme.Quiet
	}
	if n.Status == event.Waiting || n.Status == event.Skipped {
		role = theme.Quiet
	}
	style := l.Graph.NameStyle(n, w-2)
	name := style.Object(o.Object, w-2, l.Theme.Lines.Ellipsis)
	room := w - 2 - canvas.Width(name)
	switch o.Status {
	case event.Ready, event.Gone, event.Waiting: // these words are on all lines of a card, or on none
		room = w - 2 - style.Width
	}
	end := x + w
	if l.wordOnLine(n, o) && room > canvas.Width(mark.Word) {
		end = l.Canvas.PutRight(end, y, wordRole, mark.Word) - 1
	}
	if whole := style.Whole(o.Object); canvas.Width(whole) <= end-x-2 { // another name on the card needs the style
		name = whole
	}
	l.Canvas.Put(x, y, mark.Role, mark.Glyph)
	l.Canvas.Put(x+2, y, role, name)
}

// wordOnLine reports whether an object's status word goes next to its name: not if the next line
// starts with it, and not before its group has started. The glyph always shows the status.
func (l *Layout) wordOnLine(n *graph.Node, o *event.ObjectState) bool {
	switch o.Status {
	case event.Applying:
		return l.State.ReleaseRun(n.GroupState) == ""
	case event.InProgress, event.Deleting:
		return false
	case event.Waiting:
		return n.Status != event.Waiting && n.Status != event.AtBreakpoint
	}
	return true
}

// cutName returns the prefix of a group's name that its card omits because the title of the column
// shows it.
func (l *Layout) cutName(n *graph.Node) string {
	if i := slices.IndexFunc(l.Columns, func(p Column) bool { return p.Index == n.Col }); i >= 0 && !l.Narrow() {
		return l.Columns[i].Prefix
	}
	return ""
}

// drawReason draws why the object above is not ready: the status in its colour, the rest quiet.
func (l *Layout) drawReason(n *graph.Node, r row, x, y, w int) {
	if r.o == nil || r.o.Status == event.Failed || picture.IsUnfinished(n.Status) {
		mark := l.Theme.Mark(string(n.Status))
		switch {
		case r.o != nil && picture.Degraded(n, r.o): // it has failed since its group was ready
			mark = l.StatusMark(n, r.o)
		case r.o == nil && l.State.ReleaseRun(n.GroupState) == event.Held: // the release's group has failed, the release is still running
			mark = l.Theme.HeldFailure()
		}
		l.Canvas.PutFit(x, y, w, mark.Role, l.reasonLabel(r)+r.text)
		return
	}
	mark, label, text := l.ObjectMark(n, r.o), r.label, r.text
	cause := cmp.Or(phrase.CauseAt(n.GroupState, r.o, l.Now()), r.o.Message)
	why := cause
	tooLong := func() bool { return !r.rest && canvas.Width(label+text) > w }
	if left := r.o.Until.Sub(l.Now()); left > 0 && r.o.Status == event.InProgress && !r.rest {
		why = l.Join("stable in "+canvas.Span(left+time.Second-1), why)
		label, text = mark.Word, l.JoinAfter(mark.Word, "", why)
	}
	if tooLong() { // omit the time: the card's border shows it
		label, text = mark.Word, l.JoinAfter(mark.Word, "", why)
	}
	if tooLong() && why != "" && (r.o.Status == event.InProgress || l.State.ReleaseRun(n.GroupState) != "") { // omit the status too
		label, text = "", cmp.Or(cause, why)
	}
	l.Canvas.Line(x, y, w, canvas.Line{{Role: mark.Role, Text: label}, {Role: theme.Quiet, Text: text}})
}

// reasonLabel returns the label of a reason; a tight card omits "not ready", which the glyph above shows.
func (l *Layout) reasonLabel(r row) string {
	if l.Tight && r.label == picture.NotReady {
		return ""
	}
	return r.label
}
