package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/helmfile"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// toRollBack returns the releases that this run deployed and has not rolled back yet. Before the rollback starts, it also
// returns failed ones that did not roll themselves back. Uninstalled ones stay uninstalled.
func (s *Stack) toRollBack() (out []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		failed := m.result != nil && !s.rollingBack && m.op.CreatedAndKept()
		earlier := !m.started && m.changedEarlier()
		if (m.started && (m.result == nil || failed) || earlier) && !m.remove && !m.rolledBack {
			out = append(out, m)
		}
	}
	return out
}

// rollBack rolls back the releases that this run deployed, in reverse order. The error is run.ErrAborted if a
// command ends the run before or during the rollback.
func (s *Stack) rollBack(end *run.End, cause error) error {
	changed := s.toRollBack()
	s.mu.Lock()
	s.toUndo = changed
	s.mu.Unlock()
	info := s.info
	info.Name = "rollback"
	if err := s.engine.StartRollback(info, cause.Error()); err != nil {
		return err
	}
	s.mu.Lock()
	s.rollingBack = true
	s.mu.Unlock()
	phase := event.Phase{Name: phaseRollback, Kind: event.PhaseApply, Groups: makeGroups(changed, true)}
	if !slices.ContainsFunc(changed, func(m *member) bool { return m.op.Info().PreviousRevision > 0 }) {
		phase.Name, phase.Kind = phaseUninstall, event.PhaseRemove
	}
	s.engine.Announce(phase)
	err := s.engine.Run(s.stage(phase))
	s.explainKept(changed)
	end.Results = s.finalResults()
	end.Outcome = rollbackOutcomeOf(end.Results)
	end.Message = messageOf(end.Outcome, cause)
	return err
}

// explainKept records why releases were not rolled back although nothing failed in them: a release that needs one was not.
func (s *Stack) explainKept(members []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range members {
		if m.rolledBack || m.why != "" {
			continue
		}
		i := slices.IndexFunc(members, func(o *member) bool {
			return o != m && !o.rolledBack && slices.Contains(o.needs, m)
		})
		if i >= 0 {
			m.why = members[i].id + ", which needs it, was not either"
		}
	}
}

// passedEarlier returns the reasons of the points of no return that earlier runs have passed.
func (s *Stack) passedEarlier() (reasons []string) {
	for _, m := range s.members {
		if !m.deploys() {
			continue
		}
		reasons = append(reasons, m.op.NoReturn()...)
		for _, other := range s.members {
			if other != m && other.op != nil {
				reasons = append(reasons, other.op.PassedBefore(m.id, m.op)...)
			}
		}
	}
	for _, st := range s.steps {
		if s.earlier == nil || !s.earlier.Ended.IsZero() {
			break
		}
		if g := s.earlier.Find(st.phase, st.id); g != nil && !g.Started.IsZero() && g.Status != event.Failed { // also if it was killed
			reasons = append(reasons, st.hook.NoReturn)
		}
	}
	return reasons
}

// deploys reports whether the run is planned to install or upgrade the release.
func (m *member) deploys() bool { return m.op != nil && !m.unchanged && !m.remove }

// others returns the other releases that the run deploys, as release.Record.Others.
func (s *Stack) others(m *member) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for _, other := range s.members {
		if other != m && other.deploys() {
			all[other.id] = other.op.Info().PreviousRevision
		}
	}
	return all
}

// passedBefore returns the reasons of the points of no return that the hooks right before a release have passed once it starts.
func (s *Stack) passedBefore(m *member) (reasons []string) {
	for _, st := range s.stepsAt(m, s.planned, helmfile.Presync) {
		if st.hook.NoReturn != "" {
			reasons = append(reasons, st.hook.NoReturn)
		}
	}
	return reasons
}

// passNoReturn makes the stack, and all of its releases that run, know that a release, or a hook if m is nil, has passed a point of
// no return. Those that start later learn it then.
func (s *Stack) passNoReturn(m *member, reason string) {
	s.engine.PassNoReturn(reason)
	for _, other := range s.running() {
		if other != m {
			s.operation(other).PassNoReturn(reason)
		}
	}
}

// rollBackRelease rolls a release back to its previous revision, or uninstalls it if there is none. Then it reports the
// status. It leaves a release alone whose newest revision is not this run's (R51b).
func (s *Stack) rollBackRelease(m *member, phase string, o plan.Object, status event.Status) (run.Response, error) {
	info := s.plannedOperation(m).Info()
	message, change := "uninstalled", event.Deleted
	if info.PreviousRevision > 0 {
		message, change = fmt.Sprintf("rolled back to revision %d", info.PreviousRevision), event.Configured
	}
	err := s.runRollback(m, phase, o, info)
	if lost := (*lease.LostError)(nil); errors.As(err, &lost) && lost.Newer != nil {
		err, message, change = nil, newerText(*lost.Newer), event.Kept
	}
	if err != nil {
		s.setWhy(m, err)
		return run.Response{}, err
	}
	s.mu.Lock()
	m.rolledBack, m.notReady, m.changed, m.why = true, false, nil, ""
	s.mu.Unlock()
	m.observe(o, status, message)
	return run.Response{Change: change, Message: message}, nil
}

// runRollback rolls a release back with the ledger of its operation, so that it fails if somebody else has written to the
// release since.
func (s *Stack) runRollback(m *member, phase string, o plan.Object, info event.Operation) error {
	common := s.common(m)
	common.RollbackOnFailure, common.SkipPreflight, common.BreakOn, common.Journal = false, true, nil, nil // as within a release
	common.ApproveBefore, common.Approve, common.NoApprovals = nil, nil, true
	deployed := s.plannedOperation(m)
	common.Continues, common.Taken = deployed.Ledger(), deployed.Taken()
	if err := s.checkNewest(deployed); err != nil {
		return err
	}
	m.unlock(s) // the rollback locks it again
	ctx := context.Background()
	var op *operation.Operation
	var err error
	if info.PreviousRevision > 0 {
		rb := deployed.Rollback()
		rb.Common, rb.HistoryMax, rb.IgnoreNoReturn, rb.Undoes = common, m.HistoryMax, true, deployed
		op, err = operation.PrepareRollback(ctx, m.client, rb)
	} else {
		op, err = operation.PrepareUninstall(ctx, m.client, operation.Uninstall{Common: common, IgnoreNotFound: true})
	}
	if err != nil || op == nil {
		return err
	}
	return s.runOperation(m, phase, o, op)
}

// checkNewest returns a *lease.LostError if the newest revision of a release is not this run's, also while another run holds
// its lock.
func (s *Stack) checkNewest(op *operation.Operation) error {
	ctx, cancel := s.recordContext()
	defer cancel()
	if _, err := op.ReadRecord(ctx); err != nil {
		return err
	}
	return op.Ledger().Lost()
}
