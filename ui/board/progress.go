package board

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// counts say how many objects are done: at the end of the state line, at all times.
func (m *model) counts() string {
	t := m.Tally
	if t.Total == 0 || m.planOnly() {
		return ""
	}
	if m.w < 100 {
		return fmt.Sprintf("%d/%d", t.Done, t.Total)
	}
	done := "ready"
	if m.removes() {
		done = "gone"
	}
	return fmt.Sprintf("%d of %d %s", t.Done, t.Total, done)
}

// others says how many objects are in which other state, in as many numbers as fit a
// width.
func (m *model) others(room int) string {
	t := m.Tally
	active := "in progress"
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.Active, active}, {t.Applied, "applied"}, {t.Failed, "failed"}, {t.Waiting, "waiting"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if n := len(m.State.Warnings); n > 0 {
		parts = append(parts, canvas.Count(n, "warning"))
	}
	for len(parts) > 0 {
		if text := join(m.Theme, parts...); canvas.Width(text) <= room {
			return text
		}
		parts = parts[:len(parts)-1]
	}
	return ""
}

// removes reports whether the phases that matter now take objects away.
func (m *model) removes() bool {
	removes := false
	for _, p := range m.State.Phases {
		if strings.HasPrefix(p.Name, event.RollbackPrefix) != m.RollingBack() {
			continue
		}
		if p.Kind == event.PhaseApply {
			return false
		}
		removes = removes || p.Kind == event.PhaseRemove
	}
	return removes
}

// barWidth is how long the progress bar is. Like all of the line it depends on the
// size of the screen only.
func (m *model) barWidth() int { return max(m.w/8, 6) }

// progressWidth is how wide bar and counts are, 0 where nothing is counted.
func (m *model) progressWidth() int {
	counts := m.counts()
	if counts == "" {
		return 0
	}
	widest := len(counts) + len(fmt.Sprint(m.Tally.Total)) - len(fmt.Sprint(m.Tally.Done))
	return m.barWidth() + 1 + widest
}

// drawProgress draws the progress bar and the counts so that they end before a column.
func (m *model) drawProgress(end, y int) {
	counts := m.counts()
	if counts == "" {
		return
	}
	m.canvas.PutRight(end, y, theme.Quiet, counts)
	w, l := m.barWidth(), m.Theme.Lines
	x := end - m.progressWidth()
	ready := m.Tally.Done * w * 2 / m.Tally.Total
	reached := (m.Tally.Done + m.Tally.Applied) * w * 2 / m.Tally.Total
	for i := range w {
		char, role := l.Rest, theme.Faint
		switch {
		case 2*i+1 < reached:
			char, role = l.Bar, m.barRole()
		case 2*i < reached:
			char, role = l.Half, m.barRole()
		}
		if 2*i >= ready && char != l.Rest { // nobody has waited for it to be ready (R21)
			role = theme.Quiet
		}
		m.canvas.Put(x+i, y, role, char)
	}
}

// barRole is the colour of the progress bar: that of the state.
func (m *model) barRole() theme.Role {
	switch {
	case m.State.Status == event.Failed || m.State.Run == event.Held:
		return theme.Bad
	case m.State.Run == event.Paused, m.State.Status == event.Aborted, m.RollingBack():
		return theme.Stopped
	case m.State.Operation.Watches() && !m.Over():
		return m.liveMark().Role
	}
	return theme.Good
}
