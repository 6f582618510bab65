// Package dialogs is the mode that asks before it aborts a run or ends it as failed. Its central
// type is Dialog.
package dialogs

import (
	"cmp"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Dialog is a question on top of the board.
type Dialog struct {
	*screen.Screen
	givesUp        bool // asks about the failed groups, not about the run
	duringRollback bool // a rollback was running when the dialog opened
}

type choice struct {
	keys, label string
	about       string // for the help
	// text says exactly what the choice does to this release; "" hides the choice. whyNot says
	// why a visible choice is disabled.
	text, whyNot string
	command      event.Command // empty: only close the dialog
}

// Abort returns the dialog that aborts the run.
func Abort(s *screen.Screen) *Dialog { return &Dialog{Screen: s} }

// GiveUp returns the dialog that accepts that groups failed, and ends the run.
func GiveUp(s *screen.Screen) *Dialog { return &Dialog{Screen: s, givesUp: true} }

func (d *Dialog) Open() tea.Cmd {
	d.duringRollback = d.RollingBack()
	d.Modes.Open(d)
	return nil
}

func (d *Dialog) Part() string {
	if d.givesUp {
		return "in the stop-here dialog"
	}
	return "in the abort dialog"
}

func (d *Dialog) Keys() []keys.Binding {
	var table []keys.Binding
	for _, c := range d.choices() {
		enabled := func() bool { return c.text != "" && c.whyNot == "" }
		table = append(table, keys.Binding{Keys: c.keys, Label: c.label, About: c.about, Only: enabled, Do: func() tea.Cmd { return d.choose(c) }})
	}
	return table
}

func (d *Dialog) choices() []choice {
	if d.givesUp {
		return []choice{
			{keys: "G", about: "finish running work, then end as failed", text: d.giveUpText(), command: d.FailedCommand(event.GiveUp)},
			{keys: "esc", about: "keep holding", text: "keep holding"},
		}
	}
	back := choice{keys: "r", about: "abort and roll back (or uninstall)", command: event.Command{Name: event.Rollback}}
	keep := choice{keys: "K", about: "abort and keep existing objects", command: event.Command{Name: event.Abort}}
	wait := choice{keys: "esc", about: "cancel", text: "let it finish"}
	if d.State.Run != event.Aborting {
		keep.text, wait.text = d.keepText(), "cancel"
		back.text, back.whyNot = d.rollbackText()
	}
	if d.wroteNothing() {
		keep.keys, keep.about, keep.text = "a", "abort", "abort: nothing was written"
		back.text = ""
	}
	stop := choice{keys: "ctrl+c", label: "ctrl-c", about: "stop now, cancel requests in flight", text: "stop now, keep existing objects",
		command: event.Command{Name: event.Stop, Reason: "by ctrl-c"}}
	switch n := d.Tally.Requests; {
	case d.wroteNothing():
		stop.text = "abort and quit"
	case n > 0:
		stop.text = fmt.Sprintf("stop now: cancel %s in flight, keep existing objects", text.Count(n, "request"))
	}
	return []choice{keep, back, stop, wait}
}

// wroteNothing reports whether the run is paused before its first group, so before its first write (R41).
func (d *Dialog) wroteNothing() bool {
	return d.State.Run == event.Paused && !d.RollingBack() && !slices.ContainsFunc(d.Graph.Nodes, func(n *graph.Node) bool { return !n.Started.IsZero() })
}

func (d *Dialog) choose(c choice) tea.Cmd {
	d.Modes.Close(d)
	if c.command.Name == "" {
		return nil
	}
	c.command.KnowsRollback = d.duringRollback // the user saw that this stops the rollback (R43)
	d.QuitAtEnd = c.command.Name == event.Stop
	return d.Send(c.command)
}

// Update closes the dialog once its question no longer applies.
func (d *Dialog) Update(msg tea.Msg) tea.Cmd {
	if _, ok := msg.(keys.Changed); ok && (d.Over() || d.givesUp && !d.Held()) {
		d.Modes.Close(d)
	}
	return nil
}

// giveUpText counts the groups that stay failed and those that will not start.
func (d *Dialog) giveUpText() string {
	failed, never := 0, map[*graph.Node]bool{}
	addFollowers := func(n *graph.Node) {
		for _, f := range d.Graph.Followers(n) {
			if f.Status == event.Waiting {
				never[f] = true
			}
		}
	}
	for _, n := range d.Graph.Nodes { // of a stack
		if d.State.ReleaseRun(n.GroupState) == event.Held {
			failed += d.State.Scopes[n.ID].FailedGroups()
			addFollowers(n)
		}
	}
	only := d.FailedCommand(event.GiveUp).Group
	for _, n := range d.Failing() {
		if only != "" && n.ID != only {
			continue
		}
		failed++
		addFollowers(n)
	}
	all := fmt.Sprintf("leave %s failed, finish running work, then end as failed", text.Count(failed, "group"))
	if n := len(never); n > 0 {
		noun := d.State.Operation.GroupNoun()
		all += "; " + text.Count(n, "waiting "+noun) + " will not start"
	}
	return all
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}

// appliedObjects counts the objects that the operation has applied or is applying.
func (d *Dialog) appliedObjects() (applied, inFlight int) {
	for _, n := range d.Graph.Nodes {
		if n.InRollback() || n.Kind != event.PhaseApply {
			continue
		}
		for _, o := range n.Objects {
			switch {
			case o.Status == event.Applying:
				inFlight++
			case o.Change != "":
				applied++
			}
		}
	}
	return applied, inFlight
}

// keepText says which objects stay if the run stops here.
func (d *Dialog) keepText() string {
	if d.State.Operation.IsStack() {
		return d.keepReleasesText()
	}
	gone, left := 0, 0
	for _, n := range d.Graph.Nodes {
		if d.IsCurrent(n) && n.Kind == event.PhaseRemove {
			gone += n.Done
			left += len(n.Objects) - n.Done
		}
	}
	removed := fmt.Sprintf("%s deleted, %d remaining; the release is marked failed", text.Count(gone, "object"), left)
	switch {
	case d.RollingBack() && gone+left > 0:
		return "stop the rollback: " + removed
	case d.RollingBack():
		return "stop the rollback here; the release is marked failed"
	case d.State.Operation.Name == "uninstall":
		return "stop here: " + removed
	}
	applied, inFlight := d.appliedObjects()
	stay := plural(applied, "1 object stays", "%d objects stay")
	if applied == 0 { // but hooks and the namespace may exist
		stay = "no chart objects exist yet"
	}
	if inFlight > 0 {
		stay += fmt.Sprintf(" and %d in flight", inFlight)
	}
	return "keep existing objects: " + stay + "; the release is marked failed"
}

// keepReleasesText counts the releases of a stack that are done if the run stops here, and those that would be
// marked failed. A release that has not started a group has written nothing.
func (d *Dialog) keepReleasesText() string {
	over, running := 0, 0
	for _, n := range d.Graph.Nodes {
		switch n.Status {
		case event.Ready, event.Gone:
			over++
		case event.Running:
			if r := d.State.Scopes[n.ID]; r != nil && slices.ContainsFunc(slices.Collect(r.GroupStates()), func(g *event.GroupState) bool { return !g.Started.IsZero() }) {
				running++
			}
		}
	}
	text := "keep existing objects: " + plural(over, "1 release is", "%d releases are") + " done"
	if running > 0 {
		text += ", " + plural(running, "1 running release is marked failed", "%d running releases are marked failed")
	}
	return text
}

// rollbackText says what a rollback would do, or why it is not possible.
func (d *Dialog) rollbackText() (text, whyNot string) {
	op := d.State.Operation
	applied, inFlight := d.appliedObjects()
	switch {
	case op.IsStack() && !d.RollingBack() && op.UndoneBy() != "":
		return "roll back everything this run changed, in reverse", ""
	case d.RollingBack():
		return "roll back", "a rollback is already running"
	case op.Name == "upgrade" && op.UndoneBy() == "":
		return "roll back", "there is no earlier good revision"
	case op.UndoneBy() == "":
		return "roll back", op.Name + " cannot be undone here; lockstep rollback can return to any revision"
	case op.UndoneBy() == "rollback":
		return fmt.Sprintf("roll back: to revision %d, in order", op.PreviousRevision), ""
	case applied+inFlight == 0:
		return "roll back: uninstall the release", ""
	}
	return "roll back: delete " + plural(applied+inFlight, "the 1 object", "all %d objects") + " in reverse order", ""
}

func (d *Dialog) Draw() {
	op := d.State.Operation
	title := fmt.Sprintf("abort the %s of %s?", op.Name, canvas.Clean(op.Release))
	if op.IsStack() {
		title = fmt.Sprintf("abort this run of %s?", canvas.Clean(op.Release))
	}
	switch {
	case d.givesUp:
		title = "stop here?"
	case d.State.Run == event.Aborting:
		title = "aborting the run"
	case d.RollingBack():
		title = "stop the rollback?"
	}
	wide := canvas.Width(title) + 4
	choices := slices.DeleteFunc(d.choices(), func(c choice) bool { return c.text == "" })
	for i := range choices {
		c := &choices[i]
		if c.whyNot != "" {
			c.text += ": not possible, " + c.whyNot
		}
		wide = max(wide, canvas.Width(c.text)+12)
	}
	w := min(wide, d.W-4)
	var lines []canvas.Line
	for _, c := range choices {
		key, role := theme.Key, theme.Text
		if c.whyNot != "" {
			key, role = theme.Quiet, theme.Quiet
		}
		lines = append(lines, canvas.Labelled(canvas.Piece{Role: key, Text: cmp.Or(c.label, c.keys)}, 8, role, c.text, max(w-11, 8))...)
	}
	d.Canvas.Box(title, w, lines, theme.Stopped)
}
