package board

import (
	"cmp"
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
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
	return join(m.Theme, name, m.cause(nodes[0]))
}

// cause is why a group has failed, as near to the reason as is known.
func (m *model) cause(n *graph.Node) string {
	for _, o := range n.Objects {
		if o.Status == event.Failed {
			return cmp.Or(o.Summary, o.Message)
		}
	}
	if o := picture.Worst(n); o != nil && o.Summary != "" {
		return o.Summary
	}
	return m.Graph.Shorten(n.Message)
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
		if x+canvas.Width(h.key)+1+canvas.Width(h.word) > end {
			return
		}
		role := theme.Text
		if h.key == "A" && mended != "" {
			role = theme.Strong
		}
		x = m.canvas.Put(x, y, theme.Key, h.key)
		x = m.canvas.Put(x+1, y, role, h.word) + 3
	}
}
