package home

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/inspect"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
)

// compare marks the selected revision as the one to compare with, or removes the mark.
func (h *history) compare() tea.Cmd {
	h.line = 0
	if n := h.revision().Number; h.base != n {
		h.base = n
		return h.Say(theme.Quiet, fmt.Sprintf("select the revision to compare with revision %d", n))
	}
	h.base = 0
	return nil
}

func (h *history) compareHint() string {
	switch r := h.revision(); {
	case r == nil:
		return ""
	case h.base == r.Number:
		return "stop comparing"
	}
	return "compare with it"
}

// pair returns the two revisions that are compared: the older one and the newer one; ok is false if there is only one.
func (h *history) pair() (older, newer int, ok bool) {
	r := h.revision()
	switch {
	case r == nil:
		return 0, 0, false
	case h.base != 0 && h.base != r.Number:
		return min(h.base, r.Number), max(h.base, r.Number), true
	case h.selected+1 < len(h.revisions):
		return h.revisions[h.selected+1].Number, r.Number, true
	}
	return 0, r.Number, false
}

// changes returns how the two revisions differ.
func (h *history) changes(older, newer int) ([]inspect.Change, error) {
	pair := [2]int{older, newer}
	if known, ok := h.compared[pair]; ok {
		return known, nil
	}
	found, err := h.content.Changes(older, newer)
	if err == nil {
		h.compared[pair] = found
	}
	return found, err
}

// drawChanges draws how the two revisions differ, below a heading at y.
func (h *history) drawChanges(y int) {
	older, newer, ok := h.pair()
	title := fmt.Sprintf("revision %d %s %d", older, h.Theme.Lines.Right, newer)
	if !ok {
		title = fmt.Sprintf("revision %d", newer)
	}
	var said []canvas.Line // the description, if the heading has no room for it
	if r := h.revision(); r != nil {
		title = h.Join(title, r.Changed.Local().Format("2 Jan 2006 15:04:05"))
		if whole := h.Join(title, r.Description); canvas.Width(canvas.Clean(whole)) <= h.W-6 {
			title = whole
		} else if !slices.Contains(expected, r.Description) {
			said = canvas.WrapLines([]canvas.Line{canvas.Plain(statusRole(r.Status), r.Description)}, h.W-4)
		}
	}
	h.Canvas.Heading(y, title)
	var lines []canvas.Line
	switch changes, err := h.changes(older, newer); {
	case !ok:
		lines = []canvas.Line{canvas.Plain(theme.Quiet, "there is no earlier revision to compare it with")}
	case err != nil:
		lines = []canvas.Line{canvas.Plain(theme.Bad, err.Error())}
	case len(changes) == 0:
		lines = []canvas.Line{canvas.Plain(theme.Quiet, "no differences in values and objects")}
	default:
		lines = h.changeLines(changes)
	}
	lines = append(said, lines...)
	in := canvas.Rect{Y: y + 1, W: h.W, H: max(h.H-1-y-1, 1)}
	h.last = max(len(lines)-in.H, 0)
	h.scroll(0)
	for i, l := range lines[h.line:min(h.line+in.H, len(lines))] {
		h.Canvas.Line(1, in.Y+i, h.W-3, l)
	}
	h.Canvas.ScrollBar(h.W-1, in, h.line, len(lines))
}

func (h *history) changeLines(changes []inspect.Change) (lines []canvas.Line) {
	names := 0
	for _, c := range changes {
		names = max(names, canvas.Width(graph.ShortObject(c.Object)))
	}
	for _, c := range changes {
		lines = append(lines, inspector.PastChangeLines(c, min(names, max(h.W/2, 12)), h.W-3, h.Theme.Lines.Ellipsis)...)
	}
	return lines
}
