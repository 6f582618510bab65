package home

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// layout is where the parts of home are. A height of 0 leaves a part out.
type layout struct {
	runs     canvas.Rect // the rows of runs, below their heading
	releases canvas.Rect // the rows of releases, below the heads of their columns
	pane     canvas.Rect // below its heading
}

const (
	firstLine  = 2  // below the header and the state
	paneFrom   = 20 // the height of a screen from which there is a pane
	tallScreen = 36 // the height of a screen from which the pane is higher
	maxPane    = 5
	emptyLines = 6 // what drawEmpty needs
)

// layOut divides the screen. Runs get half of the room, and what the releases leave. The pane gets rows that the tables leave.
func (m *model) layOut() (l layout) {
	bottom := m.H - 1 // the footer
	releases := len(m.table.rows) - m.table.runs
	switch {
	case m.table.runs > 0: // they matter more than what can be done without releases
		releases = max(releases, 1)
	case releases == 0:
		releases = emptyLines
	}
	if len(m.table.rows) > 0 && m.H >= paneFrom {
		l.pane.H = 2
		if m.H >= tallScreen {
			l.pane.H = maxPane
		}
		l.pane.H = min(max(bottom-1-firstLine-m.allRows(), l.pane.H), maxPane)
	}
	bottom -= l.pane.H
	l.pane.Y = bottom
	bottom-- // the heading of the pane
	y := firstLine
	if n := m.table.runs; n > 0 {
		l.runs = canvas.Rect{Y: y + 1, H: min(n, max((bottom-y)/2-2, bottom-y-3-releases, 1))}
		y = l.runs.Y + l.runs.H + 1
	}
	l.releases = canvas.Rect{Y: y + 1, H: max(bottom-y-1, 1)}
	l.runs.W, l.releases.W, l.pane.W = m.W, m.W, m.W
	return l
}

// allRows returns how many lines the tables need without a filter: while one is typed, nothing moves.
func (m *model) allRows() (n int) {
	for _, r := range m.snapshot.Runs {
		n += 1 + len(r.Parts)
	}
	if n > 0 {
		n += 2 // the heading, and an empty line
	}
	switch {
	case len(m.snapshot.Releases) > 0:
	case n > 0:
		return n + 2 // an empty line, and the sentence of drawEmpty
	default:
		return emptyLines
	}
	return n + 1 + len(m.snapshot.Releases) + len(m.snapshot.Stacks)
}

func (m *model) draw() {
	m.stale = false
	if m.W <= 0 || m.H <= 0 {
		m.frame = ""
		return
	}
	m.Clear()
	if m.TooSmall() {
		m.DrawNeededSize()
	} else {
		l := m.layOut()
		m.drawHeader()
		m.drawTable(l)
		m.drawPane(l.pane)
		query, matches := m.filtered()
		m.DrawFooter(m.hints(), query, matches)
	}
	for _, open := range m.Modes {
		open.Draw()
	}
	m.DrawFlash()
	m.frame = m.Canvas.String()
}

// filtered returns the filter that the footer shows, and how many rows match: that of home, or of the mode that covers it.
func (m *model) filtered() (query, matches string) {
	if !m.Modes.Covers() {
		return m.state.Filter, m.matches()
	}
	if top, ok := m.Modes.Top().(*past); ok {
		return top.state.Past.Filter, top.matches()
	}
	return "", ""
}

// hints returns the keys in the footer: those of the topmost mode that covers home, or of home.
func (m *model) hints() (out []keys.Hint) {
	table := m.keys()
	if m.Modes.Covers() {
		table = m.Modes.Top().Keys()
	}
	for _, b := range table {
		if b.Hint == nil {
			continue
		}
		if word := b.Hint(); word != "" {
			out = append(out, keys.Hint{Key: m.KeyName(b), Word: word, Press: b.Key(), Pinned: b.Pinned, Dim: b.Disabled != nil && b.Disabled() != ""})
		}
	}
	return out
}

// drawTable draws the rows in view with their headings.
func (m *model) drawTable(l layout) {
	cv := m.Canvas
	if len(m.table.rows) == 0 {
		m.drawEmpty(firstLine, m.H-1)
		return
	}
	c := m.columns()
	if n := m.table.runs; n > 0 {
		x := cv.Put(1, l.runs.Y-1, theme.Strong, "runs")
		if m.hasRunsElsewhere() {
			cv.Put(x+gap, l.runs.Y-1, theme.Quiet, "also of other namespaces")
		}
		m.drawRows(l.runs, m.table.rows[:n], m.runsTop, 0, func(y int, r row) { m.drawRun(y, r, &c) })
	}
	if all := m.table.rows[m.table.runs:]; len(all) > 0 {
		c.drawHeads(l.releases.Y - 1)
		m.drawRows(l.releases, all, m.top, m.table.runs, func(y int, r row) { c.draw(y, r) })
	} else {
		m.drawEmpty(l.runs.Y+l.runs.H, l.releases.Y+l.releases.H)
	}
}

