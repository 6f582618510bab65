package inspector

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

func (i *Inspector) lines(width int) []canvas.Line {
	s := i.Subject()
	if s.Node == nil {
		return []canvas.Line{canvas.Plain(theme.Quiet, "this group is no longer part of the operation")}
	}
	switch i.Tab {
	case TabWhy:
		return s.whyTab(width)
	case TabDiff:
		return i.changes.lines(s, width, false)
	case TabOrder:
		return s.orderTab(s.Node, width)
	case TabTimings:
		return s.timingsTab(s.Node, width)
	}
	return i.queryTab(s, width)
}

// PaneDiff returns the diff of the selection for the pane, nil if it does not show one.
func (i *Inspector) PaneDiff(width int) []canvas.Line {
	if i.Group() == nil || !i.ShowsDiff() {
		return nil
	}
	return i.changes.lines(i.Subject(), width, true)
}

// head returns the lines of the open tab that do not scroll.
func (i *Inspector) head(width int) (out []canvas.Line) {
	s := i.Subject()
	if !i.Tab.queries() || s.Node == nil {
		return nil
	}
	if i.Tab != TabManifest && s.Object == nil && len(s.Node.Objects) > 1 {
		out = append(out, canvas.Plain(theme.Quiet, i.Graph.Object(i.queried.Object)+":"))
	}
	if text := i.logs.head(s.Theme.Lines.Dot); text != "" {
		out = append(out, canvas.Plain(theme.Strong, canvas.Fit(text, width, s.Theme.Lines.Ellipsis)))
	}
	if head, _ := s.podTable(i.pods, width); head != nil {
		out = append(out, head)
	}
	return out
}

// queryTab returns the answer from the cluster. In the logs tab, the recorded log of a hook comes
// first.
func (i *Inspector) queryTab(s Subject, width int) (out []canvas.Line) {
	o := s.Object
	if i.isStep() {
		o = i.TargetObject()
	}
	if i.Tab == TabLogs && o != nil && !i.LogsFiltered() {
		for _, l := range o.Log {
			out = append(out, canvas.Plain(theme.Text, l))
		}
	}
	if i.Tab == TabManifest && i.cluster != nil {
		out = append(out, canvas.Plain(theme.Quiet, i.Graph.Object(i.queried.Object)+" "+i.manifestState(s)+":"))
	}
	for _, l := range i.text {
		out = i.appendLine(out, "", theme.Text, l, width)
	}
	out = i.appendEvents(out, s, width)
	_, table := s.podTable(i.pods, width)
	out = append(out, table...)
	out = append(out, i.logLines(width)...)
	switch {
	case i.busy && len(i.text)+len(i.events)+len(i.pods) == 0:
		out = append(out, canvas.Plain(theme.Quiet, "loading "+s.Theme.Lines.Ellipsis))
	case i.note != "":
		out = append(out, canvas.Labelled(canvas.Piece{}, 0, theme.Quiet, i.note, width)...)
	}
	return out
}

// appendEvents appends the events: those since the group started before earlier ones, of each warnings first, then the newest.
func (i *Inspector) appendEvents(out []canvas.Line, s Subject, width int) []canvas.Line {
	start := s.Node.Started.Truncate(time.Second) // the times of events have whole seconds
	events := slices.Clone(i.events)
	rank := func(e event.ClusterEvent) (rank int) {
		if e.Time.Before(start) {
			rank = 2
		}
		if !e.Warning {
			rank++
		}
		return rank
	}
	slices.SortStableFunc(events, func(a, b event.ClusterEvent) int { return cmp.Or(rank(a)-rank(b), b.Time.Compare(a.Time)) })
	for n, e := range events {
		if rank(e) >= 2 && (n == 0 || rank(events[n-1]) < 2) {
			out = append(out, canvas.Plain(theme.Strong, "before the group started"))
		}
		role := theme.Quiet
		if e.Warning {
			role = theme.Text
		}
		out = i.appendLine(out, "", role, phrase.ClusterEvent(e), width)
	}
	return out
}

