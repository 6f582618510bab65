package board

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// unbroken is a width that no line is longer than.
const unbroken = 1 << 16

// showKubectl shows the line by which kubectl tells of what is selected, and copies
// it.
func (m *model) showKubectl() tea.Cmd {
	o := m.subject()
	if o == nil {
		return m.say(theme.Quiet, "there is nothing that kubectl could show")
	}
	line := canvas.Clean(m.selected().Kubectl(m.insp, o.Object, m.cluster()))
	m.pager = &pager{title: "copied", make: func(width int) []canvas.Line { return words(line, width) }}
	return tea.SetClipboard(line)
}

// words breaks a line between its words alone.
func words(line string, width int) (out []canvas.Line) {
	row := ""
	for word := range strings.SplitSeq(line, " ") {
		if row != "" && canvas.Width(row)+1+canvas.Width(word) > width {
			out = append(out, canvas.Plain(theme.Text, row))
			row = ""
		}
		row = strings.TrimPrefix(row+" "+word, " ")
	}
	return append(out, canvas.Plain(theme.Text, row))
}

// cluster are kubectl's flags that lead to the cluster of the run.
func (m *model) cluster() []string {
	if op := m.State.Operation; m.opts.Kubectl == nil && op.Context != "" {
		return []string{"--context", op.Context}
	}
	return m.opts.Kubectl
}

// copyShown copies the text of the open tab, or of the pane.
func (m *model) copyShown() tea.Cmd {
	n := m.group()
	if n == nil {
		return m.say(theme.Quiet, "there is nothing to copy yet")
	}
	about := m.selected()
	var lines []canvas.Line
	if m.insp != nil {
		lines = append(m.insp.Head(about, unbroken), m.insp.Lines(about, unbroken)...)
	} else {
		lines = about.Why(n, about.Object, unbroken, unbroken)
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.TrimRight(canvas.Clean(l.Text()), " ") + "\n")
	}
	return tea.Batch(tea.SetClipboard(text.String()), m.say(theme.Quiet, canvas.Count(len(lines), "line")+" copied"))
}
