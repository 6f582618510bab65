package board

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// In the end the screen is a report: what has changed, what took the time, what the
// chart has to say, what to type next. Below the board stands as much of it as there
// is room for, until the user looks at something else; o shows all.

// ended reports whether there is an end to report.
func ended(m *model) bool {
	return m.Over() && !m.State.Ended.IsZero() && !m.State.Operation.Watches()
}

// reports reports whether the report stands below the board. Of a failure, why it
// came to that stands there.
func (m *model) reports() bool {
	return ended(m) && m.follow && m.insp == nil && m.State.Status == event.Succeeded
}

func (m *model) openReport() tea.Cmd {
	if !ended(m) {
		return m.say(theme.Quiet, "the report comes when the operation is over")
	}
	m.pager = &pager{title: "report", make: m.reportLines}
	return nil
}

// drawReport draws as much of the report as there is room for.
func (m *model) drawReport(p canvas.Rect) {
	m.canvas.Head(p.Y, "report")
	lines := m.reportLines(p.W - 3)
	for i, l := range lines[:min(len(lines), p.H-1)] {
		m.canvas.Line(2, p.Y+1+i, p.W-3, l)
	}
	if len(lines) > p.H-1 {
		m.canvas.PutRight(p.W-1, p.Y+p.H-1, theme.Quiet, " "+m.Theme.Lines.Ellipsis+" o shows all")
	}
}

// reportLines are the report, as wide as it may be.
func (m *model) reportLines(width int) []canvas.Line {
	s := &m.State
	mark, done := m.Theme.Mark(string(s.Ending())), s.Changes(false).String()
	out := []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: " in " + canvas.Span(s.Ended.Sub(s.Started), true) + m.idle()}}}
	if done != "" {
		out[0] = append(out[0], canvas.Piece{Role: theme.Strong, Text: ": " + done})
	}
	out = canvas.WrapLines(out, width)
	if undid := s.Changes(true).String(); undid != "" {
		out = append(out, canvas.Plain(theme.Stopped, m.Theme.Mark("rolled-back").Glyph+" rolled back: "+undid))
	}
	for _, r := range s.Roots() {
		out = append(out, canvas.WrapLines([]canvas.Line{{{Role: theme.Bad, Text: m.Theme.Mark(string(event.Failed)).Glyph + " "}, {Role: theme.Text, Text: m.Graph.Shorten(r.String())}}}, width)...)
	}
	if s.Outcome != "" {
		out = append(out, canvas.Plain(theme.Quiet, s.Outcome))
	}
	out = append(out, m.pathLines(width)...)
	out = append(out, m.slowestLines(width)...)
	out = append(out, textLines("notes", s.Notes, width)...)
	if m.opts.Next != nil {
		out = append(out, textLines("next", m.opts.Next(s), width)...)
	}
	return out
}

// idle says how long the operation has stood still.
func (m *model) idle() string {
	idle := m.State.Ended.Sub(m.State.Started) - m.State.Active(m.State.Ended)
	if idle <= 0 {
		return ""
	}
	return ", " + canvas.Span(idle, true) + " of it paused"
}

// longestPath is how many groups of the critical path have a line.
const longestPath = 16

// pathLines draw the critical path.
func (m *model) pathLines(width int) []canvas.Line {
	path := forecast.Path(&m.State)
	if len(path) < 2 || m.State.Status == event.Aborted {
		return nil
	}
	names := 0
	for _, p := range path {
		names = max(names, canvas.Width(m.unitName(p.Group)))
	}
	names = min(names, width/3)
	const took = 9
	room := min(width-2-names-took-1, 80)
	out := []canvas.Line{canvas.Plain(theme.Quiet, "critical path")}
	for n, b := range forecast.Bars(path, max(room, 1)) {
		name := canvas.Pad(canvas.FitMiddle(m.unitName(path[n].Group), names, m.Theme.Lines.Ellipsis), names)
		out = append(out, canvas.Line{
			{Role: theme.Text, Text: "  " + name}, {Role: theme.Quiet, Text: fmt.Sprintf("%*s ", took, canvas.Span(path[n].Took, true))},
			{Role: theme.Faint, Text: strings.Repeat(" ", b.From) + strings.Repeat(m.Theme.Lines.Rest, b.Sent)},
			{Role: theme.Busy, Text: strings.Repeat(m.Theme.Lines.Bar, b.Waited)},
		})
	}
	if over := len(path) - longestPath; over > 0 {
		middle := canvas.Plain(theme.Quiet, fmt.Sprintf("  %s %s", m.Theme.Lines.Ellipsis, canvas.Count(over, "group")))
		out = append(append(out[:1+longestPath/2:1+longestPath/2], middle), out[len(out)-longestPath/2:]...)
	}
	return out
}

// slowestLines tell which groups took longest, against the last time.
func (m *model) slowestLines(width int) []canvas.Line {
	var out []canvas.Line
	slowest, names := forecast.Slowest(&m.State, 3), 0
	for _, g := range slowest {
		names = min(max(names, canvas.Width(m.unitName(g.Group))), width/3)
	}
	for _, g := range slowest {
		if out == nil {
			out = append(out, canvas.Plain(theme.Quiet, "slowest groups, against last time"))
		}
		role, than := theme.Quiet, "about the same"
		if g.Differs() {
			role, than = theme.Good, "-"+canvas.Span(g.Usual-g.Took, true)
			if g.Took > g.Usual {
				role, than = theme.Stopped, "+"+canvas.Span(g.Took-g.Usual, true)
			}
		}
		name := canvas.Pad(canvas.FitMiddle(m.unitName(g.Group), names, m.Theme.Lines.Ellipsis), names)
		out = append(out, canvas.Line{{Role: theme.Text, Text: "  " + name}, {Role: theme.Quiet, Text: fmt.Sprintf("%9s  last time %s  ", canvas.Span(g.Took, true), canvas.Span(g.Usual, true))}, {Role: role, Text: than}})
	}
	return out
}

// unitName is a group as the board calls it, and says which is its removal where the
// operation brings a group of the same name, too.
func (m *model) unitName(g *event.GroupState) string {
	n := m.Graph.ByKey[g.Unit()]
	if n == nil {
		return g.ID
	}
	for _, p := range m.State.Phases {
		if p.Name != g.Phase && m.Graph.Cols[n.Col].Phase.Kind == event.PhaseRemove && m.State.Find(p.Name, g.ID) != nil {
			return n.Name + " removal"
		}
	}
	return n.Name
}

// textLines are lines below a heading, none where there are none.
func textLines(heading string, lines []string, width int) []canvas.Line {
	if len(lines) == 0 {
		return nil
	}
	out := []canvas.Line{canvas.Plain(theme.Quiet, heading)}
	for _, l := range lines {
		for _, part := range canvas.Wrap(l, width-2) {
			out = append(out, canvas.Plain(theme.Text, "  "+part))
		}
	}
	return out
}
