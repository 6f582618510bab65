package report

import (
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
)

// How wide the whole of a run is drawn: where it is not known how wide the terminal
// is, at the least, and at the most.
const (
	barRoom  = 40
	leastBar = 12
	mostBar  = 80
)

// longestPath is how many groups of a path are named; of longer ones those in
// the middle are counted.
const longestPath = 16

// bars draws the steps of a path below each other, each from when it began to when
// it was over: the part in which the cluster was waited for, and what was left.
// They take what names and times leave of a width.
func bars(s *event.State, path []forecast.Step, style Style, wide int) []string {
	room := barRoom
	if wide > 0 {
		taken := 0
		for _, p := range path {
			taken = max(taken, width(clean(unitName(s, p.Group)))+2+2+7+2)
		}
		room = min(max(wide-1-taken, leastBar), mostBar)
	}
	var rows [][]string
	for n, b := range forecast.Bars(path, room) {
		bar := strings.Repeat(" ", b.From) + strings.Repeat(style.Theme.Lines.Rest, b.Sent) + strings.Repeat(style.Theme.Lines.Bar, b.Waited)
		if style.Theme.Still { // it is read out
			bar = ""
		}
		rows = append(rows, []string{clean(unitName(s, path[n].Group)), pad(Seconds(path[n].Took), 7), bar})
	}
	return folded(table(rows), style)
}

// folded are the lines of a path, those in the middle of a long one counted.
func folded(lines []string, style Style) []string {
	over := len(lines) - longestPath
	if over <= 0 {
		return lines
	}
	dots := "  " + style.Theme.Lines.Ellipsis + " " + Count(over, "group")
	return append(append(lines[:longestPath/2:longestPath/2], dots), lines[len(lines)-longestPath/2:]...)
}

// undoing reports whether a phase is part of a rollback of the operation.
func undoing(p *event.PhaseState) bool { return strings.HasPrefix(p.Name, event.RollbackPrefix) }
