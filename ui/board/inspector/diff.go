package inspector

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// maxDiffLines limits the fields' lines of one object in the diff of a group.
const maxDiffLines, unlimited = 40, 1 << 20

// lines returns the diff of the selected object, or of all objects of the group. brief leaves out the manifests of new objects, and
// returns nothing if no object can be compared.
func (c *changes) lines(s Subject, width int, brief bool) (out []canvas.Line) {
	if c.source == nil {
		return []canvas.Line{canvas.Plain(theme.Quiet, notConnected)}
	}
	all, names, objects := c.comparisons(s), 0, len(s.Node.Objects)
	if s.IsRelease() {
		_, objects = s.ReleaseObjects(s.Node)
	}
	if len(all) == 0 {
		return []canvas.Line{canvas.Plain(theme.Quiet, "nothing to do")}
	}
	if why := common(all, func(a answer) string { return a.unavailable }); why != "" {
		if brief {
			return nil
		}
		return canvas.WrapLines([]canvas.Line{canvas.Plain(theme.Quiet, why)}, width)
	}
	room := unlimited
	switch {
	case s.IsRelease():
		out = append(out, diffHead(all, objects))
	case s.Object == nil && objects > 1:
		out, room = append(out, diffHead(all, objects)), maxDiffLines
	}
	shared := ""
	if len(all) > 1 {
		shared = common(all, func(a answer) string { return a.change.Message })
	}
	if shared != "" {
		out[0] = append(out[0], canvas.Piece{Role: theme.Quiet, Text: " (" + shared + ")"})
	}
	for _, x := range all {
		names = max(names, canvas.Width(s.Graph.Object(x.item.Object)))
	}
	names = min(names, max(width/2, 12))
	for _, x := range all {
		if shared != "" {
			x.change.Message = ""
		}
		if brief && x.change.Action == inspect.Create {
			x.change.Fields = nil
		}
		out = append(out, changeLines(x, s.Graph.Object(x.item.Object), names, room, width, s.Theme.Lines.Ellipsis)...)
	}
	if more := objects - maxCompared; (s.Object == nil || s.IsRelease()) && more > 0 {
		out = append(out, canvas.Plain(theme.Quiet, fmt.Sprintf("  and %d more; select one for details", more)))
	}
	return out
}

// common returns the text of all answers if it is the same, else "".
func common(all []comparison, textOf func(answer) string) string {
	if len(all) == 0 {
		return ""
	}
	text := textOf(all[0].answer)
	if slices.ContainsFunc(all, func(x comparison) bool { return !x.known || textOf(x.answer) != text }) {
		return ""
	}
	return text
}

