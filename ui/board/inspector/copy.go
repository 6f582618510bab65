package inspector

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// unbroken is a width that no line is longer than.
const unbroken = 1 << 16

// KubectlLine is the line by which kubectl tells of what is selected.
func (r *Region) KubectlLine() string {
	o := r.Subject()
	shown := r.Inspector
	if !r.Shown {
		shown = nil
	}
	return canvas.Clean(r.Selected().Kubectl(shown, o.Object, r.cluster()))
}

// cluster are kubectl's flags that lead to the cluster of the run.
func (r *Region) cluster() []string {
	if op := r.State.Operation; r.Kubectl == nil && op.Context != "" {
		return []string{"--context", op.Context}
	}
	return r.Kubectl
}

// Copy copies the text of the open tab, or of the pane.
func (r *Region) Copy() tea.Cmd {
	n := r.Group()
	about := r.Selected()
	var lines []canvas.Line
	if r.Shown {
		lines = append(r.Head(about, unbroken), r.Lines(about, unbroken)...)
	} else {
		lines = about.Why(n, about.Object, unbroken, unbroken)
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.TrimRight(canvas.Clean(l.Text()), " ") + "\n")
	}
	return tea.Batch(tea.SetClipboard(text.String()), r.Say(theme.Quiet, canvas.Count(len(lines), "line")+" copied"))
}
