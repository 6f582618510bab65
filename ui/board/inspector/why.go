package inspector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// Subject is the group that the inspector shows, or one of its objects if Object is not nil.
type Subject struct {
	*picture.Picture
	Node   *graph.Node
	Object *event.ObjectState
}

// Why explains the status of a group or an object: status and reason, diagnosis, and the groups that
// it waits for or that wait for it. The diagnosis gets the lines of room that the others leave.
func (s Subject) Why(room, w int) []canvas.Line {
	n, o := s.Node, s.described()
	var head []canvas.Line
	if s.Object == nil {
		head = append(head, s.groupWhy(n))
	}
	if o != nil {
		l := s.objectWhy(n, o)
		if s.Object == nil {
			l = slices.Insert(l, 0, canvas.Piece{Role: l[0].Role, Text: s.Graph.Object(o.Object) + " "})
		}
		head = append(head, l)
	}
	last := len(head) - 1
	told := canvas.WrapLines(head, w)
	tail := s.dependencyLines(n, w)
	if t := s.timeout(n, o); t != nil {
		head[last] = append(head[last], canvas.Piece{Role: theme.Text, Text: "; " + phrase.GaveUp(*t)})
		if longer := canvas.WrapLines(head, w); len(longer) == len(told) || len(longer)+len(tail) < room { // else the diagnosis matters more
			told = longer
		}
	}
	head = told
	if o != nil {
		head = append(head, diagnosis(o, room-len(head)-len(tail))...)
	}
	lines := s.releaseLines()
	return slices.Concat(head, lines[:min(len(lines), max(room-len(head)-len(tail), 0))], tail)
}

// groups returns the groups of a release of a stack, nil for another group.
func (s Subject) groups() []*event.GroupState {
	if s.Node == nil || !s.IsRelease() {
		return nil
	}
	return s.ReleaseGroups(s.Node)
}

// Groups says what a stack does to a release, and lists its groups with their objects, below an empty line; nil for another group.
func (s Subject) Groups() []canvas.Line {
	groups, width := s.groups(), 0
	if len(groups) == 0 {
		return nil
	}
	names := groupNames(groups)
	for _, name := range names {
		width = max(width, canvas.Width(name))
	}
	_, total := s.ReleaseObjects(s.Node)
	planned, _ := s.Planned(s.Node)
	lines := []canvas.Line{nil, {{Role: theme.Strong, Text: planned}, {Role: theme.Text, Text: ": " + text.Count(len(groups), "group") + ", " + text.Count(total, "object")}}}
	for at, g := range groups {
		mark, objects := s.MarkInRelease(g), make([]string, len(g.Objects))
		for i, o := range g.Objects {
			objects[i] = s.Graph.Object(o.Object)
		}
		lines = append(lines, canvas.Line{{Role: mark.Role, Text: mark.Glyph + " "}, {Role: theme.Text, Text: canvas.Pad(names[at], width)},
			{Role: mark.Role, Text: "  " + canvas.Pad(mark.Word, len("in progress"))}, {Role: theme.Quiet, Text: "  " + strings.Join(objects, ", ")}})
	}
	return lines
}

// groupNames returns how the release's own screen calls its groups: without the chart if there is only one.
func groupNames(groups []*event.GroupState) (names []string) {
	charts := map[string]bool{}
	for _, g := range groups {
		if g.Chart != "" {
			charts[g.Chart] = true
		}
	}
	for _, g := range groups {
		name := g.ID
		if len(charts) == 1 && g.Chart != "" {
			name = cmp.Or(g.Name, name)
		}
		names = append(names, name)
	}
	return names
}