// diffHead counts the changes to the objects of a group.
func diffHead(all []comparison, objects int) canvas.Line {
	count, did, missing, unavailable := map[inspect.Action]int{}, map[event.Change]int{}, objects, 0
	for _, x := range all {
		switch {
		case !x.known:
			continue
		case x.unavailable != "":
			unavailable++
		case x.change.Action == inspect.Hook && applied(x.object):
			did[event.Ran]++
		case x.change.Recorded && x.object.NetChange() != "":
			did[x.object.NetChange()]++
		default:
			count[x.change.Action]++
		}
		missing--
	}
	var parts []string
	add := func(n int, word string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	for _, change := range []event.Change{event.Created, event.Configured, event.Replaced, event.Deleted, event.Ran} {
		add(did[change], change.Word())
	}
	add(count[inspect.Create], "to create")
	add(count[inspect.Modify], "to change")
	add(count[inspect.Replace], "to replace")
	add(count[inspect.Unchanged]+did[event.Unchanged], "unchanged")
	add(count[inspect.Delete], "to delete")
	add(count[inspect.Drifted], "not as recorded")
	add(count[inspect.Absent], "already gone")
	add(count[inspect.Keep], "kept")
	add(count[inspect.Hook], "to run")
	add(count[inspect.Refuse], "refused")
	add(count[inspect.Later], "cannot be compared yet")
	add(unavailable, "unknown")
	add(missing, "not compared")
	return canvas.Line{{Role: theme.Strong, Text: text.Count(objects, "object")}, {Role: theme.Text, Text: ": " + strings.Join(parts, ", ")}}
}

// ChangeLines returns a change as the diff shows it; names is the width of the name column.
func ChangeLines(c inspect.Change, names, width int, ellipsis string) []canvas.Line {
	x := comparison{object: &event.ObjectState{Object: c.Object}, known: true}
	x.set(c, nil)
	return changeLines(x, graph.ShortObject(x.object.Object), names, unlimited, width, ellipsis)
}

// PastChangeLines is like ChangeLines for a change between two revisions, which has happened.
func PastChangeLines(c inspect.Change, names, width int, ellipsis string) []canvas.Line {
	x := comparison{object: &event.ObjectState{Object: c.Object}, known: true, past: true}
	x.set(c, nil)
	return changeLines(x, graph.ShortObject(x.object.Object), names, unlimited, width, ellipsis)
}

// pastTexts are the texts of what happened between two revisions.
var pastTexts = map[inspect.Action]string{inspect.Create: "created", inspect.Modify: "changed", inspect.Replace: "replaced", inspect.Delete: "deleted"}

// SharedChange returns a change that several objects have in common, as the diff shows it.
func SharedChange(objects []plan.Object, c inspect.Change, width int) []canvas.Line {
	x := comparison{object: &event.ObjectState{Object: c.Object}, known: true}
	x.set(c, nil)
	role, text := changeText(x.object, x.change)
	head := canvas.Line{{Role: theme.Text, Text: "  " + canvas.Clean(phrase.Objects(objects)) + "  "}, {Role: role, Text: text}}
	if x.change.Message != "" {
		head = append(head, canvas.Piece{Role: theme.Text, Text: ": " + x.change.Message})
	}
	return append(canvas.WrapLines([]canvas.Line{head}, width), fieldLines(x.change.Fields, width)...)
}

// changeLines returns one line for an object's change, and below it the fields.
func changeLines(x comparison, name string, names, room, width int, ellipsis string) []canvas.Line {
	name = canvas.FitMiddle(name, names, ellipsis)
	head := canvas.Line{{Role: theme.Text, Text: "  " + canvas.Pad(name, names) + "  "}, {Role: theme.Quiet}}
	change := &head[1]
	switch {
	case !x.known && x.object.Status == event.Applying:
		change.Text = "being applied"
	case !x.known && x.object.Status == event.Deleting:
		change.Text = "being deleted"
	case !x.known:
		change.Text = "comparing with the cluster " + ellipsis
	case x.unavailable != "":
		change.Text = x.unavailable
	default:
		change.Role, change.Text = changeText(x.object, x.change)
		if text := pastTexts[x.change.Action]; x.past && len(x.change.Fields) == 0 && text != "" {
			change.Text = text
		}
		if x.change.Message != "" && !(x.change.Action == inspect.Hook && applied(x.object)) { // the message was about the future
			head = append(head, canvas.Piece{Role: theme.Text, Text: ": " + x.change.Message})
		}
	}
	out := canvas.WrapLines([]canvas.Line{head}, width)
	if !x.known {
		return out
	}
	lines := fieldLines(x.change.Fields, width)
	if over := len(lines) - room; over > 0 {
		lines = append(lines[:room], canvas.Plain(theme.Quiet, fmt.Sprintf("    %s %d more lines; select it to see all", ellipsis, over)))
	}
	return append(out, lines...)
}

// actionTexts are the texts of actions, except for Hook.
var actionTexts = map[inspect.Action]struct {
	role theme.Role
	text string
}{
	inspect.Create: {theme.Good, "will be created"}, inspect.Modify: {theme.Busy, "will change"}, inspect.Unchanged: {theme.Quiet, "unchanged"},
	inspect.Replace: {theme.Bad, "will be replaced"}, inspect.Delete: {theme.Bad, "will be deleted"}, inspect.Absent: {theme.Quiet, "already gone"}, inspect.Keep: {theme.Quiet, "will be kept"},
	inspect.Drifted: {theme.Stopped, "not as recorded"}, inspect.Refuse: {theme.Bad, "would be refused"}, inspect.Later: {theme.Stopped, "cannot be compared yet"},
}

// hookText returns the text of an object of a hook: Jobs and Pods run, others are created.
func hookText(o *event.ObjectState, c inspect.Change) (theme.Role, string) {
	runs := o.Object.Kind == "Job" || o.Object.Kind == "Pod"
	switch applied := applied(o) && !c.Recorded; {
	case runs && applied && !o.Done() && o.Status != event.Failed:
		return theme.Quiet, "has started"
	case runs && applied:
		return theme.Quiet, "has run"
	case runs:
		return theme.Accent, "will run"
	case applied:
		return theme.Quiet, "was created"
	}
	return theme.Accent, "will be created"
}

// changeText returns the text of a change. If this run has already applied the object, it says what
// the run did and what another apply would do.
func changeText(o *event.ObjectState, c inspect.Change) (theme.Role, string) {
	action, known := actionTexts[c.Action]
	fields := "it" // unknown
	if n := len(c.Fields); n > 0 && c.Action == inspect.Modify {
		fields = text.Count(n, "field")
		action.text = fields
	}
	did := o.NetChange().Word()
	switch done := did != "" && o.NetChange() != event.Unchanged; {
	case done && c.Recorded:
		return theme.Text, did
	case c.Action == inspect.Hook:
		return hookText(o, c)
	case !known:
		return theme.Text, string(c.Action)
	case done && c.Action == inspect.Create:
		return theme.Stopped, did + " by this run, now gone; another apply would recreate it"
	case done && c.Action == inspect.Modify:
		return theme.Stopped, did + " by this run, modified since; another apply would revert " + fields
	case done && c.Action == inspect.Unchanged:
		return theme.Quiet, did + " by this run, unchanged since"
	case done && c.Action == inspect.Absent:
		return theme.Quiet, did
	}
	return action.role, action.text
}

func fieldLines(fields []inspect.Field, width int) (out []canvas.Line) {
	const indent = "    "
	for _, l := range inspect.FieldLines(fields) {
		role, before := theme.Quiet, indent
		if l.Sign != "" {
			before += l.Shown() + " "
			if role = theme.DiffRole(l.Sign); role == theme.Text {
				role = theme.Quiet
			}
		}
		for _, part := range canvas.Wrap(l.Text, max(width-len(before), 8)) {
			out = append(out, canvas.Plain(role, before+part))
		}
	}
	return out
}
