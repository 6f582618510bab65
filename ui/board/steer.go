package board

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
)

func (m *model) pauseOrResume() tea.Cmd {
	if m.State.Run == event.Paused {
		return m.sendOrder(event.Command{Name: event.Resume})
	}
	return m.sendOrder(event.Command{Name: event.Pause})
}

// order returns the action of a key that sends a command: order about the run, orderGroup
// about the selected group, orderFailed about that or all failed groups.
func (m *model) order(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return m.sendOrder(event.Command{Name: name}) }
}

func (m *model) orderGroup(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd {
		n := m.Group()
		return m.sendOrder(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
	}
}

func (m *model) orderFailed(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return m.sendOrder(m.FailedCommand(name)) }
}

// sendOrder sends a command. A step makes the view follow the run again.
func (m *model) sendOrder(c event.Command) tea.Cmd {
	m.Follow = m.Follow || c.Name == event.Step && m.Paused()
	return m.Send(c)
}

func (m *model) pauseHint() string {
	switch run, _ := m.RunStatus(); {
	case !m.Steerable():
	case run == event.Running:
		return "pause"
	case run == event.Paused:
		return "resume"
	}
	return ""
}

// mayStep reports whether the selected group, other than the next, can start now.
func (m *model) mayStep() bool {
	n := m.Group()
	return m.Paused() && m.State.Run == event.Paused && n != nil && n.GroupState != m.Next && (n.Status == event.AtBreakpoint || n.Status == event.Waiting && m.Ready(n))
}

// mayRunTo reports whether other groups must run before the selected one.
func (m *model) mayRunTo() bool {
	n := m.Group()
	return m.Paused() && n != nil && n.Status == event.Waiting && !m.Ready(n)
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

// With a throwaway cluster a chart can be restarted: edit, run, look, repeat. The screen
// closes for that and opens again with the next run.

// restartMsg reports whether the chart can be restarted.
type restartMsg struct{ err error }

// mayRestart reports whether the chart can be restarted now.
func (m *model) mayRestart() bool {
	return m.restart != nil && (m.Over() || m.Held() || m.Paused())
}

// whyNotRestart returns why it can never be restarted, or "".
func (m *model) whyNotRestart() string {
	if m.restart == nil {
		return "restarting needs a throwaway cluster: --sandbox"
	}
	return ""
}

// requestRestart requests a restart and stops the run.
func (m *model) requestRestart() tea.Cmd {
	ctx, restart := m.ctx, m.restart
	return tea.Batch(m.Say(theme.Quiet, "loading the chart"), func() tea.Msg { return restartMsg{restart(ctx)} })
}

// restartOrStop quits the screen once the run is over.
func (m *model) restartOrStop(prepared restartMsg) tea.Cmd {
	switch {
	case prepared.err != nil:
		return m.Say(theme.Bad, "not restarted: "+prepared.err.Error())
	case m.Over():
		return tea.Quit
	}
	m.QuitAtEnd = true
	return m.Send(event.Command{Name: event.Stop, Reason: "restarted", KnowsRollback: true})
}
