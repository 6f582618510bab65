package board

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
)

// dialog is a question on top of the board.
type dialog int

const (
	noDialog dialog = iota
	abortDialog
	giveUpDialog
)

const (
	partAbort  = "in the abort dialog"
	partGiveUp = "before giving up"
)

// choice is an answer to a dialog.
type choice struct {
	keys  []string
	label string
	about string // for the help
	// says tells exactly what it will do to this release; empty where it is
	// nothing that could be chosen. Why it cannot be is told by the other.
	says func(*model) (text, whyNot string)
	// sends gives the order; nil goes on.
	sends func(*model) event.Command
}

func (d dialog) part() string {
	if d == giveUpDialog {
		return partGiveUp
	}
	return partAbort
}

func (d dialog) choices() []choice {
	order := func(name event.CommandName, reason string) func(*model) event.Command {
		return func(*model) event.Command { return event.Command{Name: name, Reason: reason} }
	}
	if d == giveUpDialog {
		return []choice{
			{[]string{"y", "enter"}, "y/enter", "give up what failed, and finish what is under way", (*model).saysGiveUp,
				func(m *model) event.Command { return m.aboutFailed(event.GiveUp) }},
			{[]string{"esc", "ctrl+c"}, "esc", "leave it held", (*model).saysHold, nil},
		}
	}
	return []choice{
		{[]string{"K"}, "K", "abort and keep what is there; the release is marked failed", (*model).saysKeep, order(event.Abort, "")},
		{[]string{"r"}, "r", "abort and roll back: to the previous revision, or after a first install uninstall", (*model).saysRollback, order(event.Rollback, "")},
		{[]string{"ctrl+c"}, "ctrl-c", "stop at once: cancel the requests in flight as well", (*model).saysStop, order(event.Stop, "stopped by ctrl-c")},
		{[]string{"esc"}, "esc", "go on", (*model).saysGoOn, nil},
	}
}

// choose obeys a key of the dialog.
func (m *model) choose(name string) tea.Cmd {
	for _, c := range m.dialog.choices() {
		if text, whyNot := c.says(m); !slices.Contains(c.keys, name) || text == "" || whyNot != "" {
			continue
		}
		m.dialog = noDialog
		if c.sends == nil {
			return nil
		}
		order := c.sends(m)
		order.Told = m.asked // the dialog has said that it stops the rollback (R43)
		m.leaving = order.Name == event.Stop
		return m.send(order)
	}
	return nil
}

// saysGiveUp counts what giving up costs.
func (m *model) saysGiveUp() (text, whyNot string) {
	failed, never := 0, map[*graph.Node]bool{}
	only := m.aboutFailed(event.GiveUp).Group
	for _, n := range m.Graph.Nodes {
		if n.Status == event.Failed && m.Back(n) == m.RollingBack() && (only == "" || n.ID == only) {
			failed++
			for _, d := range m.Graph.Followers(n) {
				never[d] = never[d] || d.Status == event.Waiting
			}
		}
	}
	text = fmt.Sprintf("give %s up", canvas.Count(failed, "group"))
	if n := len(never); n > 0 {
		text += "; " + neverStart(n)
	}
	return text + ". What is under way is finished, then the operation fails", ""
}

func neverStart(n int) string {
	if n == 1 {
		return "1 group that waits for it never starts"
	}
	return fmt.Sprintf("%d groups that wait for it never start", n)
}

func (m *model) saysHold() (text, whyNot string) { return "leave it held", "" }

// written counts the objects of the operation that are in the cluster by now,
// and those on their way there.
func (m *model) written() (there, flying int) {
	for _, n := range m.Graph.Nodes {
		if m.Back(n) || m.Graph.Cols[n.Col].Phase.Kind != event.PhaseApply {
			continue
		}
		for _, o := range n.Objects {
			switch {
			case o.Status == event.Applying:
				flying++
			case o.Change != "":
				there++
			}
		}
	}
	return there, flying
}

// removed counts the objects that are gone, and those that are left, of the
// removals that matter now.
func (m *model) removed() (gone, left int) {
	for _, n := range m.Graph.Nodes {
		if m.Back(n) == m.RollingBack() && m.Graph.Cols[n.Col].Phase.Kind == event.PhaseRemove {
			gone += n.Done
			left += len(n.Objects) - n.Done
		}
	}
	return gone, left
}