// releaseLines list the objects that a running release of a stack waits for. The cause of a degraded one is the release's.
func (s Subject) releaseLines() (lines []canvas.Line) {
	release := s.State.Scopes[s.Node.ID]
	if !s.State.Operation.IsStack() || release == nil || s.Node.Status != event.Running {
		return nil
	}
	for g := range release.GroupStates() {
		for _, o := range g.Objects {
			if g.Status != event.Running || picture.Urgency(o) != 1 || o.Degraded {
				continue
			}
			mark := s.Theme.Mark(string(o.Shown()))
			why := cmp.Or(phrase.CauseAt(g, o, s.Now()), o.Message)
			lines = append(lines, canvas.Line{{Role: mark.Role, Text: "  " + mark.Glyph + " "}, {Role: theme.Text, Text: text.Join(": ", s.Graph.Object(o.Object), why)}})
		}
	}
	return lines
}

// objectWhy returns an object's status and reason in one line; its first piece is the glyph.
func (s Subject) objectWhy(n *graph.Node, o *event.ObjectState) canvas.Line {
	mark := s.ObjectMark(n, o)
	if outcome := s.ObjectOutcome(n, o); outcome != "" {
		return s.undoneWhy(n, o, mark, outcome)
	}
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " "}, {Role: mark.Role, Text: mark.Word}}
	judge := o.ReadyBy.Text()
	if judge != "" && o.Shown() == event.Ready && !o.NotAwaited() {
		if ready := s.Theme.Mark(string(event.Ready)).Word; mark.Word != ready { // unchanged
			judge = ready + " " + judge
			l[1].Text += ","
		}
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: " " + judge})
	}
	switch {
	case s.State.ReleaseRun(n.GroupState) != "":
	case picture.Degraded(n, o):
		l = append(l, canvas.Piece{Role: theme.Text, Text: phrasedFor(s.DegradedFor(n, o))})
	case picture.Urgency(o) == 1 && !n.Status.Over():
		l = append(l, canvas.Piece{Role: theme.Text, Text: phrasedFor(s.InProgressFor(n, o))})
	}
	if left := s.TimesOutIn(n, o); left != "" {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + left})
	}
	switch {
	case o.Cause != "" && !o.Done(): // takes precedence over the message
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": "}, canvas.Piece{Role: theme.Strong, Text: phrase.CauseIn(s.State.Scopes[n.ID], n.GroupState, o, s.Now())})
	case o.Message != "":
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + o.Message})
	case o.Change != "" && !picture.Drifted(n, o) && o.Change.Word() != mark.Word && o.Status != event.Deleting:
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + o.Change.Word()})
	}
	if picture.Drifted(n, o) {
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": "}, canvas.Piece{Role: theme.Strong, Text: phrase.Drift(o.Drift)})
	}
	if o.NotAwaited() {
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + judge})
	}
	return l
}

// timeout returns the timeout at which an object, or the first failure that a stack's release holds, made the group fail; nil if
// none expired, or if the line of the group says so.
func (s Subject) timeout(n *graph.Node, o *event.ObjectState) *event.Timeout {
	if o == nil || s.ObjectOutcome(n, o) != "" {
		return nil
	}
	if release := s.State.Scopes[n.ID]; release != nil && s.State.ReleaseRun(n.GroupState) == event.Held {
		return release.FirstRoot().Timeout
	}
	if n.Status != event.Failed || s.Object == nil || n.FailedObject == nil || *n.FailedObject != o.Object {
		return nil
	}
	return n.Timeout
}

