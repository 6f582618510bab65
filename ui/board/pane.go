package board

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
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
	n := m.group()
	title := ""
	if n != nil {
		title = m.spotTitle()
	}
	m.canvas.Head(p.Y, title)
	if n == nil {
		return
	}
	for i, l := range m.why(n, m.object(), p.H-1, p.W-3) {
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

// why says why a group, or an object of it, is as it is: its status and the
// reason, what was found out about that, and what it means for others. It is
// made for a number of lines of a width, of which what was found out gets what
// the rest leaves.
func (m *model) why(n *graph.Node, o *event.ObjectState, room, w int) []canvas.Line {
	var head []canvas.Line
	if o != nil {
		head = append(head, m.objectWhy(n, o))
	} else {
		head = append(head, m.groupWhy(n))
		if o = picture.Worst(n); o != nil && n.Status != event.Waiting {
			l := m.objectWhy(n, o)
			l[0].Text = graph.ShortObject(o.Object) + " " + l[0].Text
			head = append(head, l)
		}
	}
	head = canvas.WrapLines(head, w)
	tail := m.gateLines(n)
	if o != nil {
		head = append(head, diagnosis(o, room-len(head)-len(tail))...)
	}
	return append(head, tail...)
}

// objectWhy is an object's status in a line.
func (m *model) objectWhy(n *graph.Node, o *event.ObjectState) canvas.Line {
	mark := m.ObjectMark(n, o)
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}}
	if m.ObjectOutcome(n, o) != "" {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", was " + m.StatusMark(n, o).Word})
	}
	if picture.Urgency(o) == 1 && !n.Status.Over() {
		l = append(l, canvas.Piece{Role: theme.Text, Text: " for " + canvas.Span(m.SinceOf(o), false)})
	}
	if o.Message != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + o.Message})
	} else if o.Change != "" && string(o.Change) != mark.Word {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + string(o.Change)})
	}
	return l
}

// groupWhy is a group's status in a line.
func (m *model) groupWhy(n *graph.Node) canvas.Line {
	mark := m.GroupMark(n)
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}}
	if n.Outcome != "" && !picture.CutShort(n.Status) {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", was " + m.Theme.Mark(string(n.Status)).Word})
	}
	if d, over, ok := m.Spent(n); ok {
		how := " for "
		if over {
			how = " in "
		}
		l = append(l, canvas.Piece{Role: theme.Text, Text: how + canvas.Span(d, over)})
	}
	l = append(l, canvas.Piece{Role: theme.Quiet, Text: fmt.Sprintf(", %d of %s", n.Done, canvas.Count(len(n.Objects), "object"))})
	if n.Message != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + m.Graph.Shorten(n.Message)})
	}
	return l
}

// diagnosis is what was found out about an object that is not ready: as many
// lines as there is room for, the last ones.
func diagnosis(o *event.ObjectState, room int) []canvas.Line {
	var lines []canvas.Line
	if o.Summary != "" && !strings.Contains(o.Message, o.Summary) {
		lines = append(lines, canvas.Plain(theme.Bad, o.Summary))
		room--
	}
	found := append(o.Diagnosis[:len(o.Diagnosis):len(o.Diagnosis)], o.Log...)
	if over := len(found) - max(room, 0); over > 0 {
		found = found[over:]
	}
	for _, s := range found {
		lines = append(lines, canvas.Plain(theme.Quiet, "  "+s))
	}
	return lines
}

// gateLines say what a group still waits for, and how many wait for it.
func (m *model) gateLines(n *graph.Node) []canvas.Line {
	var lines []canvas.Line
	if n.Status == event.Waiting || n.Status == event.Held {
		if l := m.gateLine("waits for ", n.Ins, func(u *graph.Node) bool { return !picture.Passed(u) }); l != nil {
			lines = append(lines, l)
		}
	}
	if !n.Status.Over() || n.Status == event.Failed {
		if l := m.followersLine(n); l != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// followersLine says how many groups wait for one, or were never started
// because of it.
func (m *model) followersLine(n *graph.Node) canvas.Line {
	all := m.Graph.Followers(n)
	verb := " wait for it: "
	switch {
	case !m.State.Ended.IsZero() || n.Status == event.Failed && m.State.Run == event.Aborting:
		all = slices.DeleteFunc(all, func(d *graph.Node) bool { return d.Status != event.Waiting && d.Status != event.Skipped })
		verb = " never started: "
	case len(all) == 1:
		verb = " waits for it: "
	}
	if len(all) == 0 {
		return nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return canvas.Line{{Role: theme.Text, Text: canvas.Count(len(all), "group") + verb}, {Role: theme.Quiet, Text: strings.Join(names, ", ")}}
}

func (m *model) gateLine(head string, nodes []*graph.Node, which func(*graph.Node) bool) canvas.Line {
	l := canvas.Line{{Role: theme.Text, Text: head}}
	for _, u := range nodes {
		if !which(u) {
			continue
		}
		if len(l) > 1 {
			l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", "})
		}
		mark := m.GroupMark(u)
		text := " " + u.Name
		if d, over, ok := m.Spent(u); ok {
			text += " " + canvas.Span(d, over)
		}
		l = append(l, canvas.Piece{Role: mark.Role, Text: mark.Glyph}, canvas.Piece{Role: theme.Text, Text: text})
	}
	if len(l) == 1 {
		return nil
	}
	return l
}
