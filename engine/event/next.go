package event

import "slices"

// Next returns the unit that a step without a name starts: the first in plan order of the current
// phase whose gates are open (R41). It is nil if there is none, and while a failure or an
// abort lets nothing start.
func (s *State) Next() *GroupState {
	p := s.present()
	if p == nil || !s.Ended.IsZero() || s.Run == Held || s.Run == Replacing || s.Run == Aborting {
		return nil
	}
	var next *GroupState
	for _, g := range p.Groups {
		switch {
		case g.Status == Failed:
			return nil
		case next == nil && (g.Status == Waiting || g.Status == Held) && s.open(p, g):
			next = g
		}
	}
	return next
}

// present returns the current phase: the last one that started, or the next if that is over.
func (s *State) present() *PhaseState {
	begun := 0
	for n, p := range s.Phases {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return g.Status != Waiting }) {
			begun = n
		}
	}
	for _, p := range s.Phases[min(begun, len(s.Phases)):] {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return !g.Status.Over() }) {
			return p
		}
	}
	return nil
}

// open reports whether all that a group waits for is there.
func (s *State) open(p *PhaseState, g *GroupState) bool {
	return !slices.ContainsFunc(g.After, func(id string) bool {
		gate := s.Find(p.Name, id)
		return gate != nil && gate.Status != Ready && gate.Status != Applied && gate.Status != Gone
	})
}
