// Package dialogs is the mode that asks before it aborts a run or ends it as failed. Its central
// type is Dialog.
package dialogs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/line"
	"lockstep/ui/board/screen"
)

// Dialog is a question on top of the board.
type Dialog struct {
	*screen.Screen
	givesUp        bool // asks about the failed groups, not about the run
	duringRollback bool // a rollback was running when the dialog opened
	// reason is the line for the reason of the point of no return to go back past (R33a); only the dialog that aborts has it.
	reason *line.Line
}

type choice struct {
	keys, label string
	about       string // for the help
	// text says exactly what the choice does to this release, or why it is disabled; "" hides the choice.
	text     string
	disabled bool
	command  event.Command // empty: only close the dialog
	asks     bool          // for the reason, before it sends command
	leaves   bool          // quits the screen, not the run
}

// Abort returns the dialog that aborts the run.
func Abort(s *screen.Screen) *Dialog {
	d := &Dialog{Screen: s}
	d.reason = line.New(s, line.Config{
		Prompt: "reason: ", Enter: "roll back", Esc: "cancel", OnInput: func(string) {}, OnClear: func() {}, Status: d.reasonStatus, OnAccept: d.rollBackPast,
	})
	return d
}

// GiveUp returns the dialog that leaves groups failed, which ends the run as failed.
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
		enabled := func() bool { return c.text != "" && !c.disabled }
		table = append(table, keys.Binding{Keys: c.keys, Label: c.label, About: c.about, Only: enabled, Do: func() tea.Cmd { return d.choose(c) }})
	}
	return table
}

func (d *Dialog) choices() []choice {
	if d.givesUp {
		return []choice{
			{keys: "esc", about: "cancel", text: "cancel"},
			{keys: "G", about: "end the run as failed", text: d.giveUpText(), command: d.FailedCommand(event.GiveUp)},
		}
	}
	back := choice{keys: "r", about: "abort and roll back (or uninstall)", command: event.Command{Name: event.Rollback}}
	keep := choice{keys: "K", about: "abort and keep existing objects", command: event.Command{Name: event.Abort}}
	wait := choice{keys: "esc", about: "cancel", text: "let it finish"}
	if d.State.Run != event.Aborting {
		keep.text, wait.text = d.keepText(), "cancel"
		back.text, back.disabled = d.rollbackText()
		back.asks = !back.disabled && len(d.State.NoReturn) > 0
	}
	stop := choice{keys: "ctrl+c", label: "ctrl-c", about: "stop now, cancel requests in flight", text: d.stopText(keep.text != ""),
		command: event.Command{Name: event.Stop, Via: "ctrl-c"}}
	if d.wroteNothing() {
		keep.keys, keep.about, keep.text = "a", "abort", "abort: nothing was written"
		back.text, stop.text = "", "abort and quit"
	}
	leave := choice{keys: "d", about: "leave it running, quit the screen", text: d.leaveText(), leaves: true}
	return []choice{wait, leave, keep, back, stop} // the safest first
}

// leaveText says how to come back to a run that is left running, and how long it waits if it is paused or held (R47).
func (d *Dialog) leaveText() string {
	if d.Leave.ComeBack == "" {
		return ""
	}
	said := "leave it running; come back with: " + d.Leave.ComeBack
	if d.Home != "" {
		said = "leave it running and go back to " + d.Home
	}
	switch run, _ := d.RunStatus(); run {
	case event.Paused:
		return fmt.Sprintf("%s; paused, it is aborted if nobody attaches within %s", said, canvas.Span(d.Leave.Within))
	case event.Held:
		return fmt.Sprintf("%s; held, it ends as failed if nobody attaches within %s", said, canvas.Span(d.Leave.Within))
	}
	return said
}

// stopText says how stopping differs from K, if that is a choice too.
func (d *Dialog) stopText(orKeep bool) string {
	then := "quit"
	if d.Home != "" {
		then = "go back to " + d.Home
	}
	cancels := ""
	if n := d.Tally.Requests; n > 0 {
		cancels = "cancel " + text.Count(n, "request") + " in flight"
	}
	switch {
	case !orKeep:
		return text.Join(", ", text.Join(": ", "stop now", cancels), "then "+then)
	case cancels == "":
		return "like K, then " + then
	}
	return "like K, but " + cancels + ", then " + then
}