// groupWhy returns a group's status and reason in one line.
func (s Subject) groupWhy(n *graph.Node) canvas.Line {
	l := s.groupStatus(n)
	when, what := s.undone(n.Outcome)
	undone := text.Join(" ", when, what)
	why := phrase.Unfinished(n.GroupState)
	if o := s.described(); s.Object == nil && o != nil && n.FailedObject != nil && *n.FailedObject == o.Object { // its line has the cause
		if why = ""; n.Timeout != nil {
			why = phrase.GaveUp(*n.Timeout)
		}
	}
	if !s.State.Operation.IsStack() {
		count := text.Count(len(n.Objects), "object")
		if n.Done < len(n.Objects) && !n.Started.IsZero() {
			count = fmt.Sprintf("%d of %s done", n.Done, count)
		}
		l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + count})
	}
	if n.Status == event.AtBreakpoint || why == s.Theme.Mark(string(n.Status)).Word { // the status says so already
		why = ""
	}
	if release := s.State.Scopes[n.ID]; release != nil && n.FailedObject != nil && why == phrase.Failure(n.Cause, n.Timeout) {
		if o := n.Find(*n.FailedObject); o != nil {
			why = phrase.Failure(phrase.CauseIn(release, n.GroupState, o, s.Now()), n.Timeout)
		}
	}
	why = s.Graph.Shorten(why)
	switch {
	case undone != "" && picture.IsUnfinished(n.Status):
		l = append(l, canvas.Piece{Role: theme.Text, Text: withUndone(why, undone)})
	case why != "":
		l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + why})
	}
	return l
}

// pausedAt says why the run paused before a group, after the status.
func (s Subject) pausedAt(n *graph.Node) string {
	switch why := s.PausedAt(n); why {
	case "":
		return ""
	case event.Breakpoint:
		return " at a breakpoint"
	case event.RunToTarget:
		return " at the run-to target"
	default:
		return " " + why
	}
}

// groupStatus returns a group's status and how long it has taken. The effect of a rollback takes the place of the
// status, unless the group had failed or been aborted.
func (s Subject) groupStatus(n *graph.Node) canvas.Line {
	mark, status := s.GroupMark(n), s.Theme.Mark(string(n.Shown())).Word
	spent, over := s.Spent(n)
	unfinished := picture.IsUnfinished(n.Status)
	switch {
	case spent == "":
	case !over:
		spent = " for " + spent
	case unfinished, n.Outcome != "":
		spent = " after " + spent
	default:
		spent = " in " + spent
	}
	switch {
	case n.Status == event.AtBreakpoint && n.Code == event.Unapproved:
		mark.Word = n.Message
	case n.Status == event.AtBreakpoint:
		mark.Word += s.pausedAt(n)
	case n.Outcome != "" && unfinished:
		mark.Word = status
	case n.Outcome != "":
		_, mark.Word = s.undone(n.Outcome)
		spent = " (was " + status + spent + ")"
	}
	l := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}}
	if spent != "" {
		l = append(l, canvas.Piece{Role: theme.Text, Text: spent})
	}
	return l
}

// diagnosis returns the last lines of an object's diagnosis and log, after how many of its pods are ready now.
func diagnosis(o *event.ObjectState, room int) []canvas.Line {
	var lines []canvas.Line
	if now := o.Progress.String(); now != "" && o.Cause != "" && !o.OnlyState && room > 1 {
		lines = append(lines, canvas.Plain(theme.Quiet, "now: "+now))
		room--
	}
	found := slices.Concat(o.Diagnosis, o.Log)
	from := max(len(found)-max(room, 0), 0)
	for _, s := range withHeading(found, from) {
		lines = append(lines, canvas.Plain(theme.Quiet, "  "+s))
	}
	return lines
}

// withHeading returns lines from one on. If that is below a heading that is left out, the heading takes its place; a last line alone
// is named as the log.
func withHeading(lines []string, from int) []string {
	shown := slices.Clone(lines[from:])
	if len(shown) == 0 || !strings.HasPrefix(shown[0], "  ") {
		return shown
	}
	for at := from - 1; at >= 0; at-- {
		switch heading := lines[at]; {
		case strings.HasPrefix(heading, "  "):
			continue
		case len(shown) == 1:
			shown[0] = "log: " + strings.TrimSpace(shown[0])
		default:
			shown[0] = heading
		}
		break
	}
	return shown
}

