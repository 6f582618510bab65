package form

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// wrap breaks lines to a width. They keep their indent.
func wrap(all []Line, width int) (lines []canvas.Line) {
	for _, l := range all {
		indent := min(l.Indent, width/2)
		for n, part := range canvas.Wrap(l.Text, width-indent-2) {
			if n > 0 {
				part = "  " + part
			}
			lines = append(lines, canvas.Plain(l.Role, strings.Repeat(" ", indent)+part))
		}
	}
	return lines
}

// drawReview draws the command and its plan.
func (m *Form) drawReview() {
	r, cv := &m.review, m.Canvas
	role, status := m.status()
	cv.PutFit(1, 1, m.W-2, role, status)
	y := m.drawCommand(2, r.in)
	bottom := m.H - 1
	if r.confirming {
		bottom--
		x := cv.Put(1, bottom, theme.Strong, "Type "+canvas.Clean(r.in.Name)+" to start: ")
		m.drawInput(x, bottom, m.W-x-1, &r.name, true)
	}
	if note := m.deletesNote(); note != "" {
		lines := canvas.Wrap(note, m.W-2)
		lines = lines[:min(len(lines), 3)]
		bottom -= len(lines)
		for n, l := range lines {
			cv.Put(1, bottom+n, theme.Bad, l)
		}
	}
	lines := wrap(m.planLines(), m.W-2)
	view := &r.view
	view.room = max(bottom-y-1, 0)
	view.last = max(len(lines)-view.room, 0)
	r.scroll(0)
	title := "plan"
	if view.last > 0 {
		title = fmt.Sprintf("plan %s %d%%", m.Theme.Lines.Dot, 100*(view.top+view.room)/len(lines))
	}
	cv.Heading(y, title)
	area := canvas.Rect{X: 0, Y: y + 1, W: m.W, H: view.room}
	for n, l := range lines[view.top:min(view.top+view.room, len(lines))] {
		cv.Line(1, area.Y+n, m.W-2, l)
	}
	cv.ScrollBar(m.W-1, area, view.top, len(lines))
}

// status says how the plan stands.
func (m *Form) status() (theme.Role, string) {
	r := &m.review
	switch {
	case r.busy:
		mark := m.Theme.Mark("running")
		return mark.Role, mark.Glyph + " making the plan; nothing is written"
	case r.err != nil, r.plan.Refused:
		mark := m.Theme.Mark("refused")
		return mark.Role, m.withSummary(mark.Glyph + " lockstep would refuse this")
	}
	return theme.Strong, m.withSummary(m.Theme.Mark("waiting").Glyph + " ready to start")
}

// withSummary adds the counts of the plan, without those that are 0 if all do not fit.
func (m *Form) withSummary(status string) string {
	summary := m.review.plan.Summary
	if text := m.Join(status, summary); canvas.Width(text) <= m.W-2 {
		return text
	}
	counts := slices.DeleteFunc(strings.Split(summary, ", "), func(s string) bool { return strings.HasPrefix(s, "0 ") })
	return m.Join(status, strings.Join(counts, ", "))
}

func (m *Form) planLines() []Line {
	switch r := &m.review; {
	case r.busy:
		return nil
	case r.err != nil:
		lines := slices.Clone(r.plan.Lines)
		for n, l := range strings.Split(r.err.Error(), "\n") {
			if n == 0 {
				lines = append(lines, Line{Role: theme.Bad, Text: "error: " + l})
			} else {
				lines = append(lines, Line{Text: l})
			}
		}
		return lines
	}
	lines := m.review.plan.Lines
	switch plan := &m.review.plan; {
	case !plan.Unordered || plan.Refused: // the errors come first
	case m.mayInfer():
		lines = append([]Line{{Role: theme.Accent, Text: "The chart declares no order. Press I to deploy in the order that its objects imply."}}, lines...)
	default:
		lines = append([]Line{{Role: theme.Quiet, Text: "The chart declares no order, and its objects imply none."}}, lines...)
	}
	if _, status := m.status(); canvas.Width(status) > m.W-2 { // it does not show all counts
		lines = append(slices.Clip(lines), Line{}, Line{Text: m.review.plan.Summary})
	}
	return lines
}

// deletesNote names the objects that the command deletes.
func (m *Form) deletesNote() string {
	deletes := m.review.plan.Deletes
	if len(deletes) == 0 || m.whyNotStart() != "" {
		return ""
	}
	const most = 4
	named := strings.Join(deletes[:min(len(deletes), most)], ", ")
	if more := len(deletes) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return "Deletes " + text.Count(len(deletes), "object") + ": " + named
}
