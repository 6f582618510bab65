package stack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube/operation"
)

// Command sends a command to the run, or queues it until the run starts.
//
// Rule S6: commands apply to the whole stack. A pause also pauses running releases; a breakpoint or
// a held failure in one release pauses the others. If a command is for several groups, the answer to the first is that to all.
func (s *Stack) Command(c event.Command) {
	s.mu.Lock()
	if s.engine == nil {
		s.queued = append(s.queued, c)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	commands := []event.Command{c}
	if c.Group != "" && c.Scope == "" {
		if commands = s.resolve(c); commands == nil {
			return
		}
	}
	first, others := commands[0], commands[1:]
	if len(others) > 0 {
		first.Accepted = func() {
			for _, c := range others {
				c.ID = event.InternalID
				s.send(c)
			}
		}
	}
	s.send(first)
}

// send sends a command to the engine that it is for.
func (s *Stack) send(c event.Command) {
	switch {
	case c.Scope != "" && c.Group != "":
		s.sendToRelease(c)
	case c.Name == event.Edit:
		s.refuse(c, "a stack cannot be edited: change the file and run the command again")
	case c.Name == event.Step && c.Group == "":
		s.stepOne(c)
	case c.Name == event.Approve && c.Group == "":
		s.sendApproval(c)
	case c.Name == event.Accept || c.Name == event.Retry || c.Name == event.GiveUp:
		s.sendDecision(c)
	default:
		s.broadcast(c)
	}
}

// resolve returns one command per release or group that c names. It refuses c and returns nil if it finds none, or
// several for a command that needs exactly one.
func (s *Stack) resolve(c event.Command) (commands []event.Command) {
	if m, group := s.splitScope(c.Group); m != nil && group == "" && c.Name == event.Approve {
		s.mu.Lock()
		commands = waitingIn(m, c)
		s.mu.Unlock()
		if commands != nil {
			return commands
		}
	}
	if s.byID[c.Group] != nil {
		return []event.Command{c}
	}
	if st := s.stepOf(c.Group); st != nil {
		c.Group = st.id
		return []event.Command{c}
	}
	text, members := c.Group, s.members
	if m, group := s.splitScope(text); m != nil {
		if group == "" {
			c.Group = m.id
			return []event.Command{c}
		}
		text, members = group, []*member{m}
	}
	multiple := c.Name == event.Break || c.Name == event.Disable
	var begun []event.Command
	for _, m := range members {
		op := s.operation(m)
		if op == nil || s.isUnchanged(m) {
			continue
		}
		for _, id := range op.FindGroups(text) {
			one := c
			one.Scope, one.Group = m.id, id
			if multiple && s.begun(m, id) {
				begun = append(begun, one)
			} else {
				commands = append(commands, one)
			}
		}
	}
	if len(commands) == 0 {
		commands = begun
	}
	switch {
	case len(commands) == 0:
		s.refuse(c, fmt.Sprintf("no release or group is named %q", c.Group))
	case len(commands) > 1 && !multiple:
		s.refuse(c, fmt.Sprintf("%d groups match %q: add the release, as in %s/%s", len(commands), c.Group, commands[0].Scope, commands[0].Group))
		return nil
	}
	return commands
}

// begun reports whether a group of a release has started.
func (s *Stack) begun(m *member, group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := false
	for g := range m.state.GroupStates() {
		begun = begun || g.ID == group
		if g.ID == group && (g.Status == event.Waiting || g.Status == event.AtBreakpoint) {
			return false
		}
	}
	return begun
}

func (s *Stack) refuse(c event.Command, why string) {
	s.reply(c, event.Event{Status: event.Refused, Message: why})
}

// reply publishes the reply to a command that the stack handles without its engine.
func (s *Stack) reply(c event.Command, e event.Event) {
	e.Kind, e.Command, e.By, e.Answers, e.Phase, e.Group = event.KindCommand, c.Name, c.By, c.ID, c.Phase, c.Group
	s.engine.Publish(e)
}

// operation returns the operation of a release that gets its commands, nil if there is nothing to do. While the stack runs,
// it may be a check or a rollback.
func (s *Stack) operation(m *member) *operation.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(m.current, m.op)
}

