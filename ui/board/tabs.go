package board

import (
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// tabPlaces are where the names of the tabs stand.
func (m *model) tabPlaces() []canvas.Rect {
	p := m.lay.pane
	total := 0
	for _, name := range tabNames {
		total += len(name) + 3
	}
	x := p.X + p.W - total
	if m.tabsBelow() {
		x = p.X + 2
	}
	places := make([]canvas.Rect, tabs)
	for k, name := range tabNames {
		y := p.Y
		if m.tabsBelow() {
			y++
		}
		places[k] = canvas.Rect{X: x, Y: y, W: len(name) + 2, H: 1}
		x += len(name) + 3
		if m.w < 60 {
			x--
		}
	}
	return places
}

// tabsBelow reports whether the tabs need a line of their own.
func (m *model) tabsBelow() bool { return m.w < 100 }

// drawInspector draws the open inspector.
func (m *model) drawInspector(p canvas.Rect) {
	restore := m.canvas.Within(p)
	defer restore()
	m.canvas.Head(p.Y, canvas.Fit(m.spotTitle(), m.titleRoom(), m.Theme.Lines.Ellipsis))
	for k, r := range m.tabPlaces() {
		role := theme.Quiet
		if tab(k) == m.insp.tab {
			role = theme.Accent
			m.canvas.Mark(r.X, r.Y, r.W)
		}
		m.canvas.Put(r.X, r.Y, role, " "+tabNames[k]+" ")
	}
	body := canvas.Rect{X: 2, Y: p.Y + 1, W: p.W - 4, H: p.H - 1}
	if m.tabsBelow() {
		body.Y++
		body.H--
	}
	if body.H <= 0 {
		return
	}
	lines := m.tabLines(body.W)
	pg := &m.insp.page
	pg.last = max(len(lines)-body.H, 0)
	if pg.end {
		pg.top = pg.last
	}
	pg.top = min(pg.top, pg.last)
	for i, l := range lines[pg.top:min(pg.top+body.H, len(lines))] {
		m.canvas.Line(body.X, body.Y+i, body.W, l)
	}
	m.drawPageScroll(body, len(lines))
}

func (m *model) titleRoom() int {
	if m.tabsBelow() {
		return m.w - 6
	}
	return m.tabPlaces()[0].X - 5
}

// drawPageScroll shows which part of a text is in view.
func (m *model) drawPageScroll(body canvas.Rect, n int) {
	if n <= body.H {
		return
	}
	size := max(body.H*body.H/n, 1)
	at := m.insp.page.top * (body.H - size) / max(n-body.H, 1)
	for i := range size {
		m.canvas.Put(m.w-1, body.Y+at+i, theme.Faint, m.Theme.Lines.Heavy[5])
	}
}

// tabLines is the text of the open tab.
func (m *model) tabLines(width int) []canvas.Line {
	n := m.group()
	if n == nil {
		return []canvas.Line{canvas.Plain(theme.Quiet, "it is not part of the operation any more")}
	}
	switch m.insp.tab {
	case tabWhy:
		return m.whyTab(n, width)
	case tabGates:
		return m.gatesTab(n)
	case tabTimings:
		return m.timingsTab(n, width)
	}
	return m.askedTab(n, width)
}

// askedTab is what the cluster has answered; of a hook's log what was recorded
// comes first.
func (m *model) askedTab(n *graph.Node, width int) []canvas.Line {
	i := m.insp
	var out []canvas.Line
	if o := m.object(); i.tab == tabLogs && o != nil {
		for _, s := range o.Log {
			out = append(out, canvas.Plain(theme.Text, s))
		}
	}
	if m.object() == nil && len(n.Objects) > 1 {
		out = append(out, canvas.Plain(theme.Quiet, "of "+i.about.String()+":"))
	}
	for _, s := range i.text {
		if len(s) <= width {
			out = append(out, canvas.Plain(theme.Text, s))
			continue
		}
		for _, part := range canvas.Wrap(s, width) {
			out = append(out, canvas.Plain(theme.Text, part))
		}
	}
	switch {
	case i.busy && len(i.text) == 0:
		out = append(out, canvas.Plain(theme.Quiet, "asking the cluster "+m.Theme.Lines.Ellipsis))
	case i.note != "":
		for _, s := range canvas.Wrap(i.note, width) {
			out = append(out, canvas.Plain(theme.Quiet, s))
		}
	}
	return out
}

// maxListed is how many objects of a group the inspector lists.
const maxListed = 1000

// whyTab says why the selected thing is as it is, in full; for a group it goes
// on with all its objects, those that need looking at first.
func (m *model) whyTab(n *graph.Node, width int) []canvas.Line {
	const all = 1 << 20
	if o := m.object(); o != nil {
		return canvas.WrapLines(m.why(n, o, all, width), width)
	}
	out := canvas.WrapLines(m.why(n, nil, all, width), width)
	out = append(out, nil)
	objects := slices.Clone(n.Objects[:min(len(n.Objects), maxListed)])
	slices.SortStableFunc(objects, func(a, b *event.ObjectState) int { return picture.Urgency(a) - picture.Urgency(b) })
	for _, o := range objects {
		l := m.objectWhy(n, o)
		l = append(canvas.Line{{Role: l[0].Role, Text: m.ObjectMark(n, o).Glyph + " "}, {Role: theme.Text, Text: o.Object.String() + "  "}}, append(canvas.Line{{Role: l[0].Role, Text: m.ObjectMark(n, o).Word}}, l[1:]...)...)
		out = append(out, l)
	}
	if more := len(n.Objects) - maxListed; more > 0 {
		out = append(out, canvas.Plain(theme.Quiet, fmt.Sprintf("%s %d more", m.Theme.Lines.Ellipsis, more)))
	}
	return out
}

// gatesTab lists all that a group waits for and all that waits for it.
func (m *model) gatesTab(n *graph.Node) []canvas.Line {
	var up []*graph.Node
	for _, id := range n.After {
		if u := m.Graph.ByKey[event.Unit{Phase: n.Phase, Group: id}]; u != nil {
			up = append(up, u)
		}
	}
	out := []canvas.Line{canvas.Plain(theme.Strong, "waits for")}
	out = append(out, m.nodeLines(up, "nothing: it is among the first")...)
	out = append(out, nil, canvas.Plain(theme.Strong, "waited for by"))
	return append(out, m.nodeLines(m.Graph.Followers(n), "nothing")...)
}

func (m *model) nodeLines(nodes []*graph.Node, none string) []canvas.Line {
	if len(nodes) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "  "+none)}
	}
	var out []canvas.Line
	for _, u := range nodes {
		mark := m.GroupMark(u)
		text := mark.Word
		if d, over, ok := m.Spent(u); ok {
			text += " " + canvas.Span(d, over)
		}
		out = append(out, canvas.Line{{Role: mark.Role, Text: "  " + mark.Glyph + " "}, {Role: theme.Text, Text: canvas.Pad(u.ID, 32)}, {Role: theme.Quiet, Text: "  " + text}})
	}
	return out
}