// manifestState says which manifest of the object is open.
func (i *Inspector) manifestState(s Subject) string {
	o := s.Node.Find(i.queried.Object)
	switch {
	case i.Live:
		return "in the cluster"
	case o != nil && applied(o):
		return "as applied"
	}
	return "as it will be applied"
}

// applied reports whether the run has at least started to apply an object.
func applied(o *event.ObjectState) bool { return o.Status != event.Waiting }

// maxListed is how many objects of a group the inspector lists.
const maxListed = 1000

// whyTab returns Why without a limit. For a group, all its objects follow, the most urgent first.
func (s Subject) whyTab(width int) []canvas.Line {
	lines := canvas.WrapLines(s.Why(1<<20, width), width)
	if s.Object == nil {
		lines = append(lines, s.Objects()...)
	}
	return lines
}

// described returns the object that Why describes: the selected one, or the most urgent of a group
// that has started; nil if there is none.
func (s Subject) described() *event.ObjectState {
	if s.Object != nil || s.Node.Status == event.Waiting {
		return s.Object
	}
	return picture.Worst(s.Node)
}

// Objects lists the objects of a group below an empty line, the most urgent first, except the one
// that Why describes.
func (s Subject) Objects() []canvas.Line {
	n, described := s.Node, s.described()
	objects := slices.Clone(n.Objects[:min(len(n.Objects), maxListed)])
	objects = slices.DeleteFunc(objects, func(o *event.ObjectState) bool { return o == described })
	slices.SortStableFunc(objects, func(a, b *event.ObjectState) int { return picture.Urgency(a) - picture.Urgency(b) })
	out := []canvas.Line{nil}
	for _, o := range objects {
		why := s.objectWhy(n, o)
		out = append(out, slices.Insert(why, 1, canvas.Piece{Role: theme.Text, Text: s.Graph.Object(o.Object) + "  "}))
	}
	if more := len(n.Objects) - maxListed; more > 0 {
		out = append(out, canvas.Plain(theme.Quiet, fmt.Sprintf("%s %d more", s.Theme.Lines.Ellipsis, more)))
	}
	return out
}

// Names lists the objects that a group will apply in one line; nil once it has started.
func (s Subject) Names() canvas.Line {
	if s.Object != nil || s.Node.Status != event.Waiting && s.Node.Status != event.AtBreakpoint {
		return nil
	}
	var names []string
	for _, o := range s.Node.Objects[:min(len(s.Node.Objects), maxListed)] {
		names = append(names, s.Graph.Object(o.Object))
	}
	return canvas.Plain(theme.Text, "  "+strings.Join(names, ", "))
}

// orderTab lists a group's dependencies and dependents.
func (s Subject) orderTab(n *graph.Node, width int) []canvas.Line {
	var up []*graph.Node
	for _, id := range n.After {
		if u := s.Graph.ByKey[event.Unit{Phase: n.Phase, Group: id}]; u != nil {
			up = append(up, u)
		}
	}
	before, after := s.neighbours(n)
	return canvas.WrapLines(slices.Concat(
		[]canvas.Line{canvas.Plain(theme.Strong, "waits for")},
		s.nodeLines(up, before, func(u *graph.Node) string { return n.Group.Why[u.ID] }),
		[]canvas.Line{nil, canvas.Plain(theme.Strong, "needed by")},
		s.nodeLines(s.Graph.Followers(n), after, func(u *graph.Node) string { return u.Group.Why[n.ID] }),
	), width)
}

