package board

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
)

// commandNames are the commands as the screen calls them.
var commandNames = map[event.CommandName]string{
	event.Pause: "pause", event.Resume: "continue", event.Step: "step", event.RunTo: "run to", event.Break: "breakpoint", event.Disable: "disable", event.Edit: "edit",
	event.Accept: "accept", event.Retry: "retry", event.GiveUp: "give up", event.Abort: "abort", event.Rollback: "rollback", event.Stop: "stop",
}

// send gives an order to the run. What becomes of it, an event will tell.
func (m *model) send(c event.Command) tea.Cmd {
	if m.Over() {
		return m.say(theme.Quiet, "the operation is over")
	}
	m.opts.Command(c)
	return nil
}

func (m *model) pause() tea.Cmd {
	if m.State.Run == event.Paused {
		return m.send(event.Command{Name: event.Resume})
	}
	return m.send(event.Command{Name: event.Pause})
}

func (m *model) resume() tea.Cmd { return m.send(event.Command{Name: event.Resume}) }

// step lets the next unit go. Who steps wants to see what that does, and then what the
// next one would do.
func (m *model) step() tea.Cmd {
	m.follow = paused(m) || m.follow
	return m.send(event.Command{Name: event.Step})
}

func (m *model) toggleBreak() tea.Cmd {
	n := m.group()
	if n == nil {
		return m.say(theme.Quiet, "select a group first")
	}
	return m.send(event.Command{Name: event.Break, Phase: n.Phase, Group: n.ID})
}

// runTo goes on until the selected group could start.
func (m *model) runTo() tea.Cmd {
	n := m.group()
	if n == nil {
		return m.say(theme.Quiet, "select a group first")
	}
	return m.send(event.Command{Name: event.RunTo, Phase: n.Phase, Group: n.ID})
}

// stepSelected lets the selected group go.
func (m *model) stepSelected() tea.Cmd {
	n := m.group()
	if n == nil {
		return m.say(theme.Quiet, "select a group first")
	}
	m.follow = paused(m) || m.follow
	return m.send(event.Command{Name: event.Step, Phase: n.Phase, Group: n.ID})
}

func (m *model) accept() tea.Cmd { return m.send(m.aboutFailed(event.Accept)) }
func (m *model) retry() tea.Cmd  { return m.send(m.aboutFailed(event.Retry)) }

// aboutFailed is a command about the selected group where that has failed, else
// about all that have.
func (m *model) aboutFailed(name event.CommandName) event.Command {
	c := event.Command{Name: name}
	if n := m.group(); n != nil && n.Status == event.Failed {
		c.Phase, c.Group = n.Phase, n.ID
	}
	return c
}

// askGiveUp asks whether what failed is to be given up.
func (m *model) askGiveUp() tea.Cmd {
	if !held(m) {
		return m.say(theme.Quiet, "nothing that failed is held")
	}
	m.dialog = giveUpDialog
	return nil
}

// mayLeave reports whether leaving does not leave a run alone.
func (m *model) mayLeave() bool { return m.Over() || m.ReadOnly() || m.opts.Attached }

// quit leaves, or asks what is to become of the run.
func (m *model) quit() tea.Cmd {
	if !m.mayLeave() {
		return m.askAbort()
	}
	m.closeInspector()
	return tea.Quit
}

// askAbort opens the dialog; once all is over there is nothing to abort.
func (m *model) askAbort() tea.Cmd {
	if m.Over() || m.ReadOnly() {
		return m.quit()
	}
	m.dialog, m.pager, m.palette, m.breaks, m.asked = abortDialog, nil, nil, nil, m.RollingBack()
	if m.edit != nil {
		m.edit.shown = false
	}
	return nil
}

// escape closes what is open.
func (m *model) escape() tea.Cmd {
	switch {
	case m.searches():
		m.endSearch()
	case m.insp != nil:
		return m.shutInspector()
	case m.filter.on():
		m.clearFilter()
	}
	return nil
}

func (m *model) openFilter() tea.Cmd {
	m.typing = true
	m.closeInspector()
	m.show()
	return m.filter.input.Focus()
}

func (m *model) followAgain() tea.Cmd {
	m.follow = true
	m.chase()
	m.show()
	return nil
}
