package cards

import (
	"math"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// density says how much of the list is shown.
type density int

const (
	listed density = iota // the objects of all groups, with a row each for the reason why one is not ready
	named                 // the objects of all groups
	inLine                // a group is one line, unless it is in trouble or the user has selected it
	causes                // a group in trouble has one more line, for the cause
	lines                 // every group is one line
)

// PlaceList lays out the groups one below the other, for a screen too narrow for columns: with all their objects if those of
// all groups fit, else as one line each. That depends only on the plan, so that nothing moves during the run.
func (l *Layout) PlaceList() {
	nodes := l.Visible()
	switch l.Detail {
	case screen.Full:
		l.stackList(nodes, listed)
	case screen.Compact:
		l.stackList(nodes, lines)
	default:
		d, room := listed, l.Area.H-l.ListedRows(nodes)
		switch {
		case room < 0:
			d = inLine
		case room < len(nodes):
			d = named
		}
		l.stackList(nodes, d)
		if l.foldList(); d == inLine && l.Rows > l.Area.H {
			l.stackList(nodes, causes)
			l.foldList()
		}
	}
	l.shift()
}

// foldList folds finished groups into one line if the list is too long, or if the pane needs rows for
// a failure.
func (l *Layout) foldList() {
	room := l.Area.H
	for _, want := range []int{min(l.MissingPaneRows, room/3), 0} {
		if over := l.Rows - (room - want); over <= 0 || l.foldUp(Column{W: l.W}, 0, 0, over, true) {
			break
		}
	}
	if len(l.Folds) > 0 {
		l.Rows = l.Folds[0].Rect.Y + 1
	}
}

// listLimit returns the maximum number of lines below a group's line.
func (l *Layout) listLimit(d density) int {
	const others = 6 // about the rows of header, pane and footer
	switch {
	case d <= named:
		return math.MaxInt
	case d == causes:
		return 1
	}
	return max((l.Area.H+l.StateRows+others)/3, 6)
}

// stackList places the groups of the list.
func (l *Layout) stackList(nodes []*graph.Node, d density) {
	y := 0
	l.Cards, l.Folds = nil, nil
	for _, n := range nodes {
		c := Card{Node: n, Rect: canvas.Rect{X: 0, Y: y, W: l.W, H: 1}, flat: true}
		if l.showsObjects(n, d) {
			c.rows = l.contents(n, l.listLimit(d))
			if d == named && !picture.InTrouble(n) {
				c.rows = slices.DeleteFunc(c.rows, func(r row) bool { return r.kind == reasonRow })
			}
			c.Rect.H += len(c.rows)
			if d == listed && l.Detail == screen.Auto {
				c.Rect.H = max(c.Rect.H, 1+l.ListedRows([]*graph.Node{n}))
			}
		}
		l.Cards = append(l.Cards, c)
		y += c.Rect.H
	}
	l.Rows = y
}

// showsObjects reports whether the list shows a group's objects.
func (l *Layout) showsObjects(n *graph.Node, d density) bool {
	switch {
	case d == lines:
		return false
	case n.Status == event.Waiting && l.Terse:
		return false
	case d <= named, picture.InTrouble(n), n.Status == event.Aborted:
		return true
	case !l.Filter.AllObjects(n):
		return true
	}
	return l.IsSelected(n) && !l.Follow && n.Status != event.Waiting
}

// DrawList draws what PlaceList has laid out.
func (l *Layout) DrawList() {
	defer l.Canvas.Within(l.Area)()
	if len(l.Cards) == 0 {
		l.drawEmpty()
		return
	}
	name := l.listNameWidth()
	for i := range l.Cards {
		c := &l.Cards[i]
		if c.Rect.Y+c.Rect.H <= l.Area.Y || c.Rect.Y >= l.Area.Y+l.Area.H {
			continue
		}
		l.drawListHead(c, name)
		for j, r := range c.rows {
			l.drawRow(c, r, 5, c.Rect.Y+1+j, l.W-7)
		}
	}
	l.drawFolds()
}

// listNameWidth returns the width of the column of names.
func (l *Layout) listNameWidth() int {
	w := 12
	for _, n := range l.Graph.Nodes {
		w = max(w, canvas.Width(l.listName(n)))
	}
	return min(w, l.W/2-6)
}

// listName returns a group's name, after its phase unless that is the apply phase. The only group of a
// phase without layers has its name alone if both do not fit.
func (l *Layout) listName(n *graph.Node) string {
	phase := l.Graph.Cols[n.Col].Phase
	title := event.PhaseTitle(phase.Name, phase.Kind)
	if title != "" && len(phase.Groups) == 1 && phase.Kind != event.PhaseApply && phase.Kind != event.PhaseRemove {
		name := l.Graph.Name(n)
		return lastFitting(l.W/2-6, l.Graph.ShortName(n), name, l.Join(title, name))
	}
	if n.InRollback() { // the status shows whether objects are removed
		title = "rollback"
	}
	return l.Join(title, n.Name)
}

func (l *Layout) drawListHead(c *Card, name int) {
	n, cv, y := c.Node, l.Canvas, c.Rect.Y
	mark := l.GroupMark(n)
	if l.IsSelected(n) && l.Sel.Object == (plan.Object{}) {
		cv.Highlight(0, y, l.W-1)
	}
	x := cv.Put(1, y, mark.Role, mark.Glyph+" ")
	if l.HasBreakpoint(n) {
		cv.Put(0, y, theme.Stopped, l.Theme.Lines.Break)
	}
	if l.Next == n.GroupState {
		cv.Put(0, y, theme.Key, l.Theme.Lines.Next)
	}
	cv.PutFit(x, y, name, nameRole(n), l.listName(n))
	x += name + 6
	cv.PutRight(x, y, theme.Quiet, l.Progress(n))
	cv.PutRight(x+7, y, theme.Quiet, l.spent(n))
	l.Canvas.Line(x+9, y, l.W-11-x, l.listStatus(n, mark))
}

// listStatus returns the end of a group's line: its status, or the groups it waits for.
func (l *Layout) listStatus(n *graph.Node, mark theme.Mark) canvas.Line {
	if missing := picture.MissingOutside(n); len(missing) > 0 {
		return canvas.Plain(theme.Quiet, "waits for "+plan.FormatOutside(missing[0].Object, l.State.Operation.Namespace))
	}
	if n.Status == event.Waiting {
		if blockers := picture.Blockers(n); len(blockers) > 0 {
			return canvas.Plain(theme.Quiet, waitsFor+l.Graph.NameList(blockers))
		}
		if missing := l.State.Unapproved(n.GroupState); len(missing) > 0 {
			return canvas.Plain(theme.Quiet, phrase.Missing(missing))
		}
	}
	if n.Status == event.AtBreakpoint && n.Code == event.Unapproved {
		mark.Word = n.Message
	}
	status := canvas.Plain(quietIfGood(mark), mark.Word)
	if l.HasBreakpoint(n) && l.Next == n.GroupState { // the sign of the next step replaces that of the breakpoint
		status = append(canvas.Line{{Role: theme.Stopped, Text: l.Theme.Lines.Break + " "}}, status...)
	}
	return status
}