func (m *model) saysKeep() (text, whyNot string) {
	if m.State.Run == event.Aborting {
		return "", ""
	}
	return m.keeps(), ""
}

func (m *model) keeps() string {
	gone, left := m.removed()
	switch {
	case m.RollingBack() && gone+left > 0:
		return fmt.Sprintf("stop the rollback: %s gone, %d still there; the release is marked failed", isAre(gone, "object"), left)
	case m.RollingBack():
		return "stop the rollback where it is; the release is marked failed"
	case m.State.Operation.Name == "uninstall":
		return fmt.Sprintf("stop here: %s gone, %d stay; the release is marked failed", isAre(gone, "object"), left)
	}
	there, flying := m.written()
	text := fmt.Sprintf("keep what is there: %s, the release is marked failed", stay(there))
	if flying > 0 {
		text = fmt.Sprintf("keep what is there: %s and %d in flight, the release is marked failed", stay(there), flying)
	}
	return text
}

func isAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

func stay(n int) string {
	switch n {
	case 0: // hooks may have left theirs, and the namespace may be new
		return "nothing of the chart is there yet"
	case 1:
		return "1 object stays"
	}
	return fmt.Sprintf("%d objects stay", n)
}

func (m *model) saysRollback() (text, whyNot string) {
	op := m.State.Operation
	switch {
	case m.State.Run == event.Aborting:
		return "", ""
	case m.RollingBack():
		return "roll back", "a rollback is under way"
	case op.Name == "upgrade" && op.Undo() == "":
		return "roll back", "there is no good revision to go back to"
	case op.Undo() == "":
		return "roll back", op.Name + " cannot be rolled back; lockstep rollback goes to any revision"
	}
	return m.rollsBack(op), ""
}

func (m *model) rollsBack(op event.Operation) string {
	there, flying := m.written()
	if op.Undo() == "rollback" {
		return fmt.Sprintf("roll back: to revision %d, in order", op.PreviousRevision)
	}
	if there+flying == 0 {
		return "roll back: uninstall; nothing of the chart has been applied yet"
	}
	return fmt.Sprintf("roll back: uninstall %s in reverse order", allOf(there+flying))
}

func allOf(n int) string {
	if n == 1 {
		return "the 1 object"
	}
	return fmt.Sprintf("all %d objects", n)
}

func (m *model) saysStop() (text, whyNot string) {
	if n := m.Tally.Requests; n > 0 {
		return fmt.Sprintf("stop at once: cancel %s in flight, keep what is there", canvas.Count(n, "request")), ""
	}
	return "stop at once: keep what is there", ""
}

func (m *model) saysGoOn() (text, whyNot string) {
	if m.State.Run == event.Aborting {
		return "let it come to its end", ""
	}
	return "go on", ""
}

// drawDialog draws what can be done about the run.
func (m *model) drawDialog() {
	op := m.State.Operation
	title := fmt.Sprintf("abort the %s of %s?", op.Name, canvas.Clean(op.Release))
	switch {
	case m.dialog == giveUpDialog:
		title = "give up what failed?"
	case m.State.Run == event.Aborting:
		title = "the run is being aborted"
	case m.RollingBack():
		title = "stop the rollback?"
	}
	type entry struct {
		label, text string
		key, role   theme.Role
	}
	var entries []entry
	for _, c := range m.dialog.choices() {
		switch text, whyNot := c.says(m); {
		case text == "":
		case whyNot != "":
			entries = append(entries, entry{c.label, text + ": not possible, " + whyNot, theme.Quiet, theme.Quiet})
		default:
			entries = append(entries, entry{c.label, text, theme.Key, theme.Text})
		}
	}
	wide := canvas.Width(title) + 4
	for _, e := range entries {
		wide = max(wide, canvas.Width(e.text)+12)
	}
	w := min(wide, m.w-4)
	var lines []canvas.Line
	for _, e := range entries {
		for i, s := range canvas.Wrap(e.text, max(w-11, 8)) {
			key := ""
			if i == 0 {
				key = e.label
			}
			lines = append(lines, canvas.Line{{Role: e.key, Text: fmt.Sprintf("%-8s", key)}, {Role: e.role, Text: s}})
		}
	}
	m.canvas.Box(title, w, lines, theme.Stopped)
}