// wroteNothing reports whether the run is paused before its first group, so before its first write (R41).
func (d *Dialog) wroteNothing() bool {
	return d.State.Run == event.Paused && !d.RollingBack() && !slices.ContainsFunc(d.Graph.Nodes, func(n *graph.Node) bool { return !n.Started.IsZero() })
}

// barrier returns the reason that must be typed before a rollback, as the screen shows it.
func (d *Dialog) barrier() string { return canvas.Clean(plan.JoinReasons(d.State.NoReturn...)) }

func (d *Dialog) reasonStatus() string {
	if d.reason.Value() == d.barrier() {
		return "that is the reason"
	}
	return "type the reason as shown above"
}

// rollBackPast rolls back if the reason was typed, and else asks for it again.
func (d *Dialog) rollBackPast() tea.Cmd {
	if d.reason.Value() != d.barrier() {
		return d.reason.Open()
	}
	return d.choose(choice{command: event.Command{Name: event.Rollback, PastNoReturn: plan.JoinReasons(d.State.NoReturn...)}})
}

func (d *Dialog) choose(c choice) tea.Cmd {
	if c.asks {
		d.reason.Reset()
		return d.reason.Open()
	}
	d.Modes.Close(d)
	switch {
	case c.leaves:
		return d.LeaveRunning()
	case c.command.Name == "":
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
		if d.reason != nil {
			d.reason.Close()
		}
	}
	return nil
}

// giveUpText counts the groups that stay failed and those that will not start, or says that another
// failure keeps the run held.
func (d *Dialog) giveUpText() string {
	failing := d.Failing()
	if others := len(failing) - 1; others > 0 && d.FailedCommand(event.GiveUp).Group != "" {
		return fmt.Sprintf("leave %s failed; the run stays held until %s resolved too", failing[0].Name,
			plural(others, "the other failed group is", "%d other failed groups are"))
	}
	failed, waiting := len(failing), 0
	if d.State.Operation.IsStack() {
		failed = 0
	}
	for _, n := range d.Graph.Nodes {
		switch {
		case d.State.ReleaseRun(n.GroupState) == event.Held: // in a stack
			failed += d.State.Scopes[n.ID].FailedGroups()
		case d.IsCurrent(n) && (n.Status == event.Waiting || n.Status == event.AtBreakpoint): // a failed run starts nothing more
			waiting++
		}
	}
	all := fmt.Sprintf("end the run with %s once running work is finished", text.Count(failed, "failed group"))
	if waiting > 0 {
		all += "; " + text.Count(waiting, "waiting "+d.State.GroupNoun()) + " will not start"
	}
	return all
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}

// appliedObjects counts the objects that phases of these kinds have applied or are applying. Any operation but an install leaves out
// those that it did not have to change.
func (d *Dialog) appliedObjects(kinds ...event.PhaseKind) (applied, inFlight int) {
	for _, n := range d.Graph.Nodes {
		if n.InRollback() || !slices.Contains(kinds, n.Kind) {
			continue
		}
		for _, o := range n.Objects {
			switch {
			case o.Status == event.Applying:
				inFlight++
			case o.Change == "", !d.installs() && (o.Change == event.Unchanged || o.Change == event.Kept):
			default:
				applied++
			}
		}
	}
	return applied, inFlight
}

func (d *Dialog) installs() bool { return d.State.Operation.Name == "install" }

