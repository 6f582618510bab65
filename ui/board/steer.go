package board

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/inspector"
)

func (m *model) pauseOrResume() tea.Cmd {
	if m.State.Run == event.Paused {
		return m.sendCommand(event.Command{Name: event.Resume})
	}
	return m.sendCommand(event.Command{Name: event.Pause})
}

// command, groupCommand and failedCommand return actions that send a command: for the run, for
// the selected group, and for that group if it failed, else for all failed groups.
func (m *model) command(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return m.sendCommand(event.Command{Name: name}) }
}

func (m *model) groupCommand(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd {
		n := m.Group()
		return m.sendCommand(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
	}
}

func (m *model) failedCommand(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return m.sendCommand(m.FailedCommand(name)) }
}

// retry applies failed groups again. A stack keeps the plan that it has read.
func (m *model) retry() tea.Cmd {
	send := m.failedCommand(event.Retry)()
	if !m.inStack() || !m.Held() {
		return send
	}
	return tea.Batch(send, m.Say(theme.Quiet, "retrying with the plan that was read; to use a changed file, abort and run the command again"))
}

// awaitsApproval reports whether the run is paused because a group is not approved.
func (m *model) awaitsApproval() bool { return m.Steerable() && m.State.AwaitsApproval() != nil }

// unapproved reports whether a group waits for an approval now.
func unapproved(n *graph.Node) bool {
	return n != nil && n.Code == event.Unapproved && n.Status == event.AtBreakpoint
}

// approveHint says what O approves, if several groups wait for an approval.
func (m *model) approveHint() string {
	all := m.Graph.Select(unapproved)
	switch {
	case !m.awaitsApproval():
		return ""
	case len(all) > 1 && unapproved(m.Group()):
		return "approve " + m.Group().Name
	case len(all) > 1:
		return fmt.Sprintf("approve all %d", len(all))
	}
	return "approve"
}

// approve approves the selected group if it waits for an approval, else all that do.
func (m *model) approve() tea.Cmd {
	c := event.Command{Name: event.Approve}
	if n := m.Group(); unapproved(n) {
		c.Phase, c.Group = n.Phase, n.ID
	}
	return m.sendCommand(c)
}

// sendCommand sends a command. After a step the view follows the run again.
func (m *model) sendCommand(c event.Command) tea.Cmd {
	m.Follow = m.Follow || c.Name == event.Step && m.Paused()
	return m.Send(c)
}

// minNamedHint is the least width at which keys name the only failed group.
const minNamedHint = 120

// acceptHint is the hint of the key that accepts failures: of a release or group it looks again, a hook it counts as done (S11a).
func (m *model) acceptHint() string {
	if m.skips() {
		return m.failedHint("skip", "")
	}
	return m.failedHint("re-check", "")
}

// skips reports whether A skips a failed hook.
func (m *model) skips() bool {
	failing := m.Failing()
	return len(failing) > 0 && m.State.Operation.IsStack() && failing[0].Step != nil
}

// accept looks at failed groups again, or asks for the reason for which it skips failed hooks.
func (m *model) accept() tea.Cmd {
	if m.Held() && m.skips() {
		m.skip.Reset()
		return m.skip.Open()
	}
	return m.sendCommand(m.FailedCommand(event.Accept))
}

// skipHooks skips failed hooks for the reason that was typed.
func (m *model) skipHooks() tea.Cmd {
	c := m.FailedCommand(event.Accept)
	c.Reason = m.skip.Value()
	return m.sendCommand(c)
}

// failedHint says after a verb for failed groups which it acts on, and then a detail.
func (m *model) failedHint(verb, detail string) string {
	if !m.Held() {
		return ""
	}
	failing := m.Failing()
	if m.State.Operation.IsStack() {
		failing = slices.DeleteFunc(failing, func(n *graph.Node) bool { return n.Step == nil })
		failing = append(failing, m.Graph.Select(func(n *graph.Node) bool { return m.State.ReleaseRun(n.GroupState) == event.Held })...)
	}
	switch {
	case len(failing) == 0 || len(failing) == 1 && m.W < minNamedHint: // the state line names it
	case len(failing) == 1, m.FailedCommand(event.Retry).Group != "":
		verb += " " + failing[0].Name
	default:
		verb += fmt.Sprintf(" all %d", len(failing))
	}
	return verb + detail
}

