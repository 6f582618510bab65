package event

import (
	"slices"
)

// Next returns the unit that a step without a name starts: the first of the current phase,
// in plan order, whose dependencies are ready (R41). It returns nil if there is none, or while a
// failure or an abort blocks new starts. In a stack it may be a paused release: the step then
// starts a group of that release, see NextInRelease.
func (s *State) Next() *GroupState {
	p := s.currentPhase()
	if p == nil || !s.Ended.IsZero() || s.Run == Held || s.Run == Replacing || s.Run == Aborting {
		return nil
	}
	if release := s.nextRelease(); release != nil {
		return release
	}
	var next *GroupState
	for _, g := range p.Groups {
		switch {
		case g.Status == Failed:
			return nil
		case next == nil && (g.Status == Waiting || g.Status == AtBreakpoint) && len(s.Unapproved(g)) == 0 && s.dependenciesReady(p, g):
			next = g
		}
	}
	return next
}

// Pause describes a paused run. The reason is "" once a step has started a group. next is the group
// that a step starts, or nil if there is none or the reason already names it.
func (s *State) Pause() (reason string, next *GroupState) {
	next = s.Next()
	if next != nil && next.Status == AtBreakpoint && s.RunMessage != "" { // the run paused before it
		next = nil
	}
	return s.RunMessage, next
}

// currentPhase returns the last phase that started or, if that has ended, the next one that has not ended.
func (s *State) currentPhase() *PhaseState {
	current := 0
	for n, p := range s.Phases {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return g.Status != Waiting }) {
			current = n
		}
	}
	for _, p := range s.Phases[current:] {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return !g.Status.Over() }) {
			return p
		}
	}
	return nil
}

func (s *State) dependenciesReady(p *PhaseState, g *GroupState) bool {
	for _, o := range g.Outside {
		if o.Status != Ready {
			return false
		}
	}
	return !slices.ContainsFunc(g.After, func(id string) bool {
		dependency := s.Find(p.Name, id)
		return dependency != nil && dependency.Status != Ready && dependency.Status != Applied && dependency.Status != Gone
	})
}

func (s *State) applyBreakpoint(e Event) {
	if s.Breakpoints == nil {
		s.Breakpoints = map[Unit]bool{}
	}
	if e.Status == Cleared {
		delete(s.Breakpoints, e.Unit())
	} else {
		s.Breakpoints[e.Unit()] = e.Status == Set
	}
}

// HasBreakpoint reports whether a unit has a breakpoint, enabled or not.
func (s *State) HasBreakpoint(u Unit) bool {
	_, ok := s.Breakpoints[u]
	_, old := s.Breakpoints[oldUnit(u)]
	return ok || old
}

// PausesBefore reports whether a unit has an enabled breakpoint.
func (s *State) PausesBefore(u Unit) bool {
	return s.Breakpoints[u] || s.Breakpoints[oldUnit(u)]
}

// oldUnit returns the unit as breakpoints in old records name it: without its phase.
func oldUnit(u Unit) Unit { return Unit{Group: u.Group} }
