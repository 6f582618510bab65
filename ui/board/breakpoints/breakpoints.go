// Package breakpoints is the mode that lists the breakpoints. Its one type is List.
package breakpoints

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Part is the heading of the keys of the list.
const Part = "in the list of breakpoints"

// List is the list of breakpoints on top of the board. It keeps its selection by unit,
// so that reaching a breakpoint does not select another.
type List struct {
	*screen.Screen
	at event.Unit
}

// New returns a closed list.
func New(s *screen.Screen) *List { return &List{Screen: s} }

// Open shows it.
func (b *List) Open() tea.Cmd {
	b.at = event.Unit{}
	b.Modes.Open(b)
	return nil
}

func (b *List) close() { b.Modes.Close(b) }

// Update closes the list when the run is over.
func (b *List) Update(msg tea.Msg) tea.Cmd {
	if _, ok := msg.(keys.Changed); ok && b.Over() {
		b.close()
	}
	return nil
}

// Keys returns the keys of the list.
func (b *List) Keys() []keys.Binding {
	move := func(by int) func() tea.Cmd { return keys.Run(func() { b.move(by) }) }
	order := func(name event.CommandName) func() tea.Cmd {
		return func() tea.Cmd {
			n := b.selected()
			if n == nil {
				return nil
			}
			return b.Send(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
		}
	}
	return []keys.Binding{
		{Keys: "up k", Do: move(-1), About: "line up"},
		{Keys: "down j", Do: move(1), About: "line down"},
		{Keys: "space", Do: order(event.Disable), About: "disable or enable the breakpoint"},
		{Keys: "x delete", Label: "x", Do: order(event.Break), About: "delete the breakpoint"},
		{Keys: "enter", Do: keys.Run(b.visit), About: "go to the group"},
		{Keys: "esc B", Label: "esc", Do: keys.Run(b.close), About: "close the list"},
		{Keys: "ctrl+c", Label: "ctrl-c", Do: b.Abort, About: "abort (asks first)"},
	}
}

// groups returns the groups with a breakpoint ahead of them, in plan order.
func (b *List) groups() (nodes []*graph.Node) {
	for _, n := range b.Graph.Nodes {
		if b.State.HasBreakpoint(n.Unit()) && !n.Status.Over() && n.Status != event.Running {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// selected returns the selected group, nil if the list is empty.
func (b *List) selected() *graph.Node {
	nodes := b.groups()
	if len(nodes) == 0 {
		return nil
	}
	return nodes[b.index(nodes)]
}

func (b *List) index(nodes []*graph.Node) int {
	for i, n := range nodes {
		if n.Unit() == b.at {
			return i
		}
	}
	return 0
}

func (b *List) move(by int) {
	if nodes := b.groups(); len(nodes) > 0 {
		b.at = nodes[min(max(b.index(nodes)+by, 0), len(nodes)-1)].Unit()
	}
}

// visit selects the group on the board.
func (b *List) visit() {
	if n := b.selected(); n != nil {
		b.Follow, b.Sel = false, screen.Spot{Unit: n.Unit()}
	}
	b.close()
}

// Draw draws the list over the board. A long list scrolls to the selected line.
func (b *List) Draw() {
	if b.TooSmall() {
		return
	}
	nodes := b.groups()
	if len(nodes) == 0 {
		b.Canvas.Box("breakpoints "+b.Theme.Lines.Dot+" esc closes", min(b.W-4, 56), []canvas.Line{canvas.Plain(theme.Quiet, "No breakpoints; b sets one on the selected group")}, theme.Accent)
		return
	}
	at, room := b.index(nodes), max(b.H-6, 1)
	first := min(max(at-room/2, 0), max(len(nodes)-room, 0))
	wide := 0
	for _, n := range nodes {
		wide = max(wide, canvas.Width(nameOf(n)))
	}
	w := min(max(wide+18, 58), b.W-4)
	var lines []canvas.Line
	for i, n := range nodes[first:min(first+room, len(nodes))] {
		cursor, glyph, word := " ", b.Theme.Lines.Break, b.Theme.Mark(string(n.Status)).Word
		role := theme.Text
		if first+i == at {
			cursor, role = b.Theme.Lines.Cursor, theme.Strong
		}
		if !b.State.PausesBefore(n.Unit()) {
			glyph, word = " ", "disabled"
		}
		name := canvas.FitMiddle(nameOf(n), w-18, b.Theme.Lines.Ellipsis)
		lines = append(lines, canvas.Line{
			{Role: theme.Key, Text: cursor + " "}, {Role: theme.Stopped, Text: glyph + " "},
			{Role: role, Text: name + fmt.Sprintf("%*s", w-17-canvas.Width(name), "")}, {Role: theme.Quiet, Text: word},
		})
	}
	title := fmt.Sprintf("%s %s space disable · x delete · esc", canvas.Count(len(nodes), "breakpoint"), b.Theme.Lines.Dot)
	b.Canvas.Box(title, w, lines, theme.Accent)
}

// nameOf returns a group's id, with its phase unless that is the apply phase.
func nameOf(n *graph.Node) string {
	if n.Phase == "apply" {
		return canvas.Clean(n.ID)
	}
	return canvas.Clean(n.Phase + " " + n.ID)
}
