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
		bottom -= 2 // below it is room for a message
		x := cv.Put(1, bottom, theme.Strong, "Type "+canvas.Clean(r.in.Name)+" to start: ")
		m.drawInput(x, bottom, m.W-x-1, &r.name, true)
	}
	for _, note := range m.notes() {
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
		title = fmt.Sprintf("plan %s lines %d to %d of %d", m.Theme.Lines.Dot, view.top+1, view.top+view.room, len(lines))
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

// withSummary adds the counts of the plan.
func (m *Form) withSummary(status string) string {
	return m.Join(status, joinCounts(m.review.plan.Counts))
}

// joinCounts joins the counts that are not 0.
func joinCounts(counts []Count) string {
	var words []string
	for _, c := range counts {
		if c.N > 0 {
			words = append(words, fmt.Sprint(c.N, " ", c.Text))
		}
	}
	if len(words) == 0 && len(counts) > 0 {
		return "no changes"
	}
	return strings.Join(words, ", ")
}

func (m *Form) planLines() []Line {
	switch r := &m.review; {
	case r.busy:
		return nil
	case r.err != nil:
		lines := slices.Clone(r.plan.Lines)
		for n, l := range strings.Split(keysFor.Replace(r.err.Error()), "\n") {
			if n == 0 {
				lines = append(lines, Line{Role: theme.Bad, Text: "error: " + l})
			} else {
				lines = append(lines, Line{Text: l})
			}
		}
		return lines
	}
	lines := withKeys(m.review.plan.Lines)
	switch plan := &m.review.plan; {
	case !plan.Unordered || plan.Refused: // the errors come first
	case m.mayInfer():
		lines = append([]Line{{Role: theme.Accent, Text: "The chart declares no order. Press I to deploy in the order that its objects imply."}}, lines...)
	default:
		lines = append([]Line{{Role: theme.Quiet, Text: "The chart declares no order, and its objects imply none."}}, lines...)
	}
	if _, status := m.status(); canvas.Width(status) > m.W-2 { // it does not show all counts
		lines = append(slices.Clip(lines), Line{}, Line{Text: joinCounts(m.review.plan.Counts)})
	}
	return lines
}

// keysFor replaces the flags that a refusal advises with the keys of the plan.
var keysFor = strings.NewReplacer("with "+takeOwnership, "with M ("+takeOwnership+")", "with "+forceConflicts, "with m ("+forceConflicts+")")

// withKeys returns lines that name the keys for what a refusal advises.
func withKeys(lines []Line) []Line {
	lines = slices.Clone(lines)
	for n := range lines {
		if lines[n].Role == theme.Bad {
			lines[n].Text = keysFor.Replace(lines[n].Text)
		}
	}
	return lines
}

// notes name the objects that the command deletes, and those that it takes from others.
func (m *Form) notes() (notes []string) {
	if m.whyNotStart() != "" {
		return nil
	}
	if deletes := m.review.plan.Deletes; len(deletes) > 0 {
		notes = append(notes, "Deletes "+text.Count(len(deletes), "object")+": "+someOf(deletes))
	}
	switch {
	case len(m.taking) > 0:
		notes = append(notes, "Takes over "+text.Count(len(m.taking), "object")+": "+someOf(m.taking))
	case m.review.in.HasFlag(takeOwnership):
		notes = append(notes, "Takes over existing objects, even of another release ("+takeOwnership+")")
	}
	return notes
}

// someOf lists the first names, and counts the others.
func someOf(names []string) string {
	const most = 4
	named := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named
}
