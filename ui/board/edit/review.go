package edit

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
)

func (e *Edit) Draw() {
	if e.TooSmall() {
		return
	}
	d, w, border := e.draft, min(e.W-4, 110), theme.Accent
	title := "review edit"
	switch {
	case d.err != nil:
		title, border = "invalid edit", theme.Bad
	case d.result.Empty:
		title = "nothing to apply"
	}
	e.DrawText(title, w, e.lines(w-4), border)
}

func (e *Edit) lines(w int) (lines []canvas.Line) {
	d := e.draft
	texts := d.result.Lines
	switch {
	case d.err != nil:
		texts = strings.Split(d.err.Error(), "\n")
	case d.result.Empty && e.Held():
		texts = append(slices.Clone(texts), "", "To try the failed groups again: esc, then R (retry) or A (re-check).")
	}
	for _, text := range texts {
		lines = append(lines, canvas.Labelled(canvas.Piece{}, 0, role(text), text, w)...)
	}
	if d.err != nil {
		return lines
	}
	shared, single := split(d.result.Changes)
	if len(shared) > 0 {
		lines = append(lines, canvas.Line{})
	}
	for _, s := range shared {
		lines = append(lines, inspector.SharedChange(s.objects, s.change, w)...)
	}
	names := 0
	for _, c := range single {
		names = min(max(names, canvas.Width(graph.ShortObject(c.Object))), max(w/2, 12))
	}
	group := ""
	for _, c := range single {
		if c.Group != group {
			group = c.Group
			lines = append(lines, canvas.Line{}, canvas.Plain(theme.Strong, e.Graph.Shorten(canvas.Clean(group))))
		}
		lines = append(lines, inspector.ChangeLines(c, names, w, e.Theme.Lines.Ellipsis)...)
	}
	return lines
}

// sharedChange is a change that objects have in common.
type sharedChange struct {
	change  inspect.Change
	objects []plan.Object
}

// minShared is how many objects must have a change in common for it to be shown once.
const minShared = 3

// split returns the changes that many objects have in common, and the others.
func split(changes []inspect.Change) (shared []sharedChange, single []inspect.Change) {
	same := map[string]*sharedChange{}
	key := func(c inspect.Change) string { return fmt.Sprint(c.Object.GroupKind(), c.Action, c.Message, c.Fields) }
	for _, c := range changes {
		if same[key(c)] == nil {
			same[key(c)] = &sharedChange{change: c}
		}
		s := same[key(c)]
		s.objects = append(s.objects, c.Object)
	}
	for _, c := range changes {
		switch s := same[key(c)]; {
		case len(s.objects) < minShared:
			single = append(single, c)
		case s.objects[0] == c.Object:
			shared = append(shared, *s)
		}
	}
	return shared, single
}

func role(line string) theme.Role {
	line = strings.TrimLeft(line, " ")
	return theme.DiffRole(line[:min(1, len(line))])
}
