package inspector

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

// Subject is what the inspector shows: a group, or one of its objects if Object is not
// nil.
type Subject struct {
	*picture.Picture
	Node   *graph.Node
	Object *event.ObjectState
}

// Why explains the status of a group or of one of its objects: status and reason, the
// diagnosis, and the gates. The diagnosis gets the lines that the rest leaves of room.
func (s Subject) Why(n *graph.Node, o *event.ObjectState, room, w int) []canvas.Line {
	var head []canvas.Line
	if o != nil {
		head = append(head, s.objectWhy(n, o))
	} else {
		head = append(head, s.groupWhy(n))
		if o = worstObject(n); o != nil {
			l := s.objectWhy(n, o)
			l[0].Text = graph.ShortObject(o.Object) + " " + l[0].Text
			head = append(head, l)
		}
	}
	head = canvas.WrapLines(head, w)
	tail := s.gateLines(n, w)
	if o != nil {
		head = append(head, diagnosis(o, room-len(head)-len(tail))...)
	}
	return append(head, tail...)
}

// objectWhy returns an object's status and its reason in a line.
func (s Subject) objectWhy(n *graph.Node, o *event.ObjectState) canvas.Line {
	mark := s.ObjectMark(n, o)
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}}
	if s.ObjectOutcome(n, o) != "" {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", was " + s.StatusMark(n, o).Word})
	}
	switch {
	case n.Regressed(o):
		l = append(l, canvas.Piece{Role: theme.Text, Text: " for " + canvas.Span(s.DegradedFor(n, o), false)})
	case picture.Urgency(o) == 1 && !n.Status.Over():
		l = append(l, canvas.Piece{Role: theme.Text, Text: " for " + canvas.Span(s.InProgressFor(o), false)})
	}
	if left := s.FailsIn(n, o); left != "" {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + left})
	}
	if why := s.whyNot(o); why != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": "}, canvas.Piece{Role: theme.Strong, Text: why})
	} else if o.Message != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + o.Message})
	} else if o.Change != "" && o.Change.Word() != mark.Word {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + o.Change.Word()})
	}
	return l
}

// whyNot returns the cause why an object is not ready; it takes precedence over its message.
func (s Subject) whyNot(o *event.ObjectState) string {
	if o.Done() {
		return ""
	}
	return o.Cause
}

// groupWhy returns a group's status and its reason in a line.
func (s Subject) groupWhy(n *graph.Node) canvas.Line {
	mark := s.GroupMark(n)
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}}
	if n.Outcome != "" && !picture.IsUnfinished(n.Status) {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", was " + s.Theme.Mark(string(n.Status)).Word})
	}
	if d, over, ok := s.Spent(n); ok {
		how := " for "
		if over {
			how = " in "
		}
		l = append(l, canvas.Piece{Role: theme.Text, Text: how + canvas.Span(d, over)})
	}
	l = append(l, canvas.Piece{Role: theme.Quiet, Text: fmt.Sprintf(", %d of %s", n.Done, canvas.Count(len(n.Objects), "object"))})
	if n.Message != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + s.Graph.Shorten(n.Message)})
	}
	return l
}

// diagnosis returns the last lines of an object's diagnosis and log.
func diagnosis(o *event.ObjectState, room int) []canvas.Line {
	var lines []canvas.Line
	if o.Message != "" && o.Cause != "" && !strings.Contains(o.Cause, o.Message) && room > 1 {
		lines = append(lines, canvas.Plain(theme.Quiet, o.Message))
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

// gateLines name the groups that a group still waits for, and those that wait for it.
func (s Subject) gateLines(n *graph.Node, w int) []canvas.Line {
	var lines []canvas.Line
	if n.Status == event.Waiting || n.Status == event.Held {
		if l := s.gateLine("waits for ", n.Ins, func(u *graph.Node) bool { return !picture.Passed(u) }); l != nil {
			lines = append(lines, l)
		}
		for _, u := range n.Ins {
			if why := n.Group.Why[u.ID]; why != "" && !picture.Passed(u) {
				lines = append(lines, canvas.WrapLines([]canvas.Line{canvas.Plain(theme.Quiet, "  "+shortWhy(why))}, w)...)
				break // the gates tab lists all
			}
		}
	}
	if !n.Status.Over() || n.Status == event.Failed {
		if l := s.followersLine(n); l != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// followersLine counts the groups that wait for one, or never started because of it.
func (s Subject) followersLine(n *graph.Node) canvas.Line {
	all := s.Graph.Followers(n)
	verb := " wait for it: "
	switch {
	case !s.State.Ended.IsZero() || n.Status == event.Failed && s.State.Run == event.Aborting:
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

func (s Subject) gateLine(head string, nodes []*graph.Node, which func(*graph.Node) bool) canvas.Line {
	l := canvas.Line{{Role: theme.Text, Text: head}}
	for _, u := range nodes {
		if !which(u) {
			continue
		}
		if len(l) > 1 {
			l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", "})
		}
		mark := s.GroupMark(u)
		text := " " + u.Name
		if d, over, ok := s.Spent(u); ok {
			text += " " + canvas.Span(d, over)
		}
		l = append(l, canvas.Piece{Role: mark.Role, Text: mark.Glyph}, canvas.Piece{Role: theme.Text, Text: text})
	}
	if len(l) == 1 {
		return nil
	}
	return l
}