// keepText says which objects stay if the run stops here.
func (d *Dialog) keepText() string {
	switch op := d.State.Operation; {
	case op.IsStack():
		return d.keepReleasesText()
	case op.Name == "test":
		return "stop the tests; the release is unchanged"
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
	return "keep existing objects: " + d.keptObjects(gone) + "; the release is marked failed"
}

// keptObjects counts the objects that the operation has applied, is applying, or has deleted. Any
// operation but an install found the others in the cluster.
func (d *Dialog) keptObjects(deleted int) string {
	applied, inFlight := d.appliedObjects(event.PhaseNamespace, event.PhaseCRDs, event.PhaseApply)
	if applied+inFlight+deleted == 0 { // but hooks may exist
		return "nothing changed yet"
	}
	var parts []string
	switch {
	case applied > 0 && d.installs():
		parts = append(parts, plural(applied, "1 object stays", "%d objects stay"))
	case applied > 0:
		parts = append(parts, text.Count(applied, "object")+" already applied")
	}
	if inFlight > 0 {
		parts = append(parts, plural(inFlight, "1 is being applied", "%d are being applied"))
	}
	if deleted > 0 {
		parts = append(parts, fmt.Sprintf("%d deleted", deleted))
	}
	if !d.installs() {
		parts = append(parts, "the others unchanged")
	}
	return strings.Join(parts, ", ")
}

// keepReleasesText counts the releases of a stack that stay deployed or uninstalled if the run stops here, and those that
// would be marked failed. A release that has not started a group has written nothing.
func (d *Dialog) keepReleasesText() string {
	deployed, gone, running := 0, 0, 0
	for _, n := range d.Graph.Nodes {
		switch n.Status {
		case event.Ready:
			deployed++
		case event.Gone:
			gone++
		case event.Running:
			if r := d.State.Scopes[n.ID]; r != nil && r.AnyGroupStarted() {
				running++
			}
		}
	}
	var parts []string
	if deployed > 0 || gone == 0 {
		parts = append(parts, plural(deployed, "1 release stays deployed", "%d releases stay deployed"))
	}
	if gone > 0 {
		parts = append(parts, plural(gone, "1 release is uninstalled", "%d releases are uninstalled"))
	}
	if running > 0 {
		parts = append(parts, plural(running, "1 unfinished release is marked failed", "%d unfinished releases are marked failed"))
	}
	return "keep existing objects: " + strings.Join(parts, "; ")
}

// rollbackText says what a rollback would do, or why it is disabled. A test has nothing to roll back.
func (d *Dialog) rollbackText() (what string, disabled bool) {
	op := d.State.Operation
	applied, inFlight := d.appliedObjects(event.PhaseApply)
	stays := ""
	if namespaces, _ := d.appliedObjects(event.PhaseNamespace); namespaces > 0 {
		stays = "; the namespace stays"
	}
	switch {
	case op.Name == "test":
		return "", true
	case d.RollingBack():
		return "cannot roll back: a rollback is already running", true
	case len(d.State.NoReturn) > 0 && op.UndoneBy() != "":
		return "roll back past the point of no return; asks for its reason: " + d.barrier(), false
	case op.IsStack() && op.UndoneBy() != "":
		return "roll back everything this run changed, in reverse", false
	case op.IsStack():
		return "cannot roll back: this run cannot be undone", true
	case op.Name == "upgrade" && op.UndoneBy() == "":
		return "cannot roll back: there is no earlier good revision", true
	case op.UndoneBy() == "":
		return "not available: to restore a revision, run " + text.Program + " rollback afterwards", true
	case op.UndoneBy() == "rollback":
		return fmt.Sprintf("roll back: to revision %d, in order", op.PreviousRevision), false
	case applied+inFlight == 0:
		return "roll back: uninstall the release" + stays, false
	}
	return "roll back: delete " + plural(applied+inFlight, "1 object", "the %d objects, in reverse order") + stays, false
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
	for _, c := range choices {
		wide = max(wide, canvas.Width(c.text)+12)
	}
	w := min(wide, d.W-4)
	var lines []canvas.Line
	for _, c := range choices {
		key, role := theme.Key, theme.Text
		if c.disabled {
			key, role = theme.Quiet, theme.Quiet
		}
		lines = append(lines, canvas.Labelled(canvas.Piece{Role: key, Text: cmp.Or(c.label, c.keys)}, 8, role, c.text, max(w-11, 8))...)
	}
	d.Canvas.Box(title, w, lines, theme.Stopped)
}