// neighbours describes when a group without dependencies starts, and what waits for a group without
// dependents: it names the hooks before and after a hook, else the phases before and after the group's own.
func (s Subject) neighbours(n *graph.Node) (before, after string) {
	before, after = "nothing; it starts first", "nothing"
	own := s.Graph.Cols[n.Col]
	for _, c := range s.Graph.Cols {
		switch {
		case c.Phase == own.Phase || event.IsRollback(c.Phase.Name) != n.InRollback():
		case c.Nodes[0].Col < n.Col:
			before = cmp.Or(event.PhaseTitle(c.Phase.Name, c.Phase.Kind), "all layers")
		case after == "nothing":
			after = c.Title
		}
	}
	if i := slices.Index(own.Nodes, n); own.Phase.Kind == event.PhaseHooks { // hooks run one after another
		if i > 0 {
			before = own.Nodes[i-1].Name
		}
		if i < len(own.Nodes)-1 {
			after = own.Nodes[i+1].Name
		}
	}
	return before, after
}

// shortWhy shortens "A waits for B: why" to "A: why"; the heading of the line already names B.
func shortWhy(why string) string {
	who, rest, waits := strings.Cut(why, " waits for ")
	_, reason, ok := strings.Cut(rest, ": ")
	if !waits || !ok {
		return why
	}
	return who + ": " + reason
}

// nodeLines returns a line for each group, and another for the reason if it is known.
func (s Subject) nodeLines(nodes []*graph.Node, none string, why func(*graph.Node) string) []canvas.Line {
	if len(nodes) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "  "+none)}
	}
	var out []canvas.Line
	for _, u := range nodes {
		mark := s.GroupMark(u)
		text := mark.Word
		if spent, _ := s.Spent(u); spent != "" {
			text += " " + spent
		}
		out = append(out, canvas.Line{{Role: mark.Role, Text: "  " + mark.Glyph + " "}, {Role: theme.Text, Text: canvas.Pad(u.ID, 32)}, {Role: theme.Quiet, Text: "  " + text}})
		if reason := why(u); reason != "" {
			out = append(out, canvas.Plain(theme.Quiet, "    "+shortWhy(reason)))
		}
	}
	return out
}

// timingsTab lists when the group and its objects started and ended, relative to the start of the
// operation, and how long they took.
func (s Subject) timingsTab(n *graph.Node, w int) []canvas.Line {
	if op := s.State.Operation; op.IsWatch() {
		return []canvas.Line{canvas.Plain(theme.Quiet, "nothing is running; see "+text.Program+" status "+op.Release+" for how long each group took")}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return "+" + canvas.Took(t.Sub(s.State.Started))
	}
	const column = 10
	names := min(42, max(w-3*column, 10))
	row := func(role theme.Role, name, started, ended, took string) canvas.Line {
		return canvas.Plain(role, canvas.Pad(name, names)+fmt.Sprintf("%*s%*s%*s", column, started, column, ended, column, took))
	}
	took, _ := s.Took(n)
	out := []canvas.Line{
		row(theme.Strong, "", "started", "ended", "took"),
		row(theme.Text, canvas.FitMiddle(canvas.Clean(s.Graph.Name(n)), names, s.Theme.Lines.Ellipsis), at(n.Started), at(n.Ended), cmp.Or(took, "-")),
	}
	for _, p := range s.State.Phases {
		if usual, known := p.Usual[n.ID]; known && p.Name == n.Phase {
			out = append(out, row(theme.Quiet, "  last time", "", "", canvas.Took(usual)))
		}
	}
	for _, o := range n.Objects[:min(len(n.Objects), maxListed)] {
		ended, took := time.Time{}, "-"
		switch {
		case o.Sent.IsZero(), n.Regressed(o): // Since is when it regressed
		case o.Done() || o.Status == event.Failed:
			ended, took = o.Since, canvas.Took(o.Since.Sub(o.Sent))
		case n.Status.Over():
			ended, took = n.Ended, canvas.Took(n.Ended.Sub(o.Sent))
		default:
			took = cmp.Or(s.InProgressFor(n, o), "-")
		}
		name := "  " + s.Graph.ObjectIn(o.Object, names-2, s.Theme.Lines.Ellipsis)
		out = append(out, row(theme.Quiet, name, at(o.Sent), at(ended), took))
	}
	return out
}
