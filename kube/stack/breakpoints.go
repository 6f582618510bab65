package stack

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// assignBreakpoints passes the breakpoints that name a group of a specific release to the
// operation of that release.
func (s *Stack) assignBreakpoints() {
	for _, text := range s.opts.Common.BreakOn {
		if m, group := s.splitScope(text); m != nil && group != "" && s.stepOf(text) == nil {
			m.breakOn = append(m.breakOn, group)
		}
	}
}

// splitScope parses RELEASE, RELEASE/GROUP or RELEASE:GROUP. RELEASE is an ID, or a name that only one release has. m is
// nil if text does not begin with a release.
func (s *Stack) splitScope(text string) (m *member, group string) {
	longest := -1
	for _, candidate := range s.members {
		for _, name := range []string{candidate.id, candidate.Name} {
			if name == candidate.Name && s.ambiguous(name) {
				continue
			}
			rest, ok := strings.CutPrefix(text, name)
			if ok && len(name) > longest && (rest == "" || rest[0] == '/' || rest[0] == ':') {
				m, group, longest = candidate, strings.TrimLeft(rest, "/:"), len(name)
			}
		}
	}
	return m, group
}

func (s *Stack) ambiguous(name string) bool {
	n := 0
	for _, m := range s.members {
		if m.Name == name {
			n++
		}
	}
	return n > 1
}

// resolveBreakpoints sets each breakpoint that names no release on the matching groups of all releases. In the next pod of a
// Job, the releases that have them may be done.
func (s *Stack) resolveBreakpoints() error {
	for _, named := range s.opts.Common.BreakOn {
		if m, _ := s.splitScope(named); m != nil || s.stepOf(named) != nil {
			continue
		}
		found := false
		for _, m := range s.members {
			if m.op == nil {
				continue
			}
			for _, id := range m.op.FindGroups(named) {
				found = found || !m.unchanged // which a new plan may change
				if !m.restored {
					m.breakpoints[id] = event.Set
				}
			}
		}
		if !found && !s.begunEarlier() {
			return fmt.Errorf("--break-on %s: no such release, and no such group in a release that changes; "+
				"list both with: "+text.Program+" plan -f %s", named, s.opts.File.Path)
		}
	}
	return nil
}

// releaseBreakpoints returns the IDs of the releases that are breakpoints themselves. Where somebody watches, the run asks
// there before it prunes.
func (s *Stack) releaseBreakpoints() (ids []string) {
	for _, text := range s.opts.Common.BreakOn {
		if st := s.stepOf(text); st != nil {
			ids = append(ids, st.id)
		} else if m, group := s.splitScope(text); m != nil && group == "" {
			ids = append(ids, m.id)
		}
	}
	if s.opts.ConfirmPrune {
		ids = append(ids, s.prunedFirst()...)
	}
	return ids
}

// setBreakpoint sets, disables or clears a breakpoint on a group of a release that has not started.
func (s *Stack) setBreakpoint(m *member, c event.Command) {
	s.mu.Lock()
	if m.started { // since sendToRelease checked
		s.mu.Unlock()
		s.sendToRelease(c)
		return
	}
	before, status := m.breakpoints[c.Group], event.Set
	switch {
	case c.Name == event.Disable && (before == "" || before == event.Cleared):
		s.mu.Unlock()
		s.refuse(c, c.Group+" has no breakpoint; set one first")
		return
	case c.Name == event.Disable && before == event.Set:
		status = event.Disabled
	case c.Name == event.Break && before != "" && before != event.Cleared:
		status = event.Cleared
	}
	m.breakpoints[c.Group] = status
	s.mu.Unlock()
	err := s.keepBreakpoints(m)
	switch why := "the breakpoint cannot be kept for the pod that may replace this one"; {
	case err == nil:
	case c.ID == event.InternalID:
		s.engine.Publish(event.Event{Kind: event.KindWarning, Scope: m.id, Rule: "S13", Message: fmt.Sprintf("%s: %s: %v", c.Group, why, err)})
	default:
		s.mu.Lock()
		m.breakpoints[c.Group] = before
		s.mu.Unlock()
		s.refuse(c, why+": "+err.Error())
		return
	}
	s.reply(c, event.Event{Status: event.Accepted})
	s.engine.Publish(event.Event{Kind: event.KindBreakpoint, Scope: m.id, Phase: s.groupPhase(m, c.Group), Group: c.Group, Status: status})
	if c.Accepted != nil {
		c.Accepted()
	}
	if c.Name == event.RunTo {
		s.broadcast(event.Command{Name: event.Resume, By: c.By, ID: event.InternalID})
	}
}

// groupPhase returns the phase of a group in a release, "" if there is no such group.
func (s *Stack) groupPhase(m *member, group string) string {
	for g := range event.Groups(s.operation(m).Phases()) {
		if g.ID == group {
			return g.Phase.Name
		}
	}
	return ""
}
