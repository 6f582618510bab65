package board

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
)

// On a cluster that is thrown away anyway a chart can be started anew: edit, run, see,
// again. The screen is left for that, and comes back with the next run.

// anewMsg tells whether the chart can be started anew.
type anewMsg struct{ err error }

func mayStartAnew(m *model) bool {
	return m.opts.Anew != nil && (m.Over() || held(m) || paused(m))
}

// startAnew asks for it. What is under way is stopped.
func (m *model) startAnew() tea.Cmd {
	if m.opts.Anew == nil {
		return m.say(theme.Quiet, "a chart is started anew only on a cluster of its own: --sandbox")
	}
	ctx, anew := m.ctx, m.opts.Anew
	return tea.Batch(m.say(theme.Quiet, "loading the chart"), func() tea.Msg { return anewMsg{anew(ctx)} })
}

// startsAnew leaves, once the run is over.
func (m *model) startsAnew(msg anewMsg) tea.Cmd {
	m.stale = true
	switch {
	case msg.err != nil:
		return m.say(theme.Bad, "not started anew: "+msg.err.Error())
	case m.Over():
		return m.quit()
	}
	m.leaving = true
	return m.send(event.Command{Name: event.Stop, Reason: "started anew", Told: true})
}