// hasRunsElsewhere reports whether the table has the run of a release in a namespace that is not shown.
func (m *model) hasRunsElsewhere() bool {
	return !m.state.All && slices.ContainsFunc(m.table.rows[:m.table.runs], func(r row) bool { return r.run.Namespace != "" && r.run.Namespace != m.state.Namespace })
}

// drawRows draws the rows of a part from the one at top. first is the index of the part's first row in the table.
func (m *model) drawRows(in canvas.Rect, rows []row, top, first int, draw func(y int, r row)) {
	for i := top; i < min(top+in.H, len(rows)); i++ {
		y := in.Y + i - top
		if first+i == m.selected {
			m.Canvas.Highlight(0, y, m.W)
			m.Canvas.Put(0, y, theme.Key, m.Theme.Lines.Cursor)
		}
		draw(y, rows[i])
	}
	m.Canvas.ScrollBar(m.W-1, in, top, len(rows))
}

// rowAt returns the row at a line of the screen.
func (m *model) rowAt(line int) (n int, ok bool) {
	l := m.layOut()
	switch {
	case line >= l.runs.Y && line < l.runs.Y+l.runs.H:
		return m.runsTop + line - l.runs.Y, true
	case line >= l.releases.Y && line < l.releases.Y+l.releases.H:
		n = m.table.runs + m.top + line - l.releases.Y
		return n, n < len(m.table.rows)
	}
	return 0, false
}

// drawEmpty says that there is nothing, and what to do, in the rows from y to end.
func (m *model) drawEmpty(y, end int) {
	cv := m.Canvas
	where := "in namespace " + m.state.Namespace
	if m.state.All {
		where = "in the cluster"
	}
	switch {
	case !m.snapshot.Listed && m.snapshot.Away != "":
		away := m.Theme.Mark(string(event.Away))
		cv.Put(1, y+1, away.Role, away.Glyph)
		for i, l := range canvas.Wrap(m.snapshot.Away, m.W-6) {
			cv.PutFit(3, y+1+i, m.W-6, theme.Text, l)
		}
		return
	case !m.snapshot.Listed:
		cv.PutFit(3, y+1, m.W-6, theme.Quiet, "reading the releases "+where)
		return
	case m.state.Filter != "":
		cv.PutFit(3, y+1, m.W-6, theme.Text, noMatch("release", m.state.Filter))
		return
	}
	what := "no releases " + where
	if m.snapshot.NoNamespace {
		what = "namespace " + m.state.Namespace + " does not exist; an install creates it"
	}
	cv.PutFit(3, y+1, m.W-6, theme.Text, what)
	line := y + 3
	for _, b := range m.keys() {
		if word := whenEmpty[b.Key()]; word != "" && line < end && (b.Disabled == nil || b.Disabled() == "") {
			cv.Line(3, line, m.W-6, canvas.Line{{Role: theme.Key, Text: canvas.Pad(b.Name(), 4)}, {Role: theme.Quiet, Text: word}})
			line++
		}
	}
}

// noMatch says that none of the things with a name matches a filter.
func noMatch(name, filter string) string {
	return "no " + name + " matches /" + filter + "; esc clears the filter"
}

// drawPane draws what the selected row has no room for.
func (m *model) drawPane(in canvas.Rect) {
	r := m.row()
	if in.H == 0 || r == nil {
		m.Canvas.Heading(in.Y-1, "")
		return
	}
	title, lines := m.about(r)
	m.Canvas.Heading(in.Y-1, title)
	m.drawLines(in, lines)
}

// drawLines wraps lines into a pane, with an ellipsis if there is no room for the rest of the last one.
func (m *model) drawLines(in canvas.Rect, lines []canvas.Line) {
	lines = canvas.WrapLines(lines, m.W-4)
	for i, l := range lines[:min(len(lines), in.H)] {
		if i == in.H-1 && i+1 < len(lines) && strings.HasPrefix(lines[i+1].Text(), canvas.Indent) {
			l = append(slices.Clip(l), canvas.Piece{Role: theme.Quiet, Text: m.Theme.Lines.Ellipsis})
		}
		m.Canvas.Line(2, in.Y+i, m.W-3, l)
	}
}

// about describes a row: a title, and what to know first.
func (m *model) about(r *row) (title string, lines []canvas.Line) {
	switch {
	case r.part != nil:
		mark := m.runMark(r.part.Status)
		return r.part.Name, []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: prefixed(": ", r.part.Why)}}}
	case r.run != nil:
		mark := m.runMark(r.run.Status)
		lines = []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: m.ends(r.run) + prefixed(": ", r.run.Why)}}}
		return m.Join(m.name(r.run.Key), r.run.Operation), append(lines, canvas.Plain(theme.Quiet, m.Join(whereRuns(r.run), prefixed("by ", r.run.By), "started "+m.ago(r.run.Since))))
	}
	if r.isStack() {
		return m.aboutStack(r.stack)
	}
	rel := r.release
	mark := m.releaseMark(rel)
	state := canvas.Line{{Role: mark.Role, Text: mark.Glyph + " " + rel.Status}, {Role: theme.Text, Text: prefixed(", ", m.Join(rel.ready()+m.unreadyFor(rel), rel.Health.Cause))}}
	by := canvas.Plain(theme.Quiet, m.Join(rel.Chart, fmt.Sprintf("revision %d", rel.Revision), text.Join(" ", "changed", m.ago(rel.Changed), prefixed("by ", rel.By))))
	if rel.LastRun != "" {
		return m.name(rel.Key), []canvas.Line{state, canvas.Plain(theme.Text, "last run: "+rel.LastRun), by}
	}
	return m.name(rel.Key), []canvas.Line{state, by}
}

