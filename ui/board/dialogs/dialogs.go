// Package dialogs is the mode that asks before what cannot be taken back: what is to
// become of a run, and of what failed. Its one type is Dialog.
package dialogs

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Dialog is a question on top of the board.
type Dialog struct {
	*screen.Screen
	// givesUp tells that it is about what failed, not about the run.
	givesUp bool
	// asked tells that a rollback was under way when the dialog was opened.
	asked bool
}

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
	says func() (text, whyNot string)
	// sends gives the order; nil goes on.
	sends func() event.Command
}

// Abort asks what is to become of the run.
func Abort(s *screen.Screen) *Dialog { return &Dialog{Screen: s} }

// GiveUp asks whether what failed is to be given up.
func GiveUp(s *screen.Screen) *Dialog { return &Dialog{Screen: s, givesUp: true} }

// Open asks.
func (d *Dialog) Open() tea.Cmd {
	d.asked = d.RollingBack()
	d.Modes.Open(d)
	return nil
}

// Part is the heading of its keys.
func (d *Dialog) Part() string {
	if d.givesUp {
		return partGiveUp
	}
	return partAbort
}

// Keys are the answers.
func (d *Dialog) Keys() []keys.Binding {
	var table []keys.Binding
	for _, c := range d.choices() {
		only := func() bool { text, whyNot := c.says(); return text != "" && whyNot == "" }
		table = append(table, keys.Binding{Keys: c.keys, Label: c.label, About: c.about, Only: only, Do: func() tea.Cmd { return d.choose(c) }})
	}
	return table
}

func (d *Dialog) choices() []choice {
	order := func(name event.CommandName, reason string) func() event.Command {
		return func() event.Command { return event.Command{Name: name, Reason: reason} }
	}
	if d.givesUp {
		return []choice{
			{[]string{"y", "enter"}, "y/enter", "give up what failed, and finish what is under way", d.saysGiveUp,
				func() event.Command { return d.AboutFailed(event.GiveUp) }},
			{[]string{"esc", "ctrl+c"}, "esc", "leave it held", d.saysHold, nil},
		}
	}
	return []choice{
		{[]string{"K"}, "K", "abort and keep what is there; the release is marked failed", d.saysKeep, order(event.Abort, "")},
		{[]string{"r"}, "r", "abort and roll back: to the previous revision, or after a first install uninstall", d.saysRollback, order(event.Rollback, "")},
		{[]string{"ctrl+c"}, "ctrl-c", "stop at once: cancel the requests in flight as well", d.saysStop, order(event.Stop, "stopped by ctrl-c")},
		{[]string{"esc"}, "esc", "go on", d.saysGoOn, nil},
	}
}

// choose gives the order of an answer.
func (d *Dialog) choose(c choice) tea.Cmd {
	d.Modes.Close(d)
	if c.sends == nil {
		return nil
	}
	order := c.sends()
	order.Told = d.asked // the dialog has said that it stops the rollback (R43)
	d.Leaving = order.Name == event.Stop
	return d.Send(order)
}

// Update closes the dialog when there is nothing to answer any more.
func (d *Dialog) Update(msg tea.Msg) tea.Cmd {
	if _, ok := msg.(keys.Changed); ok && (d.Over() || d.givesUp && !d.Held()) {
		d.Modes.Close(d)
	}
	return nil
}

// saysGiveUp counts what giving up costs.
func (d *Dialog) saysGiveUp() (text, whyNot string) {
	failed, never := 0, map[*graph.Node]bool{}
	only := d.AboutFailed(event.GiveUp).Group
	for _, n := range d.Graph.Nodes {
		if n.Status == event.Failed && d.Back(n) == d.RollingBack() && (only == "" || n.ID == only) {
			failed++
			for _, d := range d.Graph.Followers(n) {
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

func (d *Dialog) saysHold() (text, whyNot string) { return "leave it held", "" }

// written counts the objects of the operation that are in the cluster by now,
// and those on their way there.
func (d *Dialog) written() (there, flying int) {
	for _, n := range d.Graph.Nodes {
		if d.Back(n) || d.Graph.Cols[n.Col].Phase.Kind != event.PhaseApply {
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
func (d *Dialog) removed() (gone, left int) {
	for _, n := range d.Graph.Nodes {
		if d.Back(n) == d.RollingBack() && d.Graph.Cols[n.Col].Phase.Kind == event.PhaseRemove {
			gone += n.Done
			left += len(n.Objects) - n.Done
		}
	}
	return gone, left
}

func (d *Dialog) saysKeep() (text, whyNot string) {
	if d.State.Run == event.Aborting {
		return "", ""
	}
	return d.keeps(), ""
}

func (d *Dialog) keeps() string {
	gone, left := d.removed()
	switch {
	case d.RollingBack() && gone+left > 0:
		return fmt.Sprintf("stop the rollback: %s gone, %d still there; the release is marked failed", isAre(gone, "object"), left)
	case d.RollingBack():
		return "stop the rollback where it is; the release is marked failed"
	case d.State.Operation.Name == "uninstall":
		return fmt.Sprintf("stop here: %s gone, %d stay; the release is marked failed", isAre(gone, "object"), left)
	}
	there, flying := d.written()
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

func (d *Dialog) saysRollback() (text, whyNot string) {
	op := d.State.Operation
	switch {
	case d.State.Run == event.Aborting:
		return "", ""
	case d.RollingBack():
		return "roll back", "a rollback is under way"
	case op.Name == "upgrade" && op.Undo() == "":
		return "roll back", "there is no good revision to go back to"
	case op.Undo() == "":
		return "roll back", op.Name + " cannot be rolled back; lockstep rollback goes to any revision"
	}
	return d.rollsBack(op), ""
}

func (d *Dialog) rollsBack(op event.Operation) string {
	there, flying := d.written()
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

func (d *Dialog) saysStop() (text, whyNot string) {
	if n := d.Tally.Requests; n > 0 {
		return fmt.Sprintf("stop at once: cancel %s in flight, keep what is there", canvas.Count(n, "request")), ""
	}
	return "stop at once: keep what is there", ""
}

func (d *Dialog) saysGoOn() (text, whyNot string) {
	if d.State.Run == event.Aborting {
		return "let it come to its end", ""
	}
	return "go on", ""
}

// Draw draws what can be done about the run.
func (d *Dialog) Draw() {
	op := d.State.Operation
	title := fmt.Sprintf("abort the %s of %s?", op.Name, canvas.Clean(op.Release))
	switch {
	case d.givesUp:
		title = "give up what failed?"
	case d.State.Run == event.Aborting:
		title = "the run is being aborted"
	case d.RollingBack():
		title = "stop the rollback?"
	}
	type entry struct {
		label, text string
		key, role   theme.Role
	}
	var entries []entry
	for _, c := range d.choices() {
		switch text, whyNot := c.says(); {
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
	w := min(wide, d.W-4)
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
	d.Canvas.Box(title, w, lines, theme.Stopped)
}
