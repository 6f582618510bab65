package event

import "lockstep/engine/text"

// RunStatus returns the status of the run, and the reason. A stack is Held while one of its releases
// is, although the stack's own run is only paused.
func (s *State) RunStatus() (status Status, message string) {
	if g := s.HeldRelease(); g != nil {
		return Held, g.ID + ": " + s.Scopes[g.ID].RunMessage
	}
	return s.Run, s.RunMessage
}

// HeldRelease returns the first release of a stack that is held, nil if there is none or the stack is ending.
func (s *State) HeldRelease() *GroupState {
	if len(s.Scopes) > 0 && (s.Run == Paused || s.Run == Running) {
		for g := range s.GroupStates() {
			if s.ReleaseRun(g) == Held {
				return g
			}
		}
	}
	return nil
}

// UnapprovedRelease returns the first release of a stack that is paused because one of its groups is not approved, or nil.
func (s *State) UnapprovedRelease() *GroupState {
	for g := range s.GroupStates() {
		if s.ReleaseRun(g) == Paused && s.Scopes[g.ID].AwaitsApproval() != nil {
			return g
		}
	}
	return nil
}

// ReleaseRun returns the status of the run of a stack's release if that is Paused or Held, else "".
func (s *State) ReleaseRun(g *GroupState) Status {
	r := s.Scopes[g.ID]
	if r == nil || g.Status != Running || !r.Ended.IsZero() || r.Run != Paused && r.Run != Held {
		return ""
	}
	return r.Run
}

// NextInRelease returns the group that a step starts in a stack's paused release, or nil.
func (s *State) NextInRelease(g *GroupState) *GroupState {
	if g == nil || s.ReleaseRun(g) != Paused {
		return nil
	}
	return s.Scopes[g.ID].Next()
}

// nextRelease returns the paused release of a stack in which a step starts a group, or nil if a step starts the next
// release instead. If several are paused, it returns the one that started first.
func (s *State) nextRelease() (first *GroupState) {
	if len(s.Scopes) == 0 {
		return nil
	}
	for g := range s.GroupStates() {
		if s.NextInRelease(g) != nil && (first == nil || s.Scopes[g.ID].Started.Before(s.Scopes[first.ID].Started)) {
			first = g
		}
	}
	return first
}

// ReleaseRequests counts the requests in flight of a stack's running releases.
func (s *State) ReleaseRequests() (n int) {
	for _, r := range s.Scopes {
		if !r.Ended.IsZero() {
			continue
		}
		for g := range r.GroupStates() {
			for _, o := range g.Objects {
				if g.Status == Running && (o.Status == Applying || o.Status == Deleting) {
					n++
				}
			}
		}
	}
	return n
}

// InProgress names the groups that run, in a stack those of its releases: "a:one and 2 more groups in progress". It returns ""
// if none does. A paused run may still have some: they finish.
func (s *State) InProgress() string {
	names := s.runningGroups()
	switch len(names) {
	case 0:
		return ""
	case 1, 2:
		return text.JoinAnd(names) + " in progress"
	}
	return names[0] + " and " + text.Count(len(names)-1, "more group") + " in progress"
}

func (s *State) runningGroups() (ids []string) {
	for g := range s.GroupStates() {
		switch release := s.Scopes[g.ID]; {
		case g.Status != Running:
		case release != nil:
			ids = append(ids, release.runningGroups()...)
		default:
			ids = append(ids, g.ID)
		}
	}
	return ids
}
