package board

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// whyNoReport says why there is no report, "" if there is one.
func (m *model) whyNoReport() string {
	switch {
	case m.HasReport():
		return ""
	case m.State.Operation.IsWatch():
		return "only a run has a report"
	}
	return "the report appears when the run is over"
}

// reportLines returns the final report: changes, notes, timings, next commands.
func (m *model) reportLines(width int) []canvas.Line {
	s := &m.State
	mark, done, undone, incomplete := m.Theme.Mark(string(s.Ending())), s.Changes().String(), s.RollbackChanges().String(), s.RollbackChanges().Sentence()
	if s.Operation.IsStack() {
		done, undone, incomplete = s.Changes().Releases(), "", "" // the outcome counts the releases that were rolled back
	}
	out := []canvas.Line{{{Role: mark.Role, Text: mark.Glyph + " " + mark.Word}, {Role: theme.Text, Text: " in " + canvas.Took(s.Ended.Sub(s.Started)) + m.idle()}}}
	if done != "" {
		out[0] = append(out[0], canvas.Piece{Role: theme.Strong, Text: ": " + done + phrase.InAll(s)})
	}
	switch {
	case s.RollbackFailed():
		how := " rollback failed"
		if s.RollbackStopped() {
			how = " rollback stopped"
		}
		out = append(out, canvas.Plain(theme.Bad, m.Theme.Mark(string(event.Failed)).Glyph+text.Join("; ", how, incomplete)))
	case undone != "":
		out = append(out, canvas.Plain(theme.Stopped, m.Theme.Mark("rolled-back").Glyph+" rolled back: "+undone))
	}
	for _, root := range s.Roots() {
		out = append(out, canvas.Line{{Role: theme.Bad, Text: m.Theme.Mark(string(event.Failed)).Glyph + " "}, {Role: theme.Text, Text: m.Graph.Shorten(phrase.Root(root))}})
	}
	for _, fixed := range s.Fixed() {
		out = append(out, canvas.Line{{Role: theme.Good, Text: m.Theme.Mark(string(event.Ready)).Glyph + " "}, {Role: theme.Text, Text: m.Graph.Shorten(phrase.Fixed(fixed))}})
	}
	if s.Outcome != "" {
		out = append(out, canvas.Plain(theme.Quiet, s.Outcome))
	}
	for g := range s.GroupStates() {
		if r := s.Scopes[g.ID]; r != nil && r.Status == event.Succeeded && r.Outcome != "" { // a Job that is not complete, for example
			out = append(out, canvas.Plain(theme.Quiet, g.ID+": "+r.Outcome))
		}
	}
	out = append(out, textLines("approved", phrase.Approvals(s), width)...)
	for _, l := range phrase.Changed(s) {
		what, names, _ := strings.Cut(l, ": ")
		out = append(out, canvas.Labelled(canvas.Piece{Role: theme.Quiet, Text: what}, canvas.Width(what)+1, theme.Text, m.Graph.Shorten(names), width-canvas.Width(what)-1)...)
	}
	out = append(out, textLines("notes", s.Notes, width)...) // how to reach what was installed: before how long it took
	out = append(out, m.pathLines(width)...)
	out = append(out, m.slowestLines(width)...)
	if m.next != nil {
		out = append(out, textLines("next", m.next(s), width)...)
	}
	return canvas.WrapLines(out, width)
}

// idle says how long the operation was paused or held, in parentheses; "" for no time.
func (m *model) idle() string {
	idle := m.State.Ended.Sub(m.State.Started) - m.State.Active(m.State.Ended)
	if idle <= 0 {
		return ""
	}
	return " (" + canvas.Took(idle) + " " + m.State.IdleWord() + ")"
}

// maxPathLines limits the lines of the critical path; a longer one loses its middle.
const maxPathLines = 16

