package inspector

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// noWrap is a width that prevents wrapping.
const noWrap = 1 << 16

// KubectlLine returns the kubectl command for the selection and the open tab.
func (r *Region) KubectlLine() string {
	o := r.Subject()
	shown := r.Inspector
	if !r.Shown {
		shown = nil
	}
	return canvas.Clean(r.Selected().Kubectl(shown, o.Object, r.cluster()))
}

// cluster returns the kubectl flags that select the run's cluster.
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
		lines = append(r.Head(about, noWrap), r.Lines(about, noWrap)...)
	} else {
		lines = about.Why(n, about.Object, noWrap, noWrap)
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.TrimRight(canvas.Clean(l.Text()), " ") + "\n")
	}
	return tea.Batch(tea.SetClipboard(text.String()), r.Say(theme.Quiet, canvas.Count(len(lines), "line")+" copied"))
}