// plannedOperation returns the operation that deploys or removes a release, nil if there is nothing to do. While the stack
// runs, a new plan may replace it.
func (s *Stack) plannedOperation(m *member) *operation.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.op
}

func (s *Stack) running() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.active)
}

// broadcast sends a command to the stack's engine and, once that has accepted it, to every running release unless it is about
// a group of the stack. A run-to resumes the running releases. It refuses to resume while a release holds a failure.
func (s *Stack) broadcast(c event.Command) {
	s.mu.Lock()
	pausedBy := s.pausedBy
	held := c.Name == event.Resume && pausedBy != nil && pausedBy.state.Run == event.Held && s.state.Run != event.Held
	s.mu.Unlock()
	if held {
		hold := event.Hold{Release: pausedBy.id, Commands: []event.CommandName{event.Retry, event.Accept, event.GiveUp, event.Abort}}
		s.reply(c, event.Event{Status: event.Refused, Message: phrase.Hold(hold, nil), Hold: &hold})
		return
	}
	if why := s.approveFirst(); c.Name == event.Resume && why != "" {
		s.refuse(c, why)
		return
	}
	inner := c
	inner.ID, inner.Group, inner.Phase = event.InternalID, "", ""
	if c.Name == event.RunTo {
		inner.Name = event.Resume
	}
	if c.Group == "" && c.Scope == "" || c.Name == event.RunTo {
		c.Accepted = func() {
			s.mu.Lock()
			if inner.Name == event.Resume && s.pausedBy == pausedBy {
				s.pausedBy = nil
			}
			if e := s.state.Run; inner.Name == event.Rollback && e == event.Aborting && s.state.RunOrigin != nil && s.state.RunOrigin.Command == event.Abort {
				inner.Name = event.Abort // past a point of no return
			}
			s.mu.Unlock()
			s.sendToRunning(inner, nil)
		}
	}
	s.engine.Command(c)
}

// sendToRunning sends a command to all running releases except one, which may be nil.
func (s *Stack) sendToRunning(c event.Command, except *member) {
	for _, m := range s.running() {
		if m != except {
			s.operation(m).Command(c)
		}
	}
}

// sendToRelease sends a command for a group to its release.
func (s *Stack) sendToRelease(c event.Command) {
	m := s.byID[c.Scope]
	if m == nil {
		s.refuse(c, fmt.Sprintf("the stack has no release %q", c.Scope))
		return
	}
	s.mu.Lock()
	running, started, op := slices.Contains(s.active, m), m.started, cmp.Or(m.current, m.op)
	s.mu.Unlock()
	if running {
		inner := c
		inner.Scope = ""
		if c.Name == event.RunTo {
			inner.Accepted = func() { s.broadcast(event.Command{Name: event.Resume, By: c.By, ID: event.InternalID}) }
		}
		op.Command(inner)
		return
	}
	switch {
	case c.Name == event.Approve && !started && op != nil && !s.isUnchanged(m):
		s.approveEarly(m, op, c)
	case c.Name != event.Break && c.Name != event.Disable && c.Name != event.RunTo:
		s.refuse(c, fmt.Sprintf("release %s is not running", m.id))
	case started:
		s.refuse(c, fmt.Sprintf("release %s has already run", m.id))
	case op == nil || s.isUnchanged(m):
		s.refuse(c, fmt.Sprintf("release %s has nothing to do", m.id))
	default:
		s.setBreakpoint(m, c)
	}
}

// stepOne starts one group: the next one of a running release or, if none is paused before a group, the first one of the
// next release.
func (s *Stack) stepOne(c event.Command) {
	for _, m := range s.running() {
		s.mu.Lock()
		next := m.state.Next()
		s.mu.Unlock()
		if next != nil && s.runStatus(m) == event.Paused {
			s.operation(m).Command(c)
			return
		}
	}
	s.mu.Lock()
	s.stepNext = true
	s.mu.Unlock()
	s.engine.Command(c)
}