func (m *model) pathLines(width int) []canvas.Line {
	path := forecast.ShownPath(&m.State)
	if len(path) == 0 {
		return nil
	}
	groups := make([]*event.GroupState, len(path))
	for n, p := range path {
		groups[n] = p.Group
	}
	const tookWidth = 9
	names, nameWidth := m.nameColumn(groups, width/3)
	room := min(width-2-nameWidth-tookWidth-1, 80)
	out := []canvas.Line{canvas.Plain(theme.Quiet, forecast.PathHeading(&m.State))}
	for n, b := range forecast.Bars(path, max(room, 1)) {
		out = append(out, canvas.Line{
			{Role: theme.Text, Text: "  " + names[n]}, {Role: theme.Quiet, Text: fmt.Sprintf("%*s ", tookWidth, canvas.Took(path[n].Took))},
			{Role: theme.Faint, Text: strings.Repeat(" ", b.From) + strings.Repeat(m.Theme.Lines.Rest, b.Requests)},
			{Role: theme.Busy, Text: strings.Repeat(m.Theme.Lines.Bar, b.Waited)},
		})
	}
	if over := len(path) - maxPathLines; over > 0 {
		middle := canvas.Plain(theme.Quiet, fmt.Sprintf("  %s %s", m.Theme.Lines.Ellipsis, text.Count(over, m.State.GroupNoun())))
		out = slices.Concat(out[:1+maxPathLines/2], []canvas.Line{middle}, out[len(out)-maxPathLines/2:])
	}
	return out
}

// slowestLines lists the slowest groups, compared with the last run.
func (m *model) slowestLines(width int) []canvas.Line {
	slowest := forecast.LongestGroups(&m.State, 3)
	if len(slowest) == 0 {
		return nil
	}
	groups := make([]*event.GroupState, len(slowest))
	for n, g := range slowest {
		groups[n] = g.Group
	}
	names, _ := m.nameColumn(groups, width/3)
	out := []canvas.Line{canvas.Plain(theme.Quiet, "slowest "+m.State.GroupNoun()+"s, compared with last time")}
	for n, g := range slowest {
		role, than := theme.Quiet, "about the same"
		switch {
		case !g.Differs():
		case g.Took > g.Last:
			role, than = theme.Stopped, "+"+canvas.Took(g.Difference())
		default:
			role, than = theme.Good, "-"+canvas.Took(-g.Difference())
		}
		took := fmt.Sprintf("%9s  last time %s  ", canvas.Took(g.Took), canvas.Took(g.Last))
		out = append(out, canvas.Line{{Role: theme.Text, Text: "  " + names[n]}, {Role: theme.Quiet, Text: took}, {Role: role, Text: than}})
	}
	return out
}

// nameColumn returns the names of groups padded to a column of at most limit cells, and its width.
func (m *model) nameColumn(groups []*event.GroupState, limit int) (names []string, width int) {
	for _, g := range groups {
		name := m.groupName(g)
		names, width = append(names, name), min(max(width, canvas.Width(name)), limit)
	}
	for n, name := range names {
		names[n] = canvas.Pad(canvas.FitMiddle(name, width, m.Theme.Lines.Ellipsis), width)
	}
	return names, width
}

// groupName returns the board's name of a group, and says that it is deleted if another phase has a group with
// the same ID.
func (m *model) groupName(g *event.GroupState) string {
	n := m.Graph.ByKey[g.Unit()]
	if n == nil {
		return g.ID
	}
	for _, p := range m.State.Phases {
		if p.Name != g.Phase && n.Kind == event.PhaseRemove && m.State.Find(p.Name, g.ID) != nil {
			return graph.DeletePrefix + m.Graph.Shorten(g.ID)
		}
	}
	return m.Graph.Name(n)
}

func textLines(heading string, lines []string, width int) []canvas.Line {
	if len(lines) == 0 {
		return nil
	}
	out := []canvas.Line{canvas.Plain(theme.Quiet, heading)}
	for _, l := range lines {
		out = append(out, canvas.Labelled(canvas.Piece{}, 2, theme.Text, l, width-2)...)
	}
	return out
}
