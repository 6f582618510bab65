package board

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
)

const partAbort = "in the abort dialog"

// choice is what can be done about a run under way.
type choice struct {
	key, label string
	about      string // for the help
	// says tells exactly what it will do to this release; empty while it
	// cannot be chosen.
	says    func(*model) string
	command event.CommandName // empty: go on
}

func choices() []choice {
	return []choice{
		{"k", "k", "abort and keep what is there; the release is marked failed", (*model).saysKeep, event.Abort},
		{"r", "r", "abort and roll back: to the previous revision, or after a first install uninstall", (*model).saysRollback, event.Rollback},
		{"ctrl+c", "ctrl-c", "stop at once: cancel the requests in flight as well", (*model).saysStop, event.Stop},
		{"esc", "esc", "go on", (*model).saysGoOn, ""},
	}
}

// choose obeys a key of the dialog.
func (m *model) choose(name string) tea.Cmd {
	for _, c := range choices() {
		if c.key != name || c.says(m) == "" {
			continue
		}
		m.dialog = false
		if c.command == "" {
			return nil
		}
		reason := ""
		if c.command == event.Stop {
			reason = "stopped by ctrl-c"
		}
		return m.send(event.Command{Name: c.command, Reason: reason})
	}
	return nil
}

// written counts the objects of the operation that are in the cluster by now,
// and those on their way there.
func (m *model) written() (there, flying int) {
	for _, n := range m.graph.nodes {
		if m.back(n) || m.graph.cols[n.col].phase.Kind != event.PhaseApply {
			continue
		}
		for _, o := range n.Objects {
			switch {
			case o.Status == event.Applying:
				flying++
			case o.Change != "":
				there++
			}
		}
	}
	return there, flying
}

// removed counts the objects that are gone, and those that are left, of the
// removals that matter now.
func (m *model) removed() (gone, left int) {
	for _, n := range m.graph.nodes {
		if m.back(n) == m.rollingBack() && m.graph.cols[n.col].phase.Kind == event.PhaseRemove {
			gone += n.Done
			left += len(n.Objects) - n.Done
		}
	}
	return gone, left
}

func (m *model) saysKeep() string {
	if m.state.Run == event.Aborting {
		return ""
	}
	gone, left := m.removed()
	switch {
	case m.rollingBack() && gone+left > 0:
		return fmt.Sprintf("stop the rollback: %s gone, %d still there; the release is marked failed", isAre(gone, "object"), left)
	case m.rollingBack():
		return "stop the rollback where it is; the release is marked failed"
	case m.state.Operation.Name == "uninstall":
		return fmt.Sprintf("stop here: %s gone, %d stay; the release is marked failed", isAre(gone, "object"), left)
	}
	there, flying := m.written()
	text := fmt.Sprintf("keep what is there: %s, the release is marked failed", stay(there))
	if flying > 0 {
		text = fmt.Sprintf("keep what is there: %s and %d in flight, the release is marked failed", stay(there), flying)
	}
	return text
}

func isAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

func stay(n int) string {
	if n == 1 {
		return "1 object stays"
	}
	return fmt.Sprintf("%d objects stay", n)
}

func (m *model) saysRollback() string {
	op := m.state.Operation
	if m.state.Run == event.Aborting || m.rollingBack() || op.Undo() == "" {
		return ""
	}
	there, flying := m.written()
	if op.Undo() == "rollback" {
		return fmt.Sprintf("roll back: to revision %d, in order", op.PreviousRevision)
	}
	if there+flying == 0 {
		return "roll back: uninstall; nothing has been applied yet"
	}
	return fmt.Sprintf("roll back: uninstall %s in reverse order", allOf(there+flying))
}

func allOf(n int) string {
	if n == 1 {
		return "the 1 object"
	}
	return fmt.Sprintf("all %d objects", n)
}

func (m *model) saysStop() string {
	if n := m.tally.requests; n > 0 {
		return fmt.Sprintf("stop at once: cancel %s in flight, keep what is there", count(n, "request"))
	}
	return "stop at once: keep what is there"
}

func (m *model) saysGoOn() string {
	if m.state.Run == event.Aborting {
		return "let it come to its end"
	}
	return "go on"
}

// drawDialog draws what can be done about the run.
func (m *model) drawDialog() {
	op := m.state.Operation
	title := fmt.Sprintf("abort the %s of %s?", op.Name, Clean(op.Release))
	switch {
	case m.state.Run == event.Aborting:
		title = "the run is being aborted"
	case m.rollingBack():
		title = "stop the rollback?"
	}
	type entry struct{ label, text string }
	var entries []entry
	for _, c := range choices() {
		if text := c.says(m); text != "" {
			entries = append(entries, entry{c.label, text})
		}
	}
	wide := width(title) + 4
	for _, e := range entries {
		wide = max(wide, width(e.text)+12)
	}
	w := min(wide, m.w-4)
	var lines []line
	for _, e := range entries {
		for i, s := range wrap(e.text, max(w-11, 8)) {
			key := ""
			if i == 0 {
				key = e.label
			}
			lines = append(lines, line{{theme.Key, fmt.Sprintf("%-8s", key)}, {theme.Text, s}})
		}
	}
	m.drawBox(title, w, lines, theme.Stopped)
}

// drawBox draws lines in a frame in the middle of the screen, and returns what
// is inside of it.
func (m *model) drawBox(title string, w int, lines []line, role theme.Role) rect {
	l := m.th.Lines
	h := min(len(lines)+4, m.h)
	w = min(w, m.w-2)
	r := rect{(m.w - w - 2) / 2, (m.h - h) / 2, w + 2, h}
	m.canvas.blank(r)
	m.canvas.rule(r.x, r.y, r.w, role, l.Light[10])
	m.canvas.rule(r.x, r.y+r.h-1, r.w, role, l.Light[10])
	for y := r.y + 1; y < r.y+r.h-1; y++ {
		m.canvas.put(r.x, y, role, l.Light[5])
		m.canvas.put(r.x+r.w-1, y, role, l.Light[5])
	}
	for i, at := range [4][2]int{{r.x, r.y}, {r.x + r.w - 1, r.y}, {r.x, r.y + r.h - 1}, {r.x + r.w - 1, r.y + r.h - 1}} {
		m.canvas.put(at[0], at[1], role, l.Round[i])
	}
	if title != "" {
		m.canvas.putFit(r.x+2, r.y, r.w-4, theme.Strong, " "+title+" ")
	}
	inner := rect{r.x + 2, r.y + 2, r.w - 4, max(r.h-4, 0)}
	if h < len(lines)+4 { // no room for air
		inner = rect{r.x + 2, r.y + 1, r.w - 4, max(r.h-2, 0)}
	}
	for i, ln := range lines[:min(len(lines), inner.h)] {
		m.drawLine(inner.x, inner.y+i, inner.w, ln)
	}
	return inner
}
