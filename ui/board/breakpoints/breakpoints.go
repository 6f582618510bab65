// Package breakpoints is the mode that lists the breakpoints. Its central type is List.
package breakpoints

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Part is the heading of the keys of the list.
const Part = "in the breakpoint list"

// List is the list of breakpoints on top of the board.
type List struct {
	*screen.Screen
	at event.Unit // the selection; an index would change when the run reaches a breakpoint
}

func New(s *screen.Screen) *List { return &List{Screen: s} }

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

func (b *List) Keys() []keys.Binding {
	command := func(name event.CommandName) func() tea.Cmd {
		return func() tea.Cmd {
			if n := b.selected(); n != nil {
				return b.Send(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
			}
			return nil
		}
	}
	return []keys.Binding{
		{Keys: "up k", Do: keys.By(b.move, -1), About: "up one line"},
		{Keys: "down j", Do: keys.By(b.move, 1), About: "down one line"},
		{Keys: "space", Do: command(event.Disable), About: "disable or enable the breakpoint"},
		{Keys: "b delete", Label: "b", Do: command(event.Break), About: "remove the breakpoint"},
		{Keys: "enter", Do: keys.Run(b.visit), About: "go to the group"},
		{Keys: "esc B", Label: "esc", Do: keys.Run(b.close), About: "close the list"},
		{Keys: "ctrl+c", Label: "ctrl-c", Do: b.Abort, About: "abort (asks first)"},
	}
}

// groups returns the groups that have not started and have a breakpoint, in plan order.
func (b *List) groups() []*graph.Node {
	return b.Graph.Select(b.BreakpointAhead)
}

func (b *List) selected() *graph.Node {
	nodes := b.groups()
	if len(nodes) == 0 {
		return nil
	}
	return nodes[b.index(nodes)]
}

func (b *List) index(nodes []*graph.Node) int {
	return max(slices.IndexFunc(nodes, func(n *graph.Node) bool { return n.Unit() == b.at }), 0)
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
	nodes, dot := b.groups(), " "+b.Theme.Lines.Dot+" "
	if len(nodes) == 0 {
		none := []canvas.Line{canvas.Plain(theme.Quiet, "No breakpoints. Press esc, then b to set one.")}
		b.Canvas.Box("breakpoints"+dot+"esc close", min(b.W-4, 56), none, theme.Accent)
		return
	}
	at, room, wide := b.index(nodes), max(b.H-6, 1), 58
	for _, n := range nodes {
		wide = max(wide, canvas.Width(b.nameOf(n))+18)
	}
	w, first := min(wide, b.W-4), min(max(at-room/2, 0), max(len(nodes)-room, 0))
	var lines []canvas.Line
	for i, n := range nodes[first:min(first+room, len(nodes))] {
		cursor, glyph, word, role := " ", b.Theme.Lines.Break, b.Theme.Mark(string(n.Status)).Word, theme.Text
		if first+i == at {
			cursor, role = b.Theme.Lines.Cursor, theme.Strong
		}
		if !b.State.PausesBefore(n.Unit()) {
			glyph, word = " ", "disabled"
		}
		lines = append(lines, canvas.Line{
			{Role: theme.Key, Text: cursor + " "}, {Role: theme.Stopped, Text: glyph + " "},
			{Role: role, Text: canvas.Pad(canvas.FitMiddle(b.nameOf(n), w-18, b.Theme.Lines.Ellipsis), w-17)}, {Role: theme.Quiet, Text: word},
		})
	}
	toggle := "space disable"
	if !b.State.PausesBefore(nodes[at].Unit()) {
		toggle = "space enable"
	}
	b.Canvas.Box(text.Count(len(nodes), "breakpoint")+dot+toggle+dot+"x remove"+dot+"esc close", w, lines, theme.Accent)
}

// nameOf returns a group's name, with its phase unless that is the apply phase or the group is named after its object.
func (b *List) nameOf(n *graph.Node) string {
	if n.Phase == "apply" || n.Single() {
		return canvas.Clean(b.Graph.Name(n))
	}
	return canvas.Clean(n.Phase + " " + n.ID)
}
