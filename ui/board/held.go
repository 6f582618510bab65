package board

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// A failure that is held stands in the state line, and below it the ways out.

// failing are the groups that have failed in the phases that matter now, the
// selected one first.
func (m *model) failing() []*graph.Node {
	var out []*graph.Node
	for _, n := range m.Graph.Nodes {
		switch {
		case n.Status != event.Failed || m.Back(n) != m.RollingBack():
		case m.chosen(n):
			out = append([]*graph.Node{n}, out...)
		default:
			out = append(out, n)
		}
	}
	return out
}

// heldText names what failed and why.
func (m *model) heldText() string {
	nodes := m.failing()
	if len(nodes) == 0 {
		return m.Graph.Shorten(m.State.RunMessage)
	}
	name := nodes[0].Name
	if more := len(nodes) - 1; more > 0 {
		name += fmt.Sprintf(" and %d more", more)
	}
	root := m.rootOf(nodes[0])
	text := join(m.Theme, name, m.cause(nodes[0], root))
	if canvas.Width(text) > m.w-10 { // the pane names the object as well
		text = join(m.Theme, name, m.Graph.Shorten(root.Cause))
	}
	return text
}

// heldLines are a line for each failure that is held: its group, its object, why.
func (m *model) heldLines() []string {
	var lines []string
	roots := m.State.Roots()
	for _, n := range m.failing() {
		for _, r := range roots {
			if r.Group == n.GroupState {
				lines = append(lines, join(m.Theme, n.Name, m.cause(n, r)))
			}
		}
	}
	return lines
}

// rootOf is what a group has failed for first.
func (m *model) rootOf(n *graph.Node) event.Root {
	for _, r := range m.State.Roots() {
		if r.Group == n.GroupState {
			return r
		}
	}
	return event.Root{Group: n.GroupState, Cause: n.Message}
}

// cause is an object of a group and why the group has failed for it.
func (m *model) cause(n *graph.Node, r event.Root) string {
	if r.Object == nil {
		return m.Graph.Shorten(r.Cause)
	}
	name := graph.ShortObject(r.Object.Object)
	if name == n.Name || r.Object.Object.String() == n.Name {
		return r.Cause
	}
	return name + ": " + r.Cause
}

// mended names what failed and has become ready since, by whatever hand.
func (m *model) mended() string {
	for _, n := range m.failing() {
		for _, o := range n.Objects {
			if !o.Done() {
				return ""
			}
			if strings.HasPrefix(n.Message, o.Object.String()+":") {
				return graph.ShortObject(o.Object)
			}
		}
	}
	return ""
}

// drawWays draws the keys that lead out of a failure.
func (m *model) drawWays(y int) {
	x, end := 3, m.w-1
	ways := m.ways()
	mended := m.mended()
	if text := mended + " is ready now"; mended != "" && canvas.Width(text)+3+cells(ways, 3) <= end-x {
		x = m.canvas.Put(x, y, theme.Good, text) + 3
	}
	for _, h := range ways {
		if x+h.width() > end {
			return
		}
		role := theme.Text
		if h.key == "A" && mended != "" {
			role = theme.Strong
		}
		x = m.canvas.Put(x, y, theme.Key, h.key)
		x = m.canvas.Put(x+1, y, role, h.word) + 3
	}
	if len(m.lay.said) > 0 { // the state line has no room for it
		m.canvas.PutRight(end, y, theme.Quiet, m.others(end-x))
	}
}
