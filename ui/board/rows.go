package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// density says how much of a card is drawn. The least dense one that fits the
// room is taken, for each column by itself.
type density int

const (
	full     density = iota // everything
	foldDone                // a finished group is one line
	foldIdle                // a waiting group too
	fewRows                 // what is under way shows what is not well only
	scarce                  // and of that the first
	densities
)

// flat reports whether a group is drawn as one line without a border.
func (d density) flat(n *graph.Node) bool {
	switch {
	case n.Status == event.Failed:
		return false
	case n.Status == event.Waiting:
		return d >= foldIdle
	case n.Status.Over():
		return d >= foldDone
	}
	return false
}

// rows is how many lines a card may have between its borders.
func (d density) rows(screen int) int {
	switch {
	case d >= scarce:
		return 2
	case d == fewRows:
		return 4
	}
	return max(screen/3, 6)
}

// row is a line of a card.
type row struct {
	kind rowKind
	o    *event.ObjectState // the object it belongs to, nil for others
	text string
}

type rowKind uint8

const (
	objectRow rowKind = iota
	reasonRow         // why the object above is not ready
	afterRow          // what the group waits for
	moreRow           // what there was no room for
)

// cardRows are the lines of a group's card, at most limit.
func (m *model) cardRows(n *graph.Node, limit int) []row {
	if n.Status == event.Waiting && len(n.Ins) > 0 {
		return m.afterRows(n, limit)
	}
	objects := m.shownObjects(n)
	var rows []row
	if n.Single() && m.filter.groups == nil {
		if r := m.reason(n, objects[0]); r != "" {
			rows = append(rows, row{kind: reasonRow, o: objects[0], text: r})
		}
		return rows
	}
	switch {
	case n.Status == event.Skipped && n.Message != "":
		return m.skippedRows(n, limit)
	case n.Status == event.Failed && n.Message != "" && !anyUrgent(objects):
		rows = append(rows, row{kind: reasonRow, text: n.Message})
	}
	// All objects in order where they fit, else those that need looking at.
	need := len(rows) + len(objects)
	for _, o := range objects {
		if m.reason(n, o) != "" {
			need++
		}
	}
	if need <= limit {
		for _, o := range objects {
			rows = m.objectRows(rows, n, o, limit)
		}
		return rows
	}
	return m.worstRows(rows, n, objects, limit)
}

// skippedRows say why a group was never started.
func (m *model) skippedRows(n *graph.Node, limit int) []row {
	text := m.graph.Shorten(strings.TrimPrefix(n.Message, "not started: "))
	if !m.lay.tight {
		return []row{{kind: moreRow, text: text}}
	}
	var rows []row
	for _, s := range canvas.Wrap(text, graph.TightCard-2) {
		rows = append(rows, row{kind: moreRow, text: s})
	}
	return rows[:min(len(rows), limit)]
}

func anyUrgent(objects []*event.ObjectState) bool {
	return slices.ContainsFunc(objects, func(o *event.ObjectState) bool { return urgency(o) <= 1 })
}

func (m *model) objectRows(rows []row, n *graph.Node, o *event.ObjectState, limit int) []row {
	rows = append(rows, row{kind: objectRow, o: o})
	if r := m.reason(n, o); r != "" && len(rows) < limit {
		rows = append(rows, row{kind: reasonRow, o: o, text: r})
	}
	return rows
}

// worstRows takes failed objects first, then those under way, then the rest,
// and ends with a line that counts what was left out.
func (m *model) worstRows(rows []row, n *graph.Node, objects []*event.ObjectState, limit int) []row {
	var left [4]int
	for rank := range left {
		for _, o := range objects {
			if urgency(o) != rank {
				continue
			}
			if room := limit - 1 - len(rows); room > 0 {
				rows = m.objectRows(rows, n, o, limit-1)
			} else {
				left[rank]++
			}
		}
	}
	text := ""
	for rank, word := range [...]string{"failed", "in progress", "waiting", "ready"} {
		if word == "ready" && n.Phase != "" && n.Removing() {
			word = "gone"
		}
		if word == "ready" && n.Outcome != "" {
			word = m.th.Mark(n.Outcome).Word
		}
		if left[rank] > 0 {
			text += fmt.Sprintf(", %d %s", left[rank], word)
		}
	}
	if text != "" {
		rows = append(rows, row{kind: moreRow, text: "+ " + text[2:]})
	}
	return rows
}

