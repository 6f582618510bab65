// Package steer sends the run the commands of the keys. Its one type is Steer.
package steer

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/screen"
)

// Steer sends commands to the run.
type Steer struct {
	*screen.Screen
	ctx     context.Context
	prepare func(context.Context) error // prepares a restart; nil: not possible
}

// New steers the run of a screen; restart prepares a restart and may be nil.
func New(ctx context.Context, s *screen.Screen, restart func(context.Context) error) *Steer {
	return &Steer{Screen: s, ctx: ctx, prepare: restart}
}

// Pause pauses the run, or resumes it.
func (s *Steer) Pause() tea.Cmd {
	if s.State.Run == event.Paused {
		return s.send(event.Command{Name: event.Resume})
	}
	return s.send(event.Command{Name: event.Pause})
}

// Order returns the action of a key that sends a command: Order about the run, OrderGroup
// about the selected group, OrderFailed about that or all failed groups.
func (s *Steer) Order(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return s.send(event.Command{Name: name}) }
}

func (s *Steer) OrderGroup(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd {
		n := s.Group()
		return s.send(event.Command{Name: name, Phase: n.Phase, Group: n.ID})
	}
}

func (s *Steer) OrderFailed(name event.CommandName) func() tea.Cmd {
	return func() tea.Cmd { return s.send(s.FailedCommand(name)) }
}

// send sends a command. A step makes the view follow the run again.
func (s *Steer) send(c event.Command) tea.Cmd {
	s.Follow = s.Follow || c.Name == event.Step && s.Paused()
	return s.Send(c)
}

// PauseHint returns the word for p.
func (s *Steer) PauseHint() string {
	switch {
	case !s.Steerable():
	case s.State.Run == event.Running:
		return "pause"
	case s.State.Run == event.Paused:
		return "resume"
	}
	return ""
}

// MayStep reports whether the selected group, other than the next, can start now.
func (s *Steer) MayStep() bool {
	n := s.Group()
	return s.Paused() && n != nil && n.GroupState != s.Next && (n.Status == event.Held || n.Status == event.Waiting && s.Ready(n))
}

// MayRunTo reports whether other groups must run before the selected one.
func (s *Steer) MayRunTo() bool {
	n := s.Group()
	return s.Paused() && n != nil && n.Status == event.Waiting && !s.Ready(n)
}

// BreakHint returns the word for b.
func (s *Steer) BreakHint() string {
	n := s.Group()
	switch {
	case n == nil || !s.Steerable() || s.State.Run == event.Aborting:
		return ""
	case s.State.HasBreakpoint(n.Unit()) && !n.Status.Over() && n.Status != event.Running:
		return "clear breakpoint"
	case n.Status == event.Waiting:
		return "breakpoint"
	}
	return ""
}

// With a throwaway cluster a chart can be restarted: edit, run, look, repeat. The screen
// closes for that and opens again with the next run.

// restartMsg reports whether the chart can be restarted.
type restartMsg struct{ err error }

// MayRestart reports whether the chart can be restarted now.
func (s *Steer) MayRestart() bool {
	return s.prepare != nil && (s.Over() || s.Held() || s.Paused())
}

// WhyNotRestart returns why it can never be restarted, or "".
func (s *Steer) WhyNotRestart() string {
	if s.prepare == nil {
		return "restarting needs a throwaway cluster: --sandbox"
	}
	return ""
}

// Restart requests a restart and stops the run.
func (s *Steer) Restart() tea.Cmd {
	ctx, restart := s.ctx, s.prepare
	return tea.Batch(s.Say(theme.Quiet, "loading the chart"), func() tea.Msg { return restartMsg{restart(ctx)} })
}

// Update quits the screen once the run is over.
func (s *Steer) Update(msg tea.Msg) tea.Cmd {
	prepared, ok := msg.(restartMsg)
	switch {
	case !ok:
		return nil
	case prepared.err != nil:
		return s.Say(theme.Bad, "not restarted: "+prepared.err.Error())
	case s.Over():
		return tea.Quit
	}
	s.QuitAtEnd = true
	return s.Send(event.Command{Name: event.Stop, Reason: "restarted", KnowsRollback: true})
}
