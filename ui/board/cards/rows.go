package cards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

type row struct {
	kind rowKind
	o    *event.ObjectState // the object it belongs to, nil for none
	// label is the start of a reason, see picture.Reason; text follows it.
	label, text string
	// short is the text of a row without room for text.
	short string
	names []string // of groups
	rest  bool     // continues the reason of the line before
}

type rowKind uint8

const (
	objectRow rowKind = iota
	reasonRow         // why the object above is not ready
	afterRow          // the groups that it waits for
	namesRow          // all objects, on one line
	moreRow           // the number of omitted objects, or other text
	planRow           // what a stack does to a release
	stripRow          // the groups of a release
)

// cardRows returns the lines of a group's card, at most limit: its objects, and what it waits for if there is room.
func (l *Layout) cardRows(n *graph.Node, limit int) []row {
	if rows := l.outsideRows(n, limit); len(rows) > 0 {
		return rows
	}
	if n.Status != event.Waiting || len(n.Ins) == 0 {
		return l.contents(n, limit)
	}
	first := l.afterRows(n, limit)
	switch names := len(l.ShownObjects(n)); {
	case l.Terse || len(first) >= limit && (first[0].kind != afterRow || n.Single()):
		return first
	case first[0].kind == afterRow && !n.Single() && !l.IsRelease() && names > limit-len(first): // its edges show that, too
		return l.contents(n, limit)
	}
	return append(first, l.contents(n, limit-len(first))...)
}

// outsideRows list the objects outside the release for which a group waits before it starts, and why they are not ready.
func (l *Layout) outsideRows(n *graph.Node, limit int) (rows []row) {
	missing := picture.MissingOutside(n)
	for i, o := range missing {
		if left := limit - len(rows); left < 2 && i < len(missing)-1 {
			return append(rows, row{kind: moreRow, text: fmt.Sprintf("and %d more", len(missing)-i)})
		}
		rows = append(rows, row{kind: moreRow, text: "waits for " + plan.FormatOutside(o.Object, l.State.Operation.Namespace)})
		if why := cmp.Or(phrase.CauseAt(n.GroupState, o, l.Now()), o.Message); why != "" && len(rows) < limit {
			rows = append(rows, row{kind: reasonRow, text: why})
		}
	}
	return rows
}

// contents lists the objects of a group, and why they are not ready, in at most limit lines.
func (l *Layout) contents(n *graph.Node, limit int) []row {
	if l.IsRelease() {
		return l.releaseRows(n, limit)
	}
	objects := l.ShownObjects(n)
	var rows []row
	if n.Single() && !l.Filter.On() {
		if label, text := l.Reason(n, objects[0]); label+text != "" {
			rows = append(rows, row{kind: reasonRow, o: objects[0], label: label, text: text})
		}
		return rows
	}
	switch {
	case n.Status == event.Skipped && n.Message != "":
		return l.skippedRows(n, limit)
	case n.Status == event.Failed && n.Message != "" && !anyUrgent(objects):
		rows = append(rows, row{kind: reasonRow, text: n.Message})
	}
	// All objects in plan order if they fit, else those that need attention first.
	need := len(rows) + len(objects)
	for i := 0; i < len(objects) && need <= limit; i++ {
		if label, text := l.Reason(n, objects[i]); label+text != "" {
			need++
		}
	}
	if need <= limit || len(objects) == 0 {
		for _, o := range objects {
			rows = l.objectRows(rows, n, o, limit)
		}
		return rows
	}
	worst := slices.MinFunc(objects, func(a, b *event.ObjectState) int { return objectRank(n, a) - objectRank(n, b) })
	trouble := objectRank(n, worst) <= 1 || picture.IsUnfinished(n.Status) // its cause matters more than the names of other objects
	if room := limit - len(rows) - len(objects); room > 0 || room == 0 && !trouble {
		return l.allRows(rows, n, objects, limit)
	}
	objects = changedFirst(objects)
	if limit == 1 && len(rows) == 0 && !l.IsRelease() && !slices.ContainsFunc(objects, func(o *event.ObjectState) bool { return objectRank(n, o) < 4 }) {
		return []row{{kind: namesRow}}
	}
	if label, text := l.Reason(n, worst); len(rows) == 0 && limit == 1 && trouble && text != "" { // the cause matters more than the object's name
		if label == picture.NotReady {
			label = ""
		}
		return []row{{kind: reasonRow, o: worst, label: label, text: text}}
	}
	if len(rows) == 0 && (limit == 1 || limit == 2 && trouble) { // the border has the counts
		return l.objectRows(nil, n, worst, limit)
	}
	return l.worstRows(rows, n, objects, limit)
}

