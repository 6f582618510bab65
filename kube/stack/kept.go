package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/journal"
	"lockstep/kube/operation"
)

// keepTimeout limits one write of the journal. The stack's engine waits for it.
const keepTimeout = 20 * time.Second

// steeringKeeper returns the function that keeps the steering of the stack (S13), nil outside a cluster.
func (s *Stack) steeringKeeper() func(run.Steering) {
	entry := s.opts.Journal.Entry("")
	if entry == nil {
		return nil
	}
	return func(steering run.Steering) {
		ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
		defer cancel()
		if err := entry.Keep(ctx, func(k *journal.Kept) { k.Steering = &steering }); err != nil {
			s.feed.Publish(event.Event{Kind: event.KindWarning, Rule: "S13", Message: fmt.Sprintf(
				"if this pod is replaced, the next one will not know the last command: %v", err)})
		}
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	return entry.Keep(ctx, func(k *journal.Kept) { k.Steering = &steering })
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

// continueEnding ends the run if an earlier pod had begun to: because of a command, or with a rollback.
func (s *Stack) continueEnding() (ended bool, err error) {
	kept := s.opts.Journal.Entry("").Before().Steering
	if kept == nil || kept.Ending == nil && kept.Rollback == nil {
		return false, nil
	}
	ending, cause := kept.Ending, errors.New("an earlier pod of this Job ended the run")
	if kept.Rollback != nil {
		cause = errors.New(kept.Rollback.Cause)
		if ending == nil {
			ending = kept.Rollback.By
		}
	}
	if ending != nil {
		s.engine.Command(ending.Command())
	}
	for _, m := range s.members {
		if m.op == nil {
			continue
		}
		if changed, rolledBack := m.op.ChangedEarlier(); changed && rolledBack {
			_ = m.op.DeleteDeadLease() // it expires
		}
	}
	if ending != nil && ending.Name != event.Rollback { // otherwise the rollback marks what the earlier pod left
		cause = errors.Join(append([]error{cause}, s.recover()...)...)
	}
	return true, s.fail(cause)
}

// recover marks the revisions that an earlier pod left unfinished as failed (R52).
func (s *Stack) recover() (errs []error) {
	for _, m := range slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return !m.changedEarlier() }) {
		common := s.common(m)
		common.Journal = nil
		if _, err := operation.Recover(context.Background(), m.client, common); err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", m.id, err))
		}
	}
	return errs
}
