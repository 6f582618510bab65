package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/theme"
)

// tabPlaces are where the names of the tabs stand.
func (m *model) tabPlaces() []rect {
	p := m.lay.pane
	total := 0
	for _, name := range tabNames {
		total += len(name) + 3
	}
	x := p.x + p.w - total
	if m.tabsBelow() {
		x = p.x + 2
	}
	places := make([]rect, tabs)
	for k, name := range tabNames {
		y := p.y
		if m.tabsBelow() {
			y++
		}
		places[k] = rect{x, y, len(name) + 2, 1}
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
func (m *model) drawInspector(p rect) {
	restore := m.canvas.within(p)
	defer restore()
	m.drawRule(p.y, fit(m.spotTitle(), m.titleRoom(), m.th.Lines.Ellipsis))
	for k, r := range m.tabPlaces() {
		role := theme.Quiet
		if tab(k) == m.insp.tab {
			role = theme.Accent
			m.canvas.mark(r.x, r.y, r.w)
		}
		m.canvas.put(r.x, r.y, role, " "+tabNames[k]+" ")
	}
	body := rect{2, p.y + 1, p.w - 4, p.h - 1}
	if m.tabsBelow() {
		body.y++
		body.h--
	}
	if body.h <= 0 {
		return
	}
	lines := m.tabLines(body.w)
	pg := &m.insp.page
	pg.last = max(len(lines)-body.h, 0)
	if pg.end {
		pg.top = pg.last
	}
	pg.top = min(pg.top, pg.last)
	for i, l := range lines[pg.top:min(pg.top+body.h, len(lines))] {
		m.drawLine(body.x, body.y+i, body.w, l)
	}
	m.drawPageScroll(body, len(lines))
}

func (m *model) titleRoom() int {
	if m.tabsBelow() {
		return m.w - 6
	}
	return m.tabPlaces()[0].x - 5
}

// drawPageScroll shows which part of a text is in view.
func (m *model) drawPageScroll(body rect, n int) {
	if n <= body.h {
		return
	}
	size := max(body.h*body.h/n, 1)
	at := m.insp.page.top * (body.h - size) / max(n-body.h, 1)
	for i := range size {
		m.canvas.put(m.w-1, body.y+at+i, theme.Faint, m.th.Lines.Heavy[5])
	}
}

// tabLines is the text of the open tab.
func (m *model) tabLines(width int) []line {
	n := m.group()
	if n == nil {
		return []line{plain(theme.Quiet, "it is not part of the operation any more")}
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
func (m *model) askedTab(n *node, width int) []line {
	i := m.insp
	var out []line
	if o := m.object(); i.tab == tabLogs && o != nil {
		for _, s := range o.Log {
			out = append(out, plain(theme.Text, s))
		}
	}
	if m.object() == nil && len(n.Objects) > 1 {
		out = append(out, plain(theme.Quiet, "of "+i.about.String()+":"))
	}
	for _, s := range i.text {
		if len(s) <= width {
			out = append(out, plain(theme.Text, s))
			continue
		}
		for _, part := range wrap(s, width) {
			out = append(out, plain(theme.Text, part))
		}
	}
	switch {
	case i.busy && len(i.text) == 0:
		out = append(out, plain(theme.Quiet, "asking the cluster "+m.th.Lines.Ellipsis))
	case i.note != "":
		for _, s := range wrap(i.note, width) {
			out = append(out, plain(theme.Quiet, s))
		}
	}
	return out
}

// maxListed is how many objects of a group the inspector lists.
const maxListed = 1000

// whyTab says why the selected thing is as it is, in full; for a group it goes
// on with all its objects, those that need looking at first.
func (m *model) whyTab(n *node, width int) []line {
	const all = 1 << 20
	if o := m.object(); o != nil {
		return wrapLines(m.why(n, o, all, width), width)
	}
	out := wrapLines(m.why(n, nil, all, width), width)
	out = append(out, nil)
	objects := slices.Clone(n.Objects[:min(len(n.Objects), maxListed)])
	slices.SortStableFunc(objects, func(a, b *event.ObjectState) int { return urgency(a) - urgency(b) })
	for _, o := range objects {
		l := m.objectWhy(n, o)
		l = append(line{{l[0].role, m.objectMark(n, o).Glyph + " "}, {theme.Text, o.Object.String() + "  "}}, append(line{{l[0].role, m.objectMark(n, o).Word}}, l[1:]...)...)
		out = append(out, l)
	}
	if more := len(n.Objects) - maxListed; more > 0 {
		out = append(out, plain(theme.Quiet, fmt.Sprintf("%s %d more", m.th.Lines.Ellipsis, more)))
	}
	return out
}

// wrapLines breaks lines that are too long after their width; what goes on the
// next line is indented a little.
func wrapLines(lines []line, w int) []line {
	const hang = 4
	var out []line
	for _, l := range lines {
		total := 0
		for _, p := range l {
			total += width(p.text)
		}
		last := len(l) - 1
		if total <= w || last < 0 || total-width(l[last].text) > w-20 {
			out = append(out, l)
			continue
		}
		text := Clean(l[last].text)
		first := wrap(text, w-(total-width(l[last].text)))[0]
		out = append(out, append(slices.Clone(l[:last]), piece{l[last].role, first}))
		for _, s := range wrap(strings.TrimSpace(strings.TrimPrefix(text, first)), w-hang) {
			out = append(out, line{{theme.Text, strings.Repeat(" ", hang)}, {l[last].role, s}})
		}
	}
	return out
}

// gatesTab lists all that a group waits for and all that waits for it.
func (m *model) gatesTab(n *node) []line {
	var up []*node
	for _, id := range n.After {
		if u := m.graph.byKey[key{n.Phase, id}]; u != nil {
			up = append(up, u)
		}
	}
	out := []line{plain(theme.Strong, "waits for")}
	out = append(out, m.nodeLines(up, "nothing: it is among the first")...)
	out = append(out, nil, plain(theme.Strong, "waited for by"))
	return append(out, m.nodeLines(m.followers(n), "nothing")...)
}

func (m *model) nodeLines(nodes []*node, none string) []line {
	if len(nodes) == 0 {
		return []line{plain(theme.Quiet, "  "+none)}
	}
	var out []line
	for _, u := range nodes {
		mark := m.groupMark(u)
		text := mark.Word
		if d, over, ok := m.spent(u); ok {
			text += " " + span(d, over)
		}
		out = append(out, line{{mark.Role, "  " + mark.Glyph + " "}, {theme.Text, pad(u.ID, 32)}, {theme.Quiet, "  " + text}})
	}
	return out
}

func pad(s string, w int) string {
	if n := w - width(s); n > 0 {
		return s + fmt.Sprintf("%*s", n, "")
	}
	return s
}

// timingsTab tells when things began and how long they took, from the
// beginning of the operation.
func (m *model) timingsTab(n *node, w int) []line {
	if op := m.state.Operation; op.Watches() {
		return []line{plain(theme.Quiet, "nothing is being deployed; lockstep status "+op.Release+" tells how long each group took when it was")}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return "+" + span(t.Sub(m.state.Started), true)
	}
	const times = 3 * 10
	names := min(42, max(w-times, 10))
	took := "-"
	if d, over, ok := m.spent(n); ok {
		took = span(d, over)
	}
	out := []line{
		{{theme.Strong, pad("", names)}, {theme.Strong, fmt.Sprintf("%10s%10s%10s", "begun", "ended", "took")}},
		{{theme.Text, pad(fitMiddle(n.ID, names, m.th.Lines.Ellipsis), names)}, {theme.Text, fmt.Sprintf("%10s%10s%10s", at(n.Started), at(n.Ended), took)}},
	}
	for _, o := range n.Objects[:min(len(n.Objects), maxListed)] {
		ended, took := time.Time{}, "-"
		switch {
		case o.Applied.IsZero():
		case o.Done() || o.Status == event.Failed:
			ended = o.Since
			took = span(o.Since.Sub(o.Applied), true)
		default:
			took = span(m.sinceOf(o), false)
		}
		name := pad("  "+m.graph.objectIn(o.Object, names-2, m.th.Lines.Ellipsis), names)
		out = append(out, line{{theme.Quiet, name}, {theme.Quiet, fmt.Sprintf("%10s%10s%10s", at(o.Applied), at(ended), took)}})
	}
	return out
}