// allRows list all objects in plan order, and why the most urgent ones are not ready.
func (l *Layout) allRows(rows []row, n *graph.Node, objects []*event.ObjectState, limit int) []row {
	room := limit - len(rows) - len(objects)
	reasons := map[*event.ObjectState]bool{}
	for _, i := range Order(len(objects), func(a, b int) int { return objectRank(n, objects[a]) - objectRank(n, objects[b]) }) {
		if label, text := l.Reason(n, objects[i]); label+text != "" && len(reasons) < room {
			reasons[objects[i]] = true
		}
	}
	for _, o := range objects {
		rows = append(rows, row{kind: objectRow, o: o})
		if reasons[o] {
			label, text := l.Reason(n, o)
			rows = append(rows, row{kind: reasonRow, o: o, label: label, text: text})
		}
	}
	return rows
}

// skippedRows say why a group never started.
func (l *Layout) skippedRows(n *graph.Node, limit int) []row {
	text := l.Graph.Shorten(phrase.Unfinished(n.GroupState))
	if !l.Tight {
		return []row{{kind: moreRow, text: text}}
	}
	var rows []row
	for _, s := range canvas.Wrap(text, graph.TightCard-2) {
		rows = append(rows, row{kind: moreRow, text: s})
	}
	return rows[:min(len(rows), limit)]
}

// releaseRows say why a stack's release is not ready, what the stack does to it, and how far its groups are.
func (l *Layout) releaseRows(n *graph.Node, limit int) (rows []row) {
	if n.Status == event.Skipped && n.Message != "" {
		return l.skippedRows(n, limit)
	}
	if why := l.releaseReason(n); why != "" {
		rows = append(rows, row{kind: reasonRow, text: why})
	}
	if text, short := l.Planned(n); text != "" {
		rows = append(rows, row{kind: planRow, text: text, short: short})
	}
	if len(l.ReleaseGroups(n)) > 0 {
		rows = append(rows, row{kind: stripRow})
	}
	return rows[:min(len(rows), limit)]
}

// releaseReason says why a release is not ready: the first failure in it, or the stack's cause.
func (l *Layout) releaseReason(n *graph.Node) string {
	if release := l.State.Scopes[n.ID]; release != nil && n.Status != event.Waiting {
		if roots := release.Roots(); len(roots) > 0 {
			return l.objectCause(roots[0].Object, roots[0].Cause) // the pane has the timeout, too
		}
		for g := range release.GroupStates() {
			for _, o := range g.Objects {
				if o.Degraded && !o.Done() && o.Cause != "" {
					return l.objectCause(o, phrase.CauseAt(g, o, l.Now()))
				}
			}
		}
	}
	for _, o := range n.Objects {
		if o.Cause != "" && !o.Done() {
			return phrase.CauseAt(n.GroupState, o, l.Now())
		}
	}
	if n.Status == event.Failed {
		return n.Message
	}
	return ""
}

// objectCause says why an object, which may be nil, is not ready. A narrow card has kubectl's short kind.
func (l *Layout) objectCause(o *event.ObjectState, why string) string {
	switch {
	case o == nil:
		return l.Graph.Shorten(why)
	}
	return l.Graph.Object(o.Object) + ": " + why
}

// drawGroups draws a glyph for each group of a release and counts its objects.
func (l *Layout) drawGroups(n *graph.Node, x, y, w int) {
	groups := l.ReleaseGroups(n)
	done, total := l.ReleaseObjects(n)
	counts := text.Count(total, "object")
	if done > 0 || n.Status != event.Waiting {
		word := "ready"
		if n.Outcome == picture.Removed {
			word = "gone"
		}
		counts = fmt.Sprintf("%d of %s %s", done, counts, word)
	}
	counts = lastFitting(w-min(len(groups), w/2)-2, "", fmt.Sprintf("%d/%d", done, total), counts)
	end := x + w
	if counts != "" {
		end -= canvas.Width(counts) + 2
	}
	for i, g := range groups {
		if x == end-1 && i < len(groups)-1 {
			x = l.Canvas.Put(x, y, theme.Quiet, l.Theme.Lines.Ellipsis)
			break
		}
		mark := l.MarkInRelease(g)
		x = l.Canvas.Put(x, y, mark.Role, mark.Glyph)
	}
	l.Canvas.Put(x+1, y, theme.Quiet, counts)
}