// dependencyLines name the groups that a group still waits for, and the groups that wait for it.
func (s Subject) dependencyLines(n *graph.Node, w int) (lines []canvas.Line) {
	if n.Status == event.Waiting || n.Status == event.AtBreakpoint {
		blockers, why := canvas.Line{{Role: theme.Text, Text: "waits for "}}, ""
		for _, u := range picture.Blockers(n) {
			if len(blockers) > 1 {
				blockers = append(blockers, canvas.Piece{Role: theme.Quiet, Text: ", "})
			}
			mark, text := s.GroupMark(u), " "+u.Name
			if spent, _ := s.Spent(u); spent != "" {
				text += " " + spent
			}
			blockers = append(blockers, canvas.Piece{Role: mark.Role, Text: mark.Glyph}, canvas.Piece{Role: theme.Text, Text: text})
			why = cmp.Or(why, n.Group.Why[u.ID]) // the order tab lists all
		}
		if len(blockers) > 1 {
			lines = append(lines, blockers)
		}
		if missing := s.State.Unapproved(n.GroupState); len(missing) > 0 && n.Status == event.Waiting {
			lines = append(lines, canvas.Plain(theme.Text, phrase.Missing(missing)))
		}
		lines = append(lines, s.outsideLines(n)...)
		if why != "" {
			lines = append(lines, canvas.WrapLines([]canvas.Line{canvas.Plain(theme.Quiet, "  "+shortWhy(why))}, w)...)
		}
	}
	if l := s.NeededBy(); l != nil {
		lines = append(lines, l)
	}
	return lines
}

// NeededBy names the groups that wait for the group, nil if it is done. It is the last line of Why.
func (s Subject) NeededBy() canvas.Line {
	if s.Node.Status.Over() && s.Node.Status != event.Failed {
		return nil
	}
	return s.followersLine(s.Node)
}

// outsideLines say for which objects outside the release a group waits, since when, and why they are not ready.
func (s Subject) outsideLines(n *graph.Node) (lines []canvas.Line) {
	for _, o := range picture.MissingOutside(n) {
		l := canvas.Line{{Role: theme.Text, Text: "waits for "}, {Role: theme.Strong, Text: plan.FormatOutside(o.Object, s.State.Operation.Namespace)},
			{Role: theme.Text, Text: " for " + canvas.Span(s.Now().Sub(o.Sent))}}
		if left := s.TimesOutIn(n, o); left != "" {
			l = append(l, canvas.Piece{Role: theme.Quiet, Text: ", " + left})
		}
		if why := cmp.Or(phrase.CauseAt(n.GroupState, o, s.Now()), o.Message); why != "" {
			l = append(l, canvas.Piece{Role: theme.Text, Text: ": " + why})
		}
		lines = append(lines, l)
	}
	return lines
}

// followersLine names the groups that wait for a group; once the run is ending, all groups that never start.
func (s Subject) followersLine(n *graph.Node) canvas.Line {
	all := s.Graph.Followers(n)
	noun, aborting := s.State.GroupNoun(), s.State.Run == event.Aborting
	head := "needed by " + text.Count(len(all), noun) + ": "
	switch {
	case aborting || !s.State.Ended.IsZero() || slices.ContainsFunc(all, func(o *graph.Node) bool { return o.Status == event.Skipped }):
		all = s.Graph.Select(func(o *graph.Node) bool {
			return o.InRollback() == n.InRollback() && (o.Status == event.Waiting || o.Status == event.Skipped)
		})
		head = text.Count(len(all), noun)
		if aborting {
			head += " will not start: "
		} else {
			head += " never started: "
		}
	}
	if len(all) == 0 {
		return nil
	}
	return canvas.Line{{Role: theme.Text, Text: head}, {Role: theme.Quiet, Text: s.Graph.NameList(all)}}
}

// phrasedFor returns " for 12 s", "" without a time.
func phrasedFor(span string) string {
	if span == "" {
		return ""
	}
	return " for " + span
}