// aboutStack describes the last run of a stack.
func (m *model) aboutStack(s *Stack) (title string, lines []canvas.Line) {
	mark := m.runMark(s.Status)
	return "stack " + s.Name, []canvas.Line{
		{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: ": " + text.Join(" ", s.Operation, "of", text.Count(len(s.Members), "release"), m.ago(s.Ended), prefixed("by ", s.By))}},
		canvas.Plain(theme.Quiet, text.Program+" replay "+s.Record),
	}
}

const unlessAttached = " if nobody attaches"

// ends says when a paused or held run ends by itself, "" if it does not.
func (m *model) ends(r *LiveRun) string {
	left := r.Ends.Sub(m.Now())
	switch {
	case r.Ends.IsZero() || left < 0:
		return ""
	case r.Status == event.Held:
		return ", fails in " + canvas.Span(left) + unlessAttached
	}
	return ", aborted in " + canvas.Span(left) + unlessAttached
}

// unreadyFor says for how long something is not ready, "" if that is unknown or less than a minute.
func (m *model) unreadyFor(r *Release) string {
	if since := r.Health.Since; !since.IsZero() && m.Now().Sub(since) >= time.Minute {
		return " for " + strings.TrimSuffix(m.ago(since), " ago")
	}
	return ""
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// whereRuns says where the process of a run is, "" if By says it.
func whereRuns(r *LiveRun) string {
	switch {
	case r.Cluster != "":
		return "in the cluster"
	case r.Elsewhere != "":
		return ""
	}
	return "on this machine"
}

// name returns the name of a release or a run, with its namespace if that is not the one shown.
func (m *model) name(k Key) string {
	if k.Namespace != "" && (m.state.All || k.Namespace != m.state.Namespace) {
		return k.Namespace + "/" + k.Name
	}
	return k.Name
}

// runMark returns the mark of a run in a status, or of a release of its stack.
func (m *model) runMark(status event.Status) theme.Mark {
	if status == event.Held {
		return m.Theme.HeldFailure()
	}
	return m.Theme.Mark(string(status))
}

// releaseMark returns the mark of a release; its glyph is a dot while the health is unknown.
func (m *model) releaseMark(r *Release) theme.Mark {
	status := r.mark()
	mark := m.Theme.Mark(status)
	if status == "" {
		mark.Glyph, mark.Role = m.Theme.Lines.Dot, theme.Quiet
	}
	return mark
}

// drawRun draws a run, or a release of its stack.
func (m *model) drawRun(y int, r row, c *columns) {
	cv, end := m.Canvas, m.W-2
	if r.part != nil {
		mark := m.runMark(r.part.Status)
		x := m.arm(4, y, r.last)
		x = cv.Put(x, y, mark.Role, mark.Glyph+" ")
		widest := 0
		for _, p := range r.run.Parts {
			widest = max(widest, canvas.Width(p.Name))
		}
		cv.PutFit(x, y, end-x, theme.Text, r.part.Name)
		x = max(x+widest+gap, 4+c.name+gap)
		cv.PutFit(x, y, end-x, theme.Quiet, cmp.Or(r.part.Why, mark.Word))
		return
	}
	mark := m.runMark(r.run.Status)
	where := ""
	if r.run.Cluster != "" {
		where = "in the cluster"
	}
	by, ends := prefixed("by ", r.run.By), strings.TrimSuffix(m.ends(r.run), unlessAttached) // the pane has all of it
	x := 4 + c.name + gap + c.operation + gap
	if m.W < whereFrom { // the pane says it
		where = ""
		if x+canvas.Width(mark.Word+ends+prefixed(": ", r.run.Why))+gap+canvas.Width(m.Join(by, m.ago(r.run.Since))) > end {
			by = ""
		}
	}
	end = cv.PutRight(end, y, theme.Quiet, m.Join(where, by, m.ago(r.run.Since))) - gap
	cv.Put(2, y, mark.Role, mark.Glyph)
	cv.PutFit(4, y, c.name, theme.Strong, m.name(r.run.Key))
	operation := r.run.Operation
	if canvas.Width(canvas.Clean(operation)) > c.operation {
		operation = r.run.verb()
	}
	cv.PutFit(4+c.name+gap, y, min(c.operation, end-4-c.name-gap), theme.Text, operation)
	x = cv.PutFit(x, y, end-x, mark.Role, mark.Word+ends)
	cv.PutFit(x, y, end-x, theme.Text, prefixed(": ", r.run.Why))
}

// whenEmpty are the keys that home without releases suggests.
var whenEmpty = map[string]string{"i": "install a chart", "U": "install the releases of the helmfile here", ":": "show another namespace", "0": "show all namespaces"}
