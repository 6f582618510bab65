package stack

import (
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/kube/operation"
)

// Rule S6: commands are about the whole. A pause pauses the start of releases and the
// running ones; a breakpoint or a held failure in one release pauses the others.
//
// Command sends a command to the run, or keeps it for the start of the run.
func (s *Stack) Command(c event.Command) {
	s.mu.Lock()
	if s.engine == nil {
		s.early = append(s.early, c)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if c.Scope == "" && c.Group != "" && s.by[c.Group] == nil {
		if m, group := s.scoped(c.Group); m != nil {
			c.Scope, c.Group = m.id, group
		}
	}
	switch {
	case c.Scope != "" && c.Group != "":
		s.inRelease(c)
	case c.Name == event.Edit:
		s.refuse(c, "a stack cannot be edited: change the file and run it again")
	case c.Name == event.Step:
		s.stepOne(c)
	case c.Name == event.Accept || c.Name == event.Retry || c.Name == event.GiveUp:
		s.decide(c)
	default:
		s.toAll(c)
	}
}

// refuse answers a command that is not carried out.
func (s *Stack) refuse(c event.Command, why string) {
	s.engine.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, Scope: "", By: c.By, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Refused, Message: why})
}

// running are the releases whose operations run.
func (s *Stack) running() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.active)
}

// toAll sends a command to the engine of the stack and to all running releases. The stack's
// answer counts.
func (s *Stack) toAll(c event.Command) {
	whole := c.Group == "" && c.Scope == ""
	if whole && (c.Name == event.Resume || c.Name == event.RunTo) {
		s.mu.Lock()
		held := s.holder
		s.holder = nil
		s.mu.Unlock()
		if held != nil && held.runStatus(s) == event.Held && c.Name == event.Resume {
			s.refuse(c, "a failure is held in "+held.id+": re-check it, retry it, stop here, or abort")
			s.mu.Lock()
			s.holder = held
			s.mu.Unlock()
			return
		}
	}
	s.engine.Command(c)
	if !whole {
		return
	}
	c.ID = ""
	for _, m := range s.running() {
		m.op.Command(c)
	}
}

// inRelease sends a command about a group to its release.
func (s *Stack) inRelease(c event.Command) {
	m := s.by[c.Scope]
	if m == nil {
		s.refuse(c, fmt.Sprintf("no release %q", c.Scope))
		return
	}
	inner := c
	inner.Scope = ""
	if slices.Contains(s.running(), m) {
		if c.Name == event.RunTo {
			m.op.Command(inner)
			s.toAll(event.Command{Name: event.Resume, By: c.By})
			return
		}
		m.op.Command(inner)
		return
	}
	switch {
	case c.Name != event.Break && c.Name != event.RunTo:
		s.refuse(c, fmt.Sprintf("release %s is not running", m.id))
	case m.ran || m.op == nil || m.unchanged:
		s.refuse(c, fmt.Sprintf("release %s will not start", m.id))
	default:
		m.op.Command(inner) // kept for its start
		s.engine.Publish(event.Event{Kind: event.KindCommand, Command: c.Name, By: c.By, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Accepted})
		s.engine.Publish(event.Event{Kind: event.KindBreakpoint, Scope: m.id, Phase: c.Phase, Group: c.Group, Status: event.Set})
	}
}

// stepOne lets exactly one group go: the next of a release that runs, else the next release
// starts with its first group.
func (s *Stack) stepOne(c event.Command) {
	for _, m := range s.running() {
		s.mu.Lock()
		next := m.state.Next()
		s.mu.Unlock()
		if next != nil && m.runStatus(s) == event.Paused {
			m.op.Command(c)
			return
		}
	}
	s.mu.Lock()
	s.step = true
	s.mu.Unlock()
	s.engine.Command(c)
}

// decide sends a decision about failures to the releases that are held.
func (s *Stack) decide(c event.Command) {
	found := false
	for _, m := range s.running() {
		if m.runStatus(s) == event.Held && (c.Scope == "" || c.Scope == m.id) {
			inner := c
			inner.Scope = ""
			if found {
				inner.ID = ""
			}
			found = true
			m.op.Command(inner)
		}
	}
	if !found {
		s.refuse(c, "no failure is held")
	}
}

func (m *member) runStatus(s *Stack) event.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.state.Run
}

// enter notes that the operation of a release starts. It starts paused while the run is.
func (s *Stack) enter(m *member, op *operation.Operation) {
	s.mu.Lock()
	m.op, m.ran, m.result, m.state = op, true, nil, event.State{}
	s.active = append(s.active, m)
	paused, step := s.state.Run == event.Paused, s.step
	s.step = false
	s.mu.Unlock()
	if paused {
		op.Command(event.Command{Name: event.Pause, Reason: "the stack is paused"})
		if step {
			op.Command(event.Command{Name: event.Step})
		}
	}
}

// exit notes that the operation of a release is over.
func (s *Stack) exit(m *member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.result = err
	s.active = slices.DeleteFunc(s.active, func(other *member) bool { return other == m })
	if s.holder == m {
		s.holder = nil
	}
}

// follow pauses the whole run where one release has come to a breakpoint or a failure that
// is held, and lets it continue once the failure is decided on.
func (s *Stack) follow(m *member, e event.Event) {
	s.mu.Lock()
	whole, holder := s.state.Run, s.holder
	s.mu.Unlock()
	switch {
	case (e.Status == event.Paused || e.Status == event.Held) && whole == event.Running:
		s.mu.Lock()
		s.holder = m
		s.mu.Unlock()
		pause := event.Command{Name: event.Pause, Reason: m.id + ": " + e.Message}
		s.engine.Command(pause)
		for _, other := range s.running() {
			if other != m {
				other.op.Command(pause)
			}
		}
	case e.Status == event.Running && holder == m:
		s.mu.Lock()
		s.holder = nil
		s.mu.Unlock()
		s.engine.Command(event.Command{Name: event.Resume})
		for _, other := range s.running() {
			if other != m {
				other.op.Command(event.Command{Name: event.Resume})
			}
		}
	}
}
