package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// steeringKeeper returns the run.Options.Keep of the stack, nil without a journal. If the stack resumes, its releases do by the
// same write: a pause that the next pod finds in one of them would pause the stack again. They need no such write to pause or
// to end, because they start as the stack is.
func (s *Stack) steeringKeeper() func(run.Steering) error {
	if s.opts.Journal == nil {
		return nil
	}
	return func(steering run.Steering) error {
		return s.opts.Journal.Keep(context.Background(), func(entries map[string]journal.Kept) {
			s.keepShown(entries, steering)
			stack := entries[""]
			resumes := !steering.Paused && (stack.Steering == nil || stack.Steering.Paused)
			stack.Steering = &steering
			s.keepRollback(&stack, steering)
			entries[""] = stack
			for id, kept := range entries {
				if resumes && id != "" && kept.Steering != nil {
					resumed := kept.Steering.Resumed()
					kept.Steering = &resumed
					entries[id] = kept
				}
			}
		})
	}
}

// findStarts replaces a lost journal: if the latest revision of a release is that of an earlier pod of this Job, the run has begun and
// cannot continue. Else it keeps nothing.
func (s *Stack) findStarts() {
	if !s.opts.Journal.IsLost() {
		return
	}
	starts := map[string]journal.Start{}
	for _, m := range s.members {
		if m.op != nil && m.op.Start() != nil {
			starts[m.id] = *m.op.Start()
		}
	}
	if s.opts.Journal = s.opts.Journal.Begin(starts); len(starts) == 0 {
		s.opts.Journal = nil
	}
}

// keepShown keeps what those were shown who have approved releases.
func (s *Stack) keepShown(entries map[string]journal.Kept, steering run.Steering) {
	for _, given := range steering.Approved {
		m := s.byID[given.Of]
		if m == nil || s.plannedOperation(m) == nil {
			continue
		}
		if shown := s.plannedOperation(m).Shown(); shown != nil {
			kept := entries[m.id]
			kept.Shown = shown
			entries[m.id] = kept
		}
	}
}

// keptSteering is what operation.Operation does with its own, for the approvals of releases.
func (s *Stack) keptSteering() (*run.Steering, []plan.Warning) {
	before := s.opts.Journal.Entry("").Before()
	if s.opts.Journal == nil || before.Ending() != nil || s.unplanned != nil {
		return before.Steering, nil
	}
	for _, m := range s.members {
		if _, asked := s.approvalOf(m); asked && m.op != nil && !m.unchanged {
			m.op.LookAtChanges(context.Background())
		}
	}
	return operation.WithoutOutdated(before.Steering, func(given event.Approval) bool {
		m := s.byID[given.Of]
		return m == nil || m.op == nil || m.unchanged || m.op.ShownBefore(func(string) bool { return true })
	})
}

// keepStarts keeps the states of all releases before the first write.
func (s *Stack) keepStarts() error {
	operations := map[string]*operation.Operation{}
	for _, m := range s.members {
		if m.op != nil {
			operations[m.id] = m.op
		}
	}
	return operation.KeepStarts(s.engine.RequestContext(), s.opts.Journal, s.opts.Common, operations)
}

// keepRollback keeps which releases a rollback covers when it starts.
func (s *Stack) keepRollback(k *journal.Kept, steering run.Steering) {
	if steering.Rollback == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.toUndo {
		if !slices.Contains(k.RollBack, m.id) {
			k.RollBack = append(slices.Clone(k.RollBack), m.id)
		}
	}
}

// goneEarlier reports whether an earlier pod of the Job uninstalled the release, or its rollback did.
func (s *Stack) goneEarlier(m *member) bool {
	kept := s.opts.Journal.Entry(m.id).Before()
	start := kept.Start
	switch {
	case start == nil || m.op != nil && m.op.ReleaseStatus() != event.NoRelease:
		return false
	case m.remove:
		return start.Last > 0
	}
	own := kept.Steering != nil && kept.Steering.Rollback != nil
	return own || slices.Contains(s.opts.Journal.Entry("").Before().RollBack, m.id)
}