// urgency ranks objects by how much they need looking at.
func urgency(o *event.ObjectState) int {
	switch o.Status {
	case event.Failed:
		return 0
	case event.Waiting:
		return 2
	case event.Ready, event.Gone:
		return 3
	}
	return 1
}

// cutShort reports whether a group has ended before all of it was ready.
func cutShort(s event.Status) bool { return s == event.Failed || s == event.Aborted }

// passed reports whether what waits for a group need not wait any more.
func passed(n *graph.Node) bool {
	switch n.Status {
	case event.Ready, event.Gone, event.Applied:
		return true
	}
	return false
}

// afterRows say what a group waits for: those that are not over first.
func (m *model) afterRows(n *graph.Node, limit int) []row {
	var rows []row
	if m.lay.tight {
		rows = append(rows, row{kind: moreRow, text: "after"})
	}
	head := len(rows)
	for _, up := range n.Ins {
		if passed(up) {
			continue
		}
		rows = append(rows, row{kind: afterRow, text: up.Name})
	}
	if len(rows) == head && len(n.Ins) > 0 { // nothing keeps it but the run itself
		text := "may start"
		if m.state.Run == event.Paused || m.state.Run == event.Held {
			text += ", run is " + string(m.state.Run)
		}
		return []row{{kind: moreRow, text: text}}
	}
	indent := strings.Repeat(" ", 6)
	if m.lay.tight {
		indent = ""
	}
	if len(rows) > limit {
		more := len(rows) - limit + 1
		rows = append(rows[:limit-1], row{kind: moreRow, text: indent + fmt.Sprintf("and %d more", more)})
	}
	return rows
}

// reason says in one line why an object is not ready, beginning with its
// status; empty where it is ready, or where that is all there is to say.
func (m *model) reason(n *graph.Node, o *event.ObjectState) string {
	switch {
	case o.Status == event.Failed:
		return cmp.Or(o.Message, o.Summary)
	case cutShort(n.Status) && urgency(o) == 1:
		return "not ready: " + cmp.Or(o.Summary, o.Message, string(o.Status))
	}
	switch o.Status {
	case event.InProgress, event.Deleting:
		text := m.objectMark(n, o).Word
		if !n.Status.Over() || n.Status == event.Applied {
			text += " " + canvas.Span(m.sinceOf(o), false)
		}
		if o.Message != "" {
			text += " " + m.th.Lines.Dot + " " + o.Message
		}
		return text
	}
	return ""
}

// sinceOf is how long an object has been under way.
func (m *model) sinceOf(o *event.ObjectState) time.Duration {
	from := o.Applied
	if o.Status == event.Deleting {
		from = o.Since
	}
	if from.IsZero() {
		return 0
	}
	return m.clockNow().Sub(from)
}

// clockNow is the present time, or the operation's end.
func (m *model) clockNow() time.Time {
	if m.over() {
		return m.state.Now
	}
	return m.now()
}

// spent is how long a group took so far, where that is known.
func (m *model) spent(n *graph.Node) (d time.Duration, over, ok bool) {
	switch {
	case n.Started.IsZero(), m.state.Operation.Watches():
		return 0, false, false
	case !n.Ended.IsZero():
		return n.Ended.Sub(n.Started), true, true
	}
	return m.clockNow().Sub(n.Started), false, true
}

// objectMark is how an object's status looks. What was applied is not yet
// ready while its group is waited for; nor is, in a group that has failed, what
// is still in progress; what is as it was says so.
func (m *model) objectMark(n *graph.Node, o *event.ObjectState) theme.Mark {
	if outcome := m.objectOutcome(n, o); outcome != "" {
		return m.th.Mark(outcome)
	}
	return m.statusMark(n, o)
}

// statusMark is objectMark without what a rollback has done since.
func (m *model) statusMark(n *graph.Node, o *event.ObjectState) theme.Mark {
	switch {
	case cutShort(n.Status) && urgency(o) == 1:
		mark := m.th.Mark(string(n.Status))
		mark.Word = "not ready"
		return mark
	case o.Status == event.Applied && !n.Status.Over():
		mark := m.th.Mark(string(event.InProgress))
		mark.Word = m.th.Mark(string(event.Applied)).Word
		return mark
	case o.Status == event.Ready && (o.Change == event.Unchanged || o.Change == event.Kept):
		return m.th.Mark(string(o.Change))
	}
	return m.th.Mark(string(o.Status))
}