// changedFirst puts the objects that the run has left unchanged behind the others.
func changedFirst(objects []*event.ObjectState) []*event.ObjectState {
	rank := func(o *event.ObjectState) int {
		if o.Change == event.Unchanged {
			return 1
		}
		return 0
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *event.ObjectState) int { return rank(a) - rank(b) })
	return objects
}

func anyUrgent(objects []*event.ObjectState) bool {
	return slices.ContainsFunc(objects, func(o *event.ObjectState) bool { return picture.Urgency(o) <= 1 })
}

func (l *Layout) objectRows(rows []row, n *graph.Node, o *event.ObjectState, limit int) []row {
	rows = append(rows, row{kind: objectRow, o: o})
	if label, text := l.Reason(n, o); label+text != "" && len(rows) < limit {
		rows = append(rows, row{kind: reasonRow, o: o, label: label, text: text})
	}
	return rows
}

// worstRows lists failed objects first, then those degraded, those changed by others, those in progress and the rest, and ends with
// a line that counts the omitted ones.
func (l *Layout) worstRows(rows []row, n *graph.Node, objects []*event.ObjectState, limit int) []row {
	var left [6]int
	for at := range left {
		for _, o := range objects {
			if objectRank(n, o) != at {
				continue
			}
			if room := limit - 1 - len(rows); room > 0 {
				rows = l.objectRows(rows, n, o, limit-1)
			} else {
				left[at]++
			}
		}
	}
	words := l.rankWords(n)
	var counts []string
	for at, n := range left {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, words[at]))
		}
	}
	if len(counts) > 0 {
		all := 0
		for _, n := range left {
			all += n
		}
		rows = append(rows, row{kind: moreRow, text: "+ " + strings.Join(counts, ", "), short: fmt.Sprintf("+ %d more", all)})
	}
	return rows
}

// objectRank is picture.Urgency with two more ranks: 1 for degraded objects, and 2 for those that others have changed.
func objectRank(n *graph.Node, o *event.ObjectState) int {
	switch urgency := picture.Urgency(o); {
	case picture.Degraded(n, o):
		return 1
	case picture.Drifted(n, o):
		return 2
	case urgency > 0:
		return urgency + 2
	}
	return 0
}

// rankWords returns the words for a group's objects of each rank.
func (l *Layout) rankWords(n *graph.Node) [6]string {
	words := [...]string{"failed", l.Theme.Mark(string(event.Degraded)).Word, "changed by others", "in progress", "waiting", "ready"}
	switch {
	case picture.IsUnfinished(n.Status):
		words[3] = "not ready"
	case n.Status == event.Applied:
		words[3] = l.Theme.Mark(string(event.Applied)).Word
	}
	if l.StartsNothing(n) {
		words[4] = l.Theme.Mark(string(event.Skipped)).Word
	}
	switch {
	case n.Removing():
		words[5] = l.Theme.Mark(string(event.Gone)).Word
	case n.Outcome != "":
		words[5] = l.Theme.Mark(n.Outcome).Word
	}
	return words
}

// waitsFor precedes the groups that a group waits for.
const waitsFor = "waits for "

// afterRows say which unfinished groups a group waits for, in one line, or which approval it waits for.
func (l *Layout) afterRows(n *graph.Node, limit int) []row {
	if blockers := picture.Blockers(n); len(blockers) > 0 {
		names := make([]string, len(blockers))
		for i, up := range blockers {
			names[i] = up.Name
		}
		return []row{{kind: afterRow, names: names}}
	}
	text := "can start" // nothing but the run itself delays it
	if run, _ := l.RunStatus(); run == event.Aborting {
		text = "will not start"
	} else if missing := l.State.Unapproved(n.GroupState); len(missing) > 0 {
		rows := []row{{kind: moreRow, text: phrase.Missing(nil)}}
		for _, a := range missing {
			if a.Reason != "" && len(rows) < limit {
				rows = append(rows, row{kind: moreRow, text: "  " + a.Reason})
			}
		}
		return rows
	}
	return []row{{kind: moreRow, text: text}}
}