// keepBreakpoints keeps the breakpoints of a release that has not started.
func (s *Stack) keepBreakpoints(m *member) error {
	entry := s.opts.Journal.Entry(m.id)
	if entry == nil {
		return nil
	}
	var steering run.Steering
	phases := map[string]string{}
	for g := range event.Groups(s.operation(m).Phases()) {
		if phases[g.ID] == "" {
			phases[g.ID] = g.Phase.Name
		}
	}
	s.mu.Lock()
	for group, status := range m.breakpoints {
		steering.Breakpoints = append(steering.Breakpoints, run.KeptBreakpoint{Unit: event.Unit{Phase: phases[group], Group: group}, Status: status})
	}
	s.mu.Unlock()
	return entry.Keep(context.Background(), func(k *journal.Kept) { k.Steering = &steering })
}

// restoreBreakpoints sets the breakpoints that an earlier pod has kept, instead of those of --break-on.
func (s *Stack) restoreBreakpoints() {
	for _, m := range s.members {
		kept := s.opts.Journal.Entry(m.id).Before().Steering
		if m.restored = kept != nil; !m.restored {
			continue
		}
		for _, b := range kept.Breakpoints {
			m.breakpoints[b.Group] = b.Status
		}
	}
}

// changedEarlier reports whether an earlier pod of the Job has changed the release, and has not rolled it back.
func (m *member) changedEarlier() bool {
	if m.op == nil {
		return false
	}
	changed, rolledBack := m.op.ChangedEarlier()
	return changed && !rolledBack
}

// begunEarlier reports whether an earlier pod of the Job had planned the run.
func (s *Stack) begunEarlier() bool {
	return slices.ContainsFunc(s.members, func(m *member) bool { return s.opts.Journal.Entry(m.id).Before().Start != nil })
}

// rollingBackEarlier reports whether an earlier pod of the Job had started the rollback.
func (s *Stack) rollingBackEarlier() bool {
	begun := s.opts.Journal.Entry("").Before().Ending()
	return begun != nil && begun.RollingBack
}

// continueEnding ends the run if an earlier pod had begun to: because of a command or a failure, or with a rollback. It also
// ends a run that this pod cannot plan.
func (s *Stack) continueEnding() (ended bool, err error) {
	begun := s.opts.Journal.Entry("").Before().Ending()
	switch {
	case begun != nil:
	case s.unplanned != nil:
		begun = &journal.Ending{Cause: s.unplanned}
	default:
		return false, nil
	}
	if begun.Command != nil {
		s.engine.Command(*begun.Command)
	}
	for _, m := range s.members {
		if m.op == nil {
			continue
		}
		if changed, rolledBack := m.op.ChangedEarlier(); changed && rolledBack {
			_ = m.op.DeleteDeadLease() // it expires
		}
	}
	if operation.ShouldRollBack(s.opts.Common, begun.Command) && s.opts.Journal.Err() == nil { // it marks what the earlier pod left
		return true, s.fail(begun.Cause)
	}
	return true, s.fail(errors.Join(append([]error{begun.Cause}, s.recover()...)...))
}

// recover marks the revisions that an earlier pod left unfinished as failed (R52). It leaves a release that somebody else has
// changed since it was planned (R51b); the outcome names that.
func (s *Stack) recover() (errs []error) {
	for _, m := range slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return !m.changedEarlier() }) {
		common := s.common(m)
		common.Journal, common.Continues = nil, m.op.Ledger()
		_, err := operation.Recover(context.Background(), m.client, common)
		if lost := (*lease.LostError)(nil); err != nil && !(errors.As(err, &lost) && lost.Newer != nil) {
			errs = append(errs, fmt.Errorf("release %s: %w", m.id, err))
		}
	}
	return errs
}
