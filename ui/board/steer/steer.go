// Package steer gives the run the orders that keys stand for. Its one type is Steer.
package steer

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/screen"
)

// Steer gives orders to the run.
type Steer struct {
	*screen.Screen
	ctx context.Context
	// prepare makes the chart ready to be started anew. Nil: it cannot be.
	prepare func(context.Context) error
}

// New steers the run of a screen, which may be started anew once anew has prepared that.
func New(ctx context.Context, s *screen.Screen, anew func(context.Context) error) *Steer {
	return &Steer{Screen: s, ctx: ctx, prepare: anew}
}

func (s *Steer) Pause() tea.Cmd {
	if s.State.Run == event.Paused {
		return s.Send(event.Command{Name: event.Resume})
	}
	return s.Send(event.Command{Name: event.Pause})
}

func (s *Steer) Resume() tea.Cmd { return s.Send(event.Command{Name: event.Resume}) }

// Step lets the next unit go. Who steps wants to see what that does, and then what the
// next one would do.
func (s *Steer) Step() tea.Cmd {
	s.Follow = s.Paused() || s.Follow
	return s.Send(event.Command{Name: event.Step})
}

func (s *Steer) ToggleBreak() tea.Cmd {
	n := s.Group()
	return s.Send(event.Command{Name: event.Break, Phase: n.Phase, Group: n.ID})
}

// RunTo goes on until the selected group could start.
func (s *Steer) RunTo() tea.Cmd {
	n := s.Group()
	return s.Send(event.Command{Name: event.RunTo, Phase: n.Phase, Group: n.ID})
}

// StepSelected lets the selected group go.
func (s *Steer) StepSelected() tea.Cmd {
	n := s.Group()
	s.Follow = s.Paused() || s.Follow
	return s.Send(event.Command{Name: event.Step, Phase: n.Phase, Group: n.ID})
}

func (s *Steer) Accept() tea.Cmd { return s.Send(s.AboutFailed(event.Accept)) }
func (s *Steer) Retry() tea.Cmd  { return s.Send(s.AboutFailed(event.Retry)) }

// PauseHint is the word for p.
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

// MayStep reports whether the selected group could be let go by itself.
func (s *Steer) MayStep() bool {
	n := s.Group()
	return s.Paused() && n != nil && n.GroupState != s.Next && (n.Status == event.Held || n.Status == event.Waiting && s.Ready(n))
}

// MayRunTo reports whether the selected group is one that others come before.
func (s *Steer) MayRunTo() bool {
	n := s.Group()
	return s.Paused() && n != nil && n.Status == event.Waiting && !s.Ready(n)
}

// BreakHint is the word for b.
func (s *Steer) BreakHint() string {
	n := s.Group()
	switch {
	case n == nil || !s.Steerable() || s.State.Run == event.Aborting:
		return ""
	case s.State.Breaks(n.Unit()) && !n.Status.Over() && n.Status != event.Running:
		return "clear breakpoint"
	case n.Status == event.Waiting:
		return "breakpoint"
	}
	return ""
}
