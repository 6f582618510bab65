package header

import (
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// counts returns how many objects are done, "" if there are none.
func (h *Header) counts() string {
	t := h.Tally
	if t.Total == 0 || h.PlanOnly() {
		return ""
	}
	if h.W < 100 {
		return fmt.Sprintf("%d/%d", t.Done, t.Total)
	}
	done := "ready"
	switch {
	case h.removes():
		done = "gone"
	case t.Gone > 0, h.State.CountStack().Hooks.Total > 0: // a deleted object, or a hook, is not ready
		done = "done"
	}
	return fmt.Sprintf("%d of %d %s", t.Done, t.Total, done)
}

// otherCounts counts the objects in other states, as far as the counts fit a width.
func (h *Header) otherCounts(room int) string {
	t, waiting := h.Tally, "waiting"
	switch {
	case h.HasReport(), h.watchesFailed():
		waiting = h.Theme.Mark(string(event.Skipped)).Word
	case h.State.Run == event.Aborting:
		waiting = "will not start"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.Degraded - t.Lost, "degraded"}, {t.Drifted, "changed by others"}, {t.Active, "in progress"}, {t.Paused, h.Theme.Mark(string(event.Paused)).Word}, {t.Applied, "applied"}, {t.Failed + t.Lost, "failed"}, {t.Waiting, waiting}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if n := len(h.State.Warnings); n > 0 {
		parts = append(parts, text.Count(n, "warning"))
	}
	for len(parts) > 0 && canvas.Width(h.Join(parts...)) > room {
		parts = parts[:len(parts)-1]
	}
	return h.Join(parts...)
}

// watchesFailed reports whether a revision is watched that failed before it reached all groups.
func (h *Header) watchesFailed() bool {
	for g := range h.State.GroupStates() {
		if h.State.Operation.IsWatch() && g.Status == event.Skipped {
			return true
		}
	}
	return false
}

// removes reports whether the current phases only delete objects.
func (h *Header) removes() bool {
	removes := false
	for _, p := range h.State.Phases {
		switch {
		case event.IsRollback(p.Name) != h.RollingBack():
		case p.Kind == event.PhaseApply:
			return false
		case p.Kind == event.PhaseRemove:
			removes = true
		}
	}
	return removes
}

// barWidth returns the length of the progress bar; it depends only on the screen's size.
func (h *Header) barWidth() int { return max(h.W/8, 6) }

// progressWidth returns the width of bar and counts, 0 without counts.
func (h *Header) progressWidth() int {
	counts := h.counts()
	if counts == "" {
		return 0
	}
	widest := len(counts) + len(fmt.Sprint(h.Tally.Total)) - len(fmt.Sprint(h.Tally.Done))
	return h.barWidth() + 1 + widest
}

// drawProgress draws the progress bar and the counts; they end before x = end.
func (h *Header) drawProgress(end, y int) {
	counts := h.counts()
	if counts == "" {
		return
	}
	h.Canvas.PutRight(end, y, theme.Quiet, counts)
	w, l := h.barWidth(), h.Theme.Lines
	x := end - h.progressWidth()
	ready := h.Tally.Done * w * 2 / h.Tally.Total
	reached := (h.Tally.Done + h.Tally.Applied) * w * 2 / h.Tally.Total
	for i := range w {
		char, role := l.Bar, h.barRole()
		switch {
		case 2*i >= reached:
			char, role = l.Rest, theme.Faint
		case 2*i >= ready: // applied, not checked (R21)
			role = theme.Quiet
		}
		if 2*i+1 == reached {
			char = l.Half
		}
		h.Canvas.Put(x+i, y, role, char)
	}
}

// barRole returns the role of the progress bar, which shows the state.
func (h *Header) barRole() theme.Role {
	run, _ := h.RunStatus()
	switch {
	case h.State.Status == event.Failed || run == event.Held:
		return theme.Bad
	case h.State.Run == event.Paused, h.State.Status == event.Aborted, h.RollingBack():
		return theme.Stopped
	case h.State.Operation.IsWatch() && !h.Over():
		return h.watchMark().Role
	}
	return theme.Good
}
