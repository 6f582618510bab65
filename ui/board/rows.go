package board

import (
	"fmt"
	"math"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// density says how much of a card is drawn. The least dense one that fits the
// room is taken, for each column by itself, unless the user wants another.
type density int

const (
	listed   density = iota // everything, of waiting groups too
	full                    // as much of each group as a third of the screen holds
	foldDone                // a finished group is one line
	brief                   // a waiting group says what it waits for, not what is in it
	foldIdle                // and is one line
	fewRows                 // what is under way shows what is not well only
	scarce                  // and of that the first
	lines                   // every group is one line
	densities
)

// flat reports whether a group is drawn as one line without a border.
func (d density) flat(n *graph.Node) bool {
	switch {
	case d >= lines:
		return true
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
	switch d {
	case listed:
		return math.MaxInt
	case scarce:
		return 2
	case fewRows:
		return 4
	}
	return max(screen/3, 6)
}

// wish is what the user wants of the density.
type wish int

const (
	asFits wish = iota
	wantsLines
	wantsAll
	wishes
)

// wishOn turns to the next wish, and says so.
func (m *model) wishOn() tea.Cmd {
	m.wish = (m.wish + 1) % wishes
	m.follow = m.follow && m.wish == asFits
	m.show()
	return m.say(theme.Quiet, [...]string{"as much as fits", "a line a group, z: everything", "everything, z: what fits"}[m.wish])
}

// row is a line of a card.
type row struct {
	kind rowKind
	o    *event.ObjectState // the object it belongs to, nil for others
	text string
	rest bool // of a reason that the line before begins
}

type rowKind uint8

const (
	objectRow rowKind = iota
	reasonRow         // why the object above is not ready
	afterRow          // what the group waits for
	moreRow           // what there was no room for
)

// cardRows are the lines of a group's card: what it waits for, and what is in it.
func (m *model) cardRows(n *graph.Node, d density, screen int) []row {
	limit := d.rows(screen)
	if n.Status != event.Waiting || len(n.Ins) == 0 {
		return m.contents(n, limit)
	}
	rows := m.afterRows(n, limit)
	if d < brief && !m.lay.terse && limit-len(rows) > 1 {
		rows = append(rows, m.contents(n, limit-len(rows))...)
	}
	return rows
}

// contents are the objects of a group, with why they are not ready, in at most so
// many lines.
func (m *model) contents(n *graph.Node, limit int) []row {
	objects := m.shownObjects(n)
	var rows []row
	if n.Single() && m.filter.groups == nil {
		if r := m.Reason(n, objects[0]); r != "" {
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
	for i := 0; i < len(objects) && need <= limit; i++ {
		if m.Reason(n, objects[i]) != "" {
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
	text := m.Graph.Shorten(strings.TrimPrefix(n.Message, "not started: "))
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
	return slices.ContainsFunc(objects, func(o *event.ObjectState) bool { return picture.Urgency(o) <= 1 })
}

func (m *model) objectRows(rows []row, n *graph.Node, o *event.ObjectState, limit int) []row {
	rows = append(rows, row{kind: objectRow, o: o})
	if r := m.Reason(n, o); r != "" && len(rows) < limit {
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
			if picture.Urgency(o) != rank {
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
			word = m.Theme.Mark(n.Outcome).Word
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

// afterRows say what a group waits for: those that are not over first.
func (m *model) afterRows(n *graph.Node, limit int) []row {
	var rows []row
	if m.lay.tight {
		rows = append(rows, row{kind: moreRow, text: "after"})
	}
	head := len(rows)
	for _, up := range n.Ins {
		if picture.Passed(up) {
			continue
		}
		rows = append(rows, row{kind: afterRow, text: up.Name})
	}
	if len(rows) == head && len(n.Ins) > 0 { // nothing keeps it but the run itself
		text := "may start"
		if m.State.Run == event.Paused || m.State.Run == event.Held {
			text += ", run is " + string(m.State.Run)
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
