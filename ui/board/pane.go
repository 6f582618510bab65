package board

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
)

// span of text in a role; a line of the pane is several.
type piece struct {
	role theme.Role
	text string
}

type line []piece

func plain(role theme.Role, text string) line { return line{{role, text}} }

// drawPane draws what is below the board: why the selected thing is as it is,
// or the inspector.
func (m *model) drawPane() {
	p := m.lay.pane
	if p.h <= 0 {
		return
	}
	if m.insp != nil {
		m.drawInspector(p)
		return
	}
	n := m.group()
	title := ""
	if n != nil {
		title = m.spotTitle()
	}
	m.drawRule(p.y, title)
	if n == nil {
		return
	}
	for i, l := range m.why(n, m.object(), p.h-1, p.w-3) {
		if i >= p.h-1 {
			break
		}
		m.drawLine(2, p.y+1+i, p.w-3, l)
	}
}

// drawRule draws a line across the screen with a title in it, and returns the
// x after that.
func (m *model) drawRule(y int, title string) int {
	m.canvas.rule(0, y, m.w, theme.Faint, m.th.Lines.Rest)
	if title == "" {
		return 1
	}
	x := m.canvas.put(1, y, theme.Text, " ")
	x = m.canvas.putFit(x, y, m.w-x-2, theme.Strong, title)
	return m.canvas.put(x, y, theme.Text, " ")
}

func (m *model) drawLine(x, y, w int, l line) {
	end := x + w
	for _, p := range l {
		x = m.canvas.putFit(x, y, end-x, p.role, p.text)
	}
}

// spotTitle names what is selected in full.
func (m *model) spotTitle() string {
	n := m.group()
	if n == nil {
		return ""
	}
	title := n.ID
	if o := m.object(); o != nil && o.Object.String() != n.name {
		title += " " + m.th.Lines.Dot + " " + o.Object.String()
	}
	return title
}

// why says why a group, or an object of it, is as it is: its status and the
// reason, what was found out about that, and what it means for others. It is
// made for a number of lines of a width, of which what was found out gets what
// the rest leaves.
func (m *model) why(n *node, o *event.ObjectState, room, w int) []line {
	var head []line
	if o != nil {
		head = append(head, m.objectWhy(n, o))
	} else {
		head = append(head, m.groupWhy(n))
		if o = worst(n); o != nil && n.Status != event.Waiting {
			l := m.objectWhy(n, o)
			l[0].text = shortObject(o.Object) + " " + l[0].text
			head = append(head, l)
		}
	}
	head = wrapLines(head, w)
	tail := m.gateLines(n)
	if o != nil {
		head = append(head, diagnosis(o, room-len(head)-len(tail))...)
	}
	return append(head, tail...)
}

// objectWhy is an object's status in a line.
func (m *model) objectWhy(n *node, o *event.ObjectState) line {
	mark := m.objectMark(n, o)
	l := line{{mark.Role, mark.Glyph + " " + mark.Word}}
	if m.objectFate(n, o) != "" {
		l = append(l, piece{theme.Quiet, ", was " + m.statusMark(n, o).Word})
	}
	if urgency(o) == 1 && !n.Status.Over() {
		l = append(l, piece{theme.Text, " for " + span(m.sinceOf(o), false)})
	}
	if o.Message != "" {
		l = append(l, piece{theme.Text, ": " + o.Message})
	} else if o.Change != "" && string(o.Change) != mark.Word {
		l = append(l, piece{theme.Quiet, ", " + string(o.Change)})
	}
	return l
}

// groupWhy is a group's status in a line.
func (m *model) groupWhy(n *node) line {
	mark := m.groupMark(n)
	l := line{{mark.Role, mark.Glyph + " " + mark.Word}}
	if n.fate != "" && !cutShort(n.Status) {
		l = append(l, piece{theme.Quiet, ", was " + m.th.Mark(string(n.Status)).Word})
	}
	if d, over, ok := m.spent(n); ok {
		how := " for "
		if over {
			how = " in "
		}
		l = append(l, piece{theme.Text, how + span(d, over)})
	}
	l = append(l, piece{theme.Quiet, fmt.Sprintf(", %d of %s", n.Done, count(len(n.Objects), "object"))})
	if n.Message != "" {
		l = append(l, piece{theme.Text, ": " + m.shortenIDs(n.Message)})
	}
	return l
}

// diagnosis is what was found out about an object that is not ready: as many
// lines as there is room for, the last ones.
func diagnosis(o *event.ObjectState, room int) []line {
	var lines []line
	if o.Summary != "" && !strings.Contains(o.Message, o.Summary) {
		lines = append(lines, plain(theme.Bad, o.Summary))
		room--
	}
	found := append(o.Diagnosis[:len(o.Diagnosis):len(o.Diagnosis)], o.Log...)
	if over := len(found) - max(room, 0); over > 0 {
		found = found[over:]
	}
	for _, s := range found {
		lines = append(lines, plain(theme.Quiet, "  "+s))
	}
	return lines
}

// gateLines say what a group still waits for, and how many wait for it.
func (m *model) gateLines(n *node) []line {
	var lines []line
	if n.Status == event.Waiting || n.Status == event.Held {
		if l := m.gateLine("waits for ", n.ins, func(u *node) bool { return !passed(u) }); l != nil {
			lines = append(lines, l)
		}
	}
	if !n.Status.Over() || n.Status == event.Failed {
		if l := m.followersLine(n); l != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// followersLine says how many groups wait for one, or were never started
// because of it.
func (m *model) followersLine(n *node) line {
	all := m.followers(n)
	verb := " wait for it: "
	switch {
	case !m.state.Ended.IsZero() || n.Status == event.Failed && m.state.Run == event.Aborting:
		all = slices.DeleteFunc(all, func(d *node) bool { return d.Status != event.Waiting && d.Status != event.Skipped })
		verb = " never started: "
	case len(all) == 1:
		verb = " waits for it: "
	}
	if len(all) == 0 {
		return nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.name
	}
	return line{{theme.Text, count(len(all), "group") + verb}, {theme.Quiet, strings.Join(names, ", ")}}
}

func (m *model) gateLine(head string, nodes []*node, which func(*node) bool) line {
	l := line{{theme.Text, head}}
	for _, u := range nodes {
		if !which(u) {
			continue
		}
		if len(l) > 1 {
			l = append(l, piece{theme.Quiet, ", "})
		}
		mark := m.groupMark(u)
		text := " " + u.name
		if d, over, ok := m.spent(u); ok {
			text += " " + span(d, over)
		}
		l = append(l, piece{mark.Role, mark.Glyph}, piece{theme.Text, text})
	}
	if len(l) == 1 {
		return nil
	}
	return l
}

// followers are all groups that wait for one, directly or not.
func (m *model) followers(n *node) []*node {
	seen := map[*node]bool{}
	var walk func(*node)
	walk = func(n *node) {
		for _, d := range n.outs {
			if !seen[d] {
				seen[d] = true
				walk(d)
			}
		}
	}
	walk(n)
	var out []*node
	for _, d := range m.graph.nodes {
		if seen[d] {
			out = append(out, d)
		}
	}
	return out
}