// timingsTab tells when things began and how long they took, from the
// beginning of the operation.
func (m *model) timingsTab(n *graph.Node, w int) []canvas.Line {
	if op := m.State.Operation; op.Watches() {
		return []canvas.Line{canvas.Plain(theme.Quiet, "nothing is being deployed; lockstep status "+op.Release+" tells how long each group took when it was")}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return "+" + canvas.Span(t.Sub(m.State.Started), true)
	}
	const times = 3 * 10
	names := min(42, max(w-times, 10))
	took := "-"
	if d, over, ok := m.Spent(n); ok {
		took = canvas.Span(d, over)
	}
	out := []canvas.Line{
		{{Role: theme.Strong, Text: canvas.Pad("", names)}, {Role: theme.Strong, Text: fmt.Sprintf("%10s%10s%10s", "begun", "ended", "took")}},
		{{Role: theme.Text, Text: canvas.Pad(canvas.FitMiddle(n.ID, names, m.Theme.Lines.Ellipsis), names)}, {Role: theme.Text, Text: fmt.Sprintf("%10s%10s%10s", at(n.Started), at(n.Ended), took)}},
	}
	for _, o := range n.Objects[:min(len(n.Objects), maxListed)] {
		ended, took := time.Time{}, "-"
		switch {
		case o.Applied.IsZero():
		case o.Done() || o.Status == event.Failed:
			ended = o.Since
			took = canvas.Span(o.Since.Sub(o.Applied), true)
		default:
			took = canvas.Span(m.SinceOf(o), false)
		}
		name := canvas.Pad("  "+m.Graph.ObjectIn(o.Object, names-2, m.Theme.Lines.Ellipsis), names)
		out = append(out, canvas.Line{{Role: theme.Quiet, Text: name}, {Role: theme.Quiet, Text: fmt.Sprintf("%10s%10s%10s", at(o.Applied), at(ended), took)}})
	}
	return out
}
