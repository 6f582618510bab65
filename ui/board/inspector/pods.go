package inspector

import (
	"fmt"
	"strings"
	"time"

	"lockstep/engine/inspect"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// reasonRoom is the minimum width of the last column, the reason; with less it moves below the line.
const reasonRoom = 24

// podColumns returns all columns but the reason, without empty ones.
func (s Subject) podColumns(pods []inspect.Pod) (heads []string, cells [][]string) {
	age := func(p inspect.Pod) string {
		if p.Created.IsZero() {
			return ""
		}
		return formatAge(s.Now().Sub(p.Created))
	}
	for _, c := range []struct {
		head string
		of   func(inspect.Pod) string
	}{
		{"pod", func(p inspect.Pod) string { return p.Name }},
		{"ready", func(p inspect.Pod) string { return p.Ready }},
		{"restarts", func(p inspect.Pod) string { return p.Restarts }},
		{"age", age},
		{"node", func(p inspect.Pod) string { return p.Node }},
	} {
		column, known := make([]string, len(pods)), false
		for n, p := range pods {
			column[n] = c.of(p)
			known = known || column[n] != ""
		}
		if known {
			heads, cells = append(heads, c.head), append(cells, column)
		}
	}
	return heads, cells
}

// podTable returns a table of pods: its head and its lines. If space is short, it truncates names and
// moves reasons below their lines.
func (s Subject) podTable(pods []inspect.Pod, width int) (head canvas.Line, out []canvas.Line) {
	const gap = 2
	if len(pods) == 0 {
		return nil, nil
	}
	heads, cells := s.podColumns(pods)
	widths, rest := make([]int, len(heads)), 0
	for c, h := range heads {
		widths[c] = len(h)
		for _, text := range cells[c] {
			widths[c] = max(widths[c], canvas.Width(text))
		}
		rest += widths[c] + gap
	}
	if over := rest + reasonRoom - width; over > 0 {
		cut := min(over, max(widths[0]-20, 0))
		widths[0] -= cut
		rest -= cut
	}
	below := rest+reasonRoom > width
	if over := rest - width; over > 0 {
		widths[0] = max(widths[0]-over, 8)
	}
	text := ""
	for c, h := range heads {
		text += canvas.Pad(h, widths[c]+gap)
	}
	if !below {
		text += "reason"
	}
	for n, p := range pods {
		row := ""
		for c := range heads {
			row += canvas.Pad(canvas.FitMiddle(cells[c][n], widths[c], s.Theme.Lines.Ellipsis), widths[c]+gap)
		}
		role, why := theme.Quiet, p.Phase
		if p.Why != "" {
			role, why = theme.Strong, p.Why
		}
		if !below {
			out = append(out, canvas.Labelled(canvas.Piece{Role: theme.Text, Text: row}, rest, role, why, width-rest)...)
			continue
		}
		out = append(out, canvas.Plain(theme.Text, row))
		if p.Why != "" { // else the ready column says enough
			out = append(out, canvas.Labelled(canvas.Piece{}, 4, role, why, max(width-4, 8))...)
		}
	}
	return canvas.Plain(theme.Strong, strings.TrimRight(text, " ")), out
}

// formatAge formats an age in its largest unit that counts to at least 2: 90s, 47m, 30h, 2d.
func formatAge(age time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case age >= 2*day:
		return fmt.Sprintf("%dd", age/day)
	case age >= 2*time.Hour:
		return fmt.Sprintf("%dh", age/time.Hour)
	case age >= 2*time.Minute:
		return fmt.Sprintf("%dm", age/time.Minute)
	}
	return fmt.Sprintf("%ds", age/time.Second)
}
