package home

import (
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// drawHeader draws where the user is, and how much there is.
func (m *model) drawHeader() {
	counts := ""
	if m.snapshot.Listed {
		if n := len(m.snapshot.Releases); n > 0 { // else the table says so
			counts = text.Count(n, "release")
		}
		if n := m.unwell(); n > 0 {
			counts += ", " + text.Count(n, "problem")
		}
		if m.state.Sort != ByName {
			counts = m.Join(counts, [...]string{ByHealth: "worst first", ByChange: "last changed first"}[m.state.Sort])
		}
		if n := len(m.snapshot.Runs); n > 0 {
			counts = m.Join(text.Count(n, "run"), counts)
		}
	}
	namespace := "ns " + m.state.Namespace
	if m.state.All {
		namespace = "all namespaces"
	}
	m.drawTitle("", "home", m.Join(m.options.Context, namespace), counts)
	switch denied := m.snapshot.Denied[m.request("upgrade").Namespace]["upgrade"]; {
	case m.snapshot.Away != "" && m.snapshot.Listed: // else it stands below
		away := m.Theme.Mark(string(event.Away))
		m.Canvas.PutFit(1, 1, m.W-2, away.Role, away.Glyph+" "+m.snapshot.Away)
	case denied != "":
		m.Canvas.PutFit(1, 1, m.W-2, theme.Quiet, "read-only: "+denied)
	case m.failedElsewhere():
		failed, run := m.Theme.Mark(string(event.Failed)), m.snapshot.LastFailed
		m.Canvas.PutFit(1, 1, m.W-2, failed.Role, fmt.Sprintf("%s %s of %s failed in namespace %s: press 0 for all namespaces, P for past runs", failed.Glyph, run.Operation, run.Name, run.Namespace))
	}
}

// failedElsewhere reports whether the last run has failed in a namespace that is not shown.
func (m *model) failedElsewhere() bool {
	run := m.snapshot.LastFailed
	return run != nil && !m.state.All && run.Namespace != "" && run.Namespace != m.state.Namespace
}

// program is the first word of a title.
const program = "lockstep"

// drawTitle draws the first line: the screen with the one that esc leads to, "" for none, where it is, and how much there is. Without
// room, the name of the program goes first, then how much there is, then the screen that esc leads to.
func (m *model) drawTitle(parent, title, where, right string) {
	cv := m.Canvas
	before := []string{program}
	if parent != "" {
		before = append(before, parent)
	}
	width := func() (w int) {
		for _, name := range before {
			w += canvas.Width(name) + 3
		}
		return 1 + w + canvas.Width(title) + 3 + canvas.Width(where) + 2 + canvas.Width(right) + 1
	}
	if width() > m.W {
		before = before[1:]
	}
	if m.W < chartFrom && width() > m.W {
		right = ""
	}
	if width() > m.W {
		before = nil
	}
	x := 1
	for _, name := range before {
		x = cv.Put(x, 0, theme.Quiet, name+" ")
		x = cv.Put(x, 0, theme.Faint, m.Theme.Lines.More+" ")
	}
	title = canvas.Fit(title, m.W-2-x, m.Theme.Lines.Ellipsis)
	end := cv.PutRight(m.W-1, 0, theme.Text, right) - 2
	x = cv.PutFit(x, 0, end-x, theme.Strong, title) + 3
	from := min(max(x, (m.W-canvas.Width(where))/2), max(end-canvas.Width(where), x))
	cv.PutFit(from, 0, end-from, theme.Quiet, where)
}
