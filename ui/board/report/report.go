// Package report builds the final report of the screen: changes, timings, notes, next
// commands. Its one type is Report.
package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/screen"
)

// Report reports on a finished operation.
type Report struct {
	*screen.Screen
	// Next suggests commands, one a line; it may be nil.
	Next func(*event.State) []string
}

// Lines returns the report in a width.
func (r *Report) Lines(width int) []canvas.Line {
	s := &r.State
	mark, done := r.Theme.Mark(string(s.Ending())), s.Changes(false).String()
	out := []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: " in " + canvas.Span(s.Ended.Sub(s.Started), true) + r.idle()}}}
	if done != "" {
		out[0] = append(out[0], canvas.Piece{Role: theme.Strong, Text: ": " + done})
	}
	out = canvas.WrapLines(out, width)
	if undid := s.Changes(true).String(); undid != "" {
		out = append(out, canvas.Plain(theme.Stopped, r.Theme.Mark("rolled-back").Glyph+" rolled back: "+undid))
	}
	for _, root := range s.Roots() {
		out = append(out, canvas.WrapLines([]canvas.Line{{{Role: theme.Bad, Text: r.Theme.Mark(string(event.Failed)).Glyph + " "}, {Role: theme.Text, Text: r.Graph.Shorten(root.String())}}}, width)...)
	}
	for _, m := range s.Fixed {
		out = append(out, canvas.WrapLines([]canvas.Line{{{Role: theme.Stopped, Text: "fixed: "}, {Role: theme.Text, Text: r.Graph.Shorten(m.String())}}}, width)...)
	}
	if s.Outcome != "" {
		out = append(out, canvas.Plain(theme.Quiet, s.Outcome))
	}
	out = append(out, r.pathLines(width)...)
	out = append(out, r.slowestLines(width)...)
	out = append(out, textLines("notes", s.Notes, width)...)
	if r.Next != nil {
		out = append(out, textLines("next", r.Next(s), width)...)
	}
	return out
}

// idle returns the time that the operation was paused or held, in parentheses.
func (r *Report) idle() string {
	idle := r.State.Ended.Sub(r.State.Started) - r.State.Active(r.State.Ended)
	if idle <= 0 {
		return ""
	}
	return " (" + canvas.Span(idle, true) + " paused)"
}

// longestPath limits the lines of the critical path.
const longestPath = 16

// pathLines draw the critical path.
func (r *Report) pathLines(width int) []canvas.Line {
	path := forecast.Path(&r.State)
	if len(path) < 2 || r.State.Status == event.Aborted {
		return nil
	}
	names := 0
	for _, p := range path {
		names = max(names, canvas.Width(r.unitName(p.Group)))
	}
	names = min(names, width/3)
	const took = 9
	room := min(width-2-names-took-1, 80)
	out := []canvas.Line{canvas.Plain(theme.Quiet, "critical path")}
	for n, b := range forecast.Bars(path, max(room, 1)) {
		name := canvas.Pad(canvas.FitMiddle(r.unitName(path[n].Group), names, r.Theme.Lines.Ellipsis), names)
		out = append(out, canvas.Line{
			{Role: theme.Text, Text: "  " + name}, {Role: theme.Quiet, Text: fmt.Sprintf("%*s ", took, canvas.Span(path[n].Took, true))},
			{Role: theme.Faint, Text: strings.Repeat(" ", b.From) + strings.Repeat(r.Theme.Lines.Rest, b.Sent)},
			{Role: theme.Busy, Text: strings.Repeat(r.Theme.Lines.Bar, b.Waited)},
		})
	}
	if over := len(path) - longestPath; over > 0 {
		middle := canvas.Plain(theme.Quiet, fmt.Sprintf("  %s %s", r.Theme.Lines.Ellipsis, canvas.Count(over, "group")))
		out = append(append(out[:1+longestPath/2:1+longestPath/2], middle), out[len(out)-longestPath/2:]...)
	}
	return out
}

// slowestLines lists the slowest groups, compared with the last run.
func (r *Report) slowestLines(width int) []canvas.Line {
	var out []canvas.Line
	slowest, names := forecast.Slowest(&r.State, 3), 0
	for _, g := range slowest {
		names = min(max(names, canvas.Width(r.unitName(g.Group))), width/3)
	}
	for _, g := range slowest {
		if out == nil {
			out = append(out, canvas.Plain(theme.Quiet, "slowest groups, compared with last time"))
		}
		role, than := theme.Quiet, "about the same"
		if g.Differs() {
			role, than = theme.Good, "-"+canvas.Span(g.Usual-g.Took, true)
			if g.Took > g.Usual {
				role, than = theme.Stopped, "+"+canvas.Span(g.Took-g.Usual, true)
			}
		}
		name := canvas.Pad(canvas.FitMiddle(r.unitName(g.Group), names, r.Theme.Lines.Ellipsis), names)
		out = append(out, canvas.Line{{Role: theme.Text, Text: "  " + name}, {Role: theme.Quiet, Text: fmt.Sprintf("%9s  last time %s  ", canvas.Span(g.Took, true), canvas.Span(g.Usual, true))}, {Role: role, Text: than}})
	}
	return out
}

// unitName returns the board's name of a group; it marks a removal if another group has the
// same name.
func (r *Report) unitName(g *event.GroupState) string {
	n := r.Graph.ByKey[g.Unit()]
	if n == nil {
		return g.ID
	}
	for _, p := range r.State.Phases {
		if p.Name != g.Phase && n.Kind == event.PhaseRemove && r.State.Find(p.Name, g.ID) != nil {
			return n.Name + " removal"
		}
	}
	return n.Name
}

// textLines returns lines below a heading, nil without lines.
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