// stepPast passes a step on to the next release, if an unchanged one had no group to start.
func (s *Stack) stepPast() {
	s.mu.Lock()
	pending := s.stepNext && s.state.Run == event.Paused
	s.mu.Unlock()
	if pending {
		s.engine.Command(event.Command{Name: event.Step, ID: event.InternalID})
	}
}

// sendDecision sends Accept, Retry or GiveUp to the releases with held failures, or to the one that c names.
func (s *Stack) sendDecision(c event.Command) {
	if s.decidesOnStep(c) {
		return
	}
	refusal := "no release is held on a failure"
	if m := s.byID[c.Group]; m != nil {
		c.Scope, c.Group = m.id, ""
		refusal = "release " + m.id + " is not held on a failure"
	}
	held := slices.DeleteFunc(s.running(), func(m *member) bool {
		return s.runStatus(m) != event.Held || c.Scope != "" && c.Scope != m.id
	})
	if len(held) == 0 {
		s.refuse(c, refusal)
		return
	}
	c.Scope = ""
	s.sendToAll(held, c)
}

// sendToAll sends a command to a release and, once that has accepted it, to the others. Its answer is that to all.
func (s *Stack) sendToAll(members []*member, c event.Command) {
	others := c
	others.ID = event.InternalID
	c.Accepted = func() {
		for _, m := range members[1:] {
			s.operation(m).Command(others)
		}
	}
	s.operation(members[0]).Command(c)
}

// runStatus returns whether the operation of a release is running, paused or held.
func (s *Stack) runStatus(m *member) event.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.state.Run
}

// operationStarted records that the operation of a release starts. If the stack is paused, the operation starts paused.
func (s *Stack) operationStarted(m *member, op *operation.Operation) {
	if !s.isRollingBack() {
		op.KeepNoReturn(s.passedBefore(m), s.others(m))
		op.KeepApprovals(s.approvalsOf(m))
	}
	if len(s.stepsAfter(m)) > 0 {
		op.RetainLock()
	}
	s.mu.Lock()
	m.started, m.result, m.state, m.current = true, nil, event.State{}, nil
	if s.rollingBack {
		m.rollback, m.current = op, op
	} else {
		m.op = op
	}
	s.active, s.ran = append(s.active, m), s.ran+1
	paused, step := s.state.Run == event.Paused || s.state.Run == event.Held, s.stepNext
	s.stepNext = false
	breaks, passed := maps.Clone(m.breakpoints), slices.Clone(s.state.NoReturn)
	s.mu.Unlock()
	op.BreakOn(breaks)
	s.passApprovals(m, op)
	for _, reason := range passed {
		op.PassNoReturn(reason)
	}
	if paused {
		op.Command(event.Command{Name: event.Pause, ID: event.InternalID, Reason: "the stack is paused"})
		if step {
			op.Command(event.Command{Name: event.Step, ID: event.InternalID})
		}
	}
}

// operationEnded records that the operation of a release has ended.
func (s *Stack) operationEnded(m *member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.result = err
	m.unwritten = m.state.Code == event.NothingWritten && !s.rollingBack
	s.ran++
	m.look.ran, m.look.at = s.ran, time.Now()
	s.active = slices.DeleteFunc(s.active, func(other *member) bool { return other == m })
	if s.pausedBy == m {
		s.pausedBy = nil
	}
}

// propagatePause pauses the stack and all other releases when a release pauses or holds a failure, and resumes them when
// that release continues.
func (s *Stack) propagatePause(m *member, e event.Event) {
	c := event.Command{ID: event.InternalID}
	s.mu.Lock()
	switch {
	case (e.Status == event.Paused || e.Status == event.Held) && s.state.Run == event.Running:
		s.pausedBy, c.Name, c.Reason = m, event.Pause, m.id+": "+e.Message
	case e.Status == event.Running && s.pausedBy == m:
		s.pausedBy, c.Name = nil, event.Resume
	}
	s.mu.Unlock()
	if c.Name != "" {
		s.engine.Command(c)
		s.sendToRunning(c, m)
	}
}