// inTrouble reports whether the selection has a problem that logs and events may explain.
func (m *model) inTrouble() bool {
	n := m.Group()
	return n != nil && m.openRelease == nil && m.insp.Connected() && !m.insp.Shown && (n.Degraded > 0 || n.Status == event.Failed || m.hasCause())
}

// cause returns the board with the object in trouble: of a stack, that of the selected release, else this one.
func (m *model) cause() *model {
	if n := m.Group(); m.release != nil && n != nil {
		if release := m.release(n.ID); release != nil && release.inTrouble() {
			return release
		}
	}
	return m
}

// openCause returns an action that opens a tab about the object in trouble, or about the selection.
func (m *model) openCause(t inspector.Tab) func() tea.Cmd {
	return func() tea.Cmd {
		if m.cause() != m {
			return m.openRelease(m.Group().ID, t)
		}
		return m.insp.OpenTab(t)
	}
}

// hasCause reports whether the target is in progress, and a diagnosis says why.
func (m *model) hasCause() bool {
	o := m.insp.TargetObject()
	return o != nil && o.Status == event.InProgress && o.Cause != "" && !o.OnlyState
}

// quitHint is the footer's word for q.
func (m *model) quitHint() string {
	switch {
	case !m.CanQuit():
		return ""
	case m.Throwaway:
		return "quit, delete the cluster"
	case m.Home != "": // esc leads back there
		return ""
	}
	return "quit"
}

func (m *model) pauseHint() string {
	switch run, _ := m.RunStatus(); {
	case !m.Steerable() || m.awaitsApproval():
	case run == event.Running:
		return "pause"
	case run == event.Paused:
		return "resume"
	}
	return ""
}

// canStep reports whether the selected group can start now and is not already the next one.
func (m *model) canStep() bool {
	n := m.Group()
	return m.Paused() && m.State.Run == event.Paused && n != nil && len(m.State.Unapproved(n.GroupState)) == 0 && n.GroupState != m.Next && (n.Status == event.AtBreakpoint || n.Status == event.Waiting && m.Unblocked(n))
}

// canRunTo reports whether other groups must run before the selected one.
func (m *model) canRunTo() bool {
	n := m.Group()
	return m.Paused() && n != nil && n.Status == event.Waiting && !m.Unblocked(n)
}

func (m *model) breakHint() string {
	n := m.Group()
	switch {
	case n == nil || !m.Steerable() || m.State.Run == event.Aborting:
		return ""
	case m.BreakpointAhead(n):
		return "remove breakpoint"
	case n.Status == event.Waiting:
		return "breakpoint"
	}
	return ""
}

// restartMsg is the result of preparing a restart on a new throwaway cluster. The screen closes
// before a restart; the next run opens a new one.
type restartMsg struct{ err error }

// offersRestart reports whether the footer offers a restart. Its key works at any time.
func (m *model) offersRestart() bool {
	return m.restart != nil && (m.Over() || m.Held() || m.Paused())
}

// whyNotRestart says why the run can never be restarted, "" if it can.
func (m *model) whyNotRestart() string {
	if m.restart == nil {
		return "restarting needs a throwaway cluster (--sandbox)"
	}
	return ""
}

// prepareRestart loads the chart for a restart.
func (m *model) prepareRestart() tea.Cmd {
	ctx, restart := m.ctx, m.restart
	return tea.Batch(m.Say(theme.Quiet, "loading the chart"), func() tea.Msg { return restartMsg{restart(ctx)} })
}

// restartOrStop quits the screen for a restart. A run that is not over is stopped first.
func (m *model) restartOrStop(prepared restartMsg) tea.Cmd {
	switch {
	case prepared.err != nil:
		return m.Say(theme.Bad, "cannot restart: "+prepared.err.Error())
	case m.Over():
		return tea.Quit
	}
	m.QuitAtEnd = true
	return m.Send(event.Command{Name: event.Stop, Reason: "restarted", KnowsRollback: true})
}
