package board

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// partBreaks is the heading of the keys of the list.
const partBreaks = "in the list of breakpoints"

// breakList is the list of breakpoints, on top of the board: what is selected in
// it, by its unit, so that one that is reached does not move it to another.
type breakList struct{ sel event.Unit }

// breakBindings are the keys of the list. Those that steer send what the board's
// own keys send.
func breakBindings() []binding {
	move := func(by int) func(*model) tea.Cmd { return func(m *model) tea.Cmd { m.moveBreak(by); return nil } }
	shut := func(m *model) tea.Cmd { m.breaks = nil; return nil }
	order := func(name event.CommandName) func(*model) tea.Cmd {
		return func(m *model) tea.Cmd {
			n := m.selectedBreak()
			if n == nil {
				return nil
			}
			return m.send(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
		}
	}
	return []binding{
		{keys: []string{"up", "k"}, label: "up k", do: move(-1), about: "line up"},
		{keys: []string{"down", "j"}, label: "down j", do: move(1), about: "line down"},
		{keys: []string{"space"}, label: "space", do: order(event.Disable), about: "disable the breakpoint, so that it stops nothing; again: enable it"},
		{keys: []string{"x", "delete"}, label: "x", do: order(event.Break), about: "take the breakpoint away"},
		{keys: []string{"enter"}, label: "enter", do: (*model).gotoBreak, about: "go to the group"},
		{keys: []string{"esc", "q", "B"}, label: "esc", do: shut, about: "close the list"},
		{keys: []string{"ctrl+c"}, label: "ctrl-c", do: func(m *model) tea.Cmd { m.breaks = nil; return m.askAbort() }, about: "abort: asks"},
	}
}

func (m *model) openBreaks() tea.Cmd {
	m.breaks = &breakList{}
	return nil
}

// breakpoints are the groups that have one, in the order of the plan. What has
// started is behind it.
func (m *model) breakpoints() (nodes []*graph.Node) {
	for _, n := range m.Graph.Nodes {
		if m.State.Breaks(n.Unit()) && !n.Status.Over() && n.Status != event.Running {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// selectedBreak is the group that is selected in the list, nil where that is
// empty.
func (m *model) selectedBreak() *graph.Node {
	nodes := m.breakpoints()
	if len(nodes) == 0 {
		return nil
	}
	return nodes[m.breakAt(nodes)]
}

func (m *model) breakAt(nodes []*graph.Node) int {
	for i, n := range nodes {
		if n.Unit() == m.breaks.sel {
			return i
		}
	}
	return 0
}

func (m *model) moveBreak(by int) {
	if nodes := m.breakpoints(); len(nodes) > 0 {
		m.breaks.sel = nodes[min(max(m.breakAt(nodes)+by, 0), len(nodes)-1)].Unit()
	}
}

func (m *model) gotoBreak() tea.Cmd {
	if n := m.selectedBreak(); n != nil {
		m.follow = false
		m.selectNode(n)
	}
	m.breaks = nil
	return nil
}

// drawBreaks draws the list over the board, the part of it that is about the
// selected line where it is long.
func (m *model) drawBreaks() {
	nodes := m.breakpoints()
	if len(nodes) == 0 {
		m.canvas.Box("breakpoints "+m.Theme.Lines.Dot+" esc closes", min(m.w-4, 56), []canvas.Line{canvas.Plain(theme.Quiet, "there are none; b sets one on the selected group")}, theme.Accent)
		return
	}
	at, room := m.breakAt(nodes), max(m.h-6, 1)
	first := min(max(at-room/2, 0), max(len(nodes)-room, 0))
	wide := 0
	for _, n := range nodes {
		wide = max(wide, canvas.Width(breakName(n)))
	}
	w := min(max(wide+18, 58), m.w-4)
	var lines []canvas.Line
	for i, n := range nodes[first:min(first+room, len(nodes))] {
		cursor, glyph, word := " ", m.Theme.Lines.Break, m.Theme.Mark(string(n.Status)).Word
		role := theme.Text
		if first+i == at {
			cursor, role = m.Theme.Lines.Cursor, theme.Strong
		}
		if !m.State.Stops(n.Unit()) {
			glyph, word = " ", "disabled"
		}
		name := canvas.FitMiddle(breakName(n), w-18, m.Theme.Lines.Ellipsis)
		lines = append(lines, canvas.Line{
			{Role: theme.Key, Text: cursor + " "}, {Role: theme.Stopped, Text: glyph + " "},
			{Role: role, Text: name + fmt.Sprintf("%*s", w-17-canvas.Width(name), "")}, {Role: theme.Quiet, Text: word},
		})
	}
	title := fmt.Sprintf("%s %s space disables, x deletes, esc", canvas.Count(len(nodes), "breakpoint"), m.Theme.Lines.Dot)
	m.canvas.Box(title, w, lines, theme.Accent)
}

// breakName is a group in the list: its id, and its phase where that is not the
// one that most are in.
func breakName(n *graph.Node) string {
	if n.Phase == "apply" {
		return canvas.Clean(n.ID)
	}
	return canvas.Clean(n.Phase + " " + n.ID)
}
