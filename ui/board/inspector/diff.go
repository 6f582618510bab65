package inspector

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// maxDiffLines limits the lines of one object in the diff of a group; unlimited does not.
const maxDiffLines, unlimited = 40, 1 << 20

// Lines returns the diff of the selected object, or of all objects of the group.
func (c *Changes) Lines(s Subject, width int) []canvas.Line {
	if c.ask == nil {
		return []canvas.Line{canvas.Plain(theme.Quiet, notConnected)}
	}
	var out []canvas.Line
	items, moments := s.items()
	if none := c.common(items, moments, func(a answer) string { return a.none }); none != "" {
		return canvas.WrapLines([]canvas.Line{canvas.Plain(theme.Quiet, none)}, width)
	}
	shared := c.common(items, moments, func(a answer) string { return a.change.Message })
	if s.Object == nil {
		out = append(out, c.head(s, items, moments))
	}
	if shared != "" {
		out[0] = append(out[0], canvas.Piece{Role: theme.Quiet, Text: " (" + shared + ")"})
	}
	names := 0
	for _, it := range items {
		names = max(names, canvas.Width(graph.ShortObject(it.Object)))
	}
	names = min(names, max(width/2, 12))
	for n, it := range items {
		room := maxDiffLines
		if s.Object != nil {
			room = unlimited
		}
		a, known := c.cached(it, moments[n])
		if shared != "" {
			a.change.Message = ""
		}
		o := s.Node.Find(it.Object)
		out = append(out, changeLines(o, a, known, names, room, width, s.Theme.Lines.Ellipsis)...)
	}
	if more := len(s.Node.Objects) - maxCompared; s.Object == nil && more > 0 {
		out = append(out, canvas.Plain(theme.Quiet, fmt.Sprintf("  and %d more; select one for details", more)))
	}
	return out
}

// common returns the text that is the same for all of several objects, or "".
func (c *Changes) common(items []Item, moments []moment, said func(answer) string) (text string) {
	if len(items) < 2 {
		return ""
	}
	for n, it := range items {
		a, known := c.cached(it, moments[n])
		if !known || said(a) == "" || n > 0 && said(a) != text {
			return ""
		}
		text = said(a)
	}
	return text
}

// head counts the actions of a group's objects.
func (c *Changes) head(s Subject, items []Item, moments []moment) canvas.Line {
	count, unknown, none := map[Action]int{}, 0, 0
	for n, it := range items {
		switch a, known := c.cached(it, moments[n]); {
		case !known:
			unknown++
		case a.none != "":
			none++
		default:
			count[a.change.Action]++
		}
	}
	var parts []string
	for _, p := range []struct {
		action Action
		word   string
	}{
		{Create, "create"}, {Alter, "change"}, {Unchanged, "unchanged"}, {Delete, "delete"}, {Absent, "already gone"}, {Keep, "kept"},
		{Hook, "to run"}, {Refuse, "refused"}, {Later, "cannot be compared yet"},
	} {
		if n := count[p.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.word))
		}
	}
	if none > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown", none))
	}
	if unknown += len(s.Node.Objects) - len(items); unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d not compared", unknown))
	}
	return canvas.Line{{Role: theme.Strong, Text: canvas.Count(len(s.Node.Objects), "object")}, {Role: theme.Text, Text: ": " + strings.Join(parts, ", ")}}
}

// ChangeLines returns a change as the diff shows it; names is the width of the name column.
func ChangeLines(o plan.Object, c Change, names, width int, ellipsis string) []canvas.Line {
	var a answer
	a.take(c, nil)
	return changeLines(&event.ObjectState{Object: o}, a, true, names, unlimited, width, ellipsis)
}

// changeLines returns one line for an object's change, and below it the fields.
func changeLines(o *event.ObjectState, a answer, known bool, names, room, width int, ellipsis string) []canvas.Line {
	name := canvas.FitMiddle(graph.ShortObject(o.Object), names, ellipsis)
	head := canvas.Line{{Role: theme.Text, Text: "  " + canvas.Pad(name, names) + "  "}}
	switch {
	case !known && inFlightStatus(o.Status):
		head = append(head, canvas.Piece{Role: theme.Quiet, Text: "is being sent"})
	case !known:
		head = append(head, canvas.Piece{Role: theme.Quiet, Text: "comparing with the cluster " + ellipsis})
	case a.none != "":
		head = append(head, canvas.Piece{Role: theme.Quiet, Text: a.none})
	default:
		role, text := changeText(o, a.change)
		head = append(head, canvas.Piece{Role: role, Text: text})
		if a.change.Message != "" {
			head = append(head, canvas.Piece{Role: theme.Text, Text: ": " + a.change.Message})
		}
	}
	out := canvas.WrapLines([]canvas.Line{head}, width)
	if !known {
		return out
	}
	lines := fieldLines(a.change.Fields, width)
	if over := len(lines) - room; over > 0 {
		lines = append(lines[:room], canvas.Plain(theme.Quiet, fmt.Sprintf("    %s %d more lines; select it to see them", ellipsis, over)))
	}
	return append(out, lines...)
}

// actionTexts are the texts of actions.
var actionTexts = map[Action]struct {
	role theme.Role
	text string
}{
	Create: {theme.Good, "will be created"}, Alter: {theme.Busy, "changes"}, Unchanged: {theme.Quiet, "unchanged"},
	Delete: {theme.Bad, "will be deleted"}, Absent: {theme.Quiet, "is already gone"}, Keep: {theme.Quiet, "stays"},
	Hook: {theme.Accent, "runs"}, Refuse: {theme.Bad, "would be refused"}, Later: {theme.Stopped, "cannot be compared yet"},
}

// changeText returns the text of a change. For an object that this run has applied, it is what the
// run did, and what another apply would do.
func changeText(o *event.ObjectState, c Change) (theme.Role, string) {
	is, known := actionTexts[c.Action]
	if n := len(c.Fields); n > 0 && c.Action == Alter {
		is.text = canvas.Count(n, "field")
	}
	did := o.Change.Word()
	switch done := did != "" && o.Change != event.Unchanged; {
	case done && c.Recorded:
		return theme.Text, did
	case !known:
		return theme.Text, string(c.Action)
	case done && c.Action == Create:
		return theme.Stopped, "was " + did + " and is gone; another apply would create it"
	case done && c.Action == Alter:
		return theme.Stopped, did + " by this run, then changed again; another apply would revert " + is.text
	case done && c.Action == Unchanged:
		return theme.Quiet, did + " by this run, unchanged since"
	case done && c.Action == Absent:
		return theme.Quiet, did
	}
	return is.role, is.text
}

// fieldLines returns the fields of a change, grouped by parent.
func fieldLines(fields []Field, width int) []canvas.Line {
	const indent = "    "
	var out []canvas.Line
	in := ""
	for _, f := range fields {
		if f.In != in {
			in = f.In
			for _, l := range canvas.Wrap(in, max(width-len(indent), 8)) {
				out = append(out, canvas.Plain(theme.Quiet, indent+l))
			}
		}
		for _, l := range f.Lines {
			if l == "" {
				continue
			}
			sign, text := l[:1], l[1:]
			role := theme.DiffRole(sign)
			if role == theme.Text {
				role = theme.Quiet
			}
			if sign == "@" {
				sign = " "
			}
			for _, part := range canvas.Wrap(text, max(width-len(indent)-2, 8)) {
				out = append(out, canvas.Plain(role, indent+sign+" "+part))
			}
		}
	}
	return out
}
