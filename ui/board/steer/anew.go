package steer

import (
	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
)

// On a cluster that is thrown away anyway a chart can be started anew: edit, run, see,
// again. The screen is left for that, and comes back with the next run.

// anewMsg tells whether the chart can be started anew.
type anewMsg struct{ err error }

// MayStartAnew reports whether the chart can be started anew now.
func (s *Steer) MayStartAnew() bool {
	return s.prepare != nil && (s.Over() || s.Held() || s.Paused())
}

// WhyNotAnew says why it never can be, "" where it can.
func (s *Steer) WhyNotAnew() string {
	if s.prepare == nil {
		return "a chart is started anew only on a cluster of its own: --sandbox"
	}
	return ""
}

// StartAnew asks for it. What is under way is stopped.
func (s *Steer) StartAnew() tea.Cmd {
	ctx, anew := s.ctx, s.prepare
	return tea.Batch(s.Say(theme.Quiet, "loading the chart"), func() tea.Msg { return anewMsg{anew(ctx)} })
}

// Update leaves, once the run is over.
func (s *Steer) Update(msg tea.Msg) tea.Cmd {
	prepared, ok := msg.(anewMsg)
	switch {
	case !ok:
		return nil
	case prepared.err != nil:
		return s.Say(theme.Bad, "not started anew: "+prepared.err.Error())
	case s.Over():
		return tea.Quit
	}
	s.QuitAtEnd = true
	return s.Send(event.Command{Name: event.Stop, Reason: "started anew", Told: true})
}
