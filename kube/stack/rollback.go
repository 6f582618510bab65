package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/operation"
)

// toRollBack returns the releases that this run deployed and has not rolled back yet. Before the rollback starts, it also
// returns failed ones that did not roll themselves back. Uninstalled ones stay uninstalled.
func (s *Stack) toRollBack() (out []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		failed := m.result != nil && !s.rollingBack && m.op.CreatedAndKept()
		if m.started && !m.remove && !m.rolledBack && (m.result == nil || failed) {
			out = append(out, m)
		}
	}
	return out
}

// rollBack rolls back the releases that this run deployed, in reverse order. The error is run.ErrAborted if a
// command ends the run before or during the rollback.
func (s *Stack) rollBack(end *run.End, cause error) error {
	changed := s.toRollBack()
	info := s.info
	info.Name = "rollback"
	s.setRollingBack(true) // first, so that no command can come between
	if err := s.engine.StartRollback(info, cause.Error()); err != nil {
		s.setRollingBack(false)
		return err
	}
	s.setRollingBack(true) // again, because a command may have come before the engine's rollback started
	phase := event.Phase{Name: phaseRollback, Kind: event.PhaseApply, Groups: makeGroups(changed, true)}
	if !slices.ContainsFunc(changed, func(m *member) bool { return m.op.Info().PreviousRevision > 0 }) {
		phase.Name, phase.Kind = phaseUninstall, event.PhaseRemove
	}
	s.engine.Announce(phase)
	err := s.engine.Run(run.Stage{Phase: phase, Cluster: s})
	end.Outcome = s.rollbackOutcome(changed)
	end.Message, _ = operation.ClosingTexts(end.Outcome, cause)
	return err
}

func (s *Stack) setRollingBack(rollingBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollingBack, s.warned = rollingBack, false
}

// rollbackOutcome counts the releases that this run changed, and those of them that are rolled back: by this rollback, or
// by their own operation, which failed.
func (s *Stack) rollbackOutcome(changed []*member) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	total, done, uninstalled := len(changed), 0, 0
	var stuck []string
	for _, m := range s.members {
		switch {
		case m.rolledBack:
			done++
			if m.op.Info().Name != "rollback" {
				uninstalled++
			}
		case slices.Contains(changed, m) || m.result == nil || !m.state.HasRollback():
		case m.state.RollbackFailed():
			total++
			stuck = append(stuck, m.id)
		default:
			total++
			done++
			if m.state.Release == event.NoRelease {
				uninstalled++
			}
		}
	}
	switch {
	case done == total && uninstalled == total:
		return "rolled back; " + text.Count(done, "release") + " uninstalled"
	case done == total:
		return "rolled back " + text.Count(done, "release")
	case len(stuck) > 0:
		return fmt.Sprintf("rolled back %d of %d changed releases; the rollback of %s failed", done, total, strings.Join(stuck, ", "))
	}
	return fmt.Sprintf("rolled back %d of %d changed releases (incomplete)", done, total)
}

// rollBackRelease rolls a release back to its previous revision, or uninstalls it if there is none. Then it reports the
// status.
func (s *Stack) rollBackRelease(m *member, phase string, o plan.Object, status event.Status) (run.Response, error) {
	common := s.common(m)
	common.RollbackOnFailure, common.BreakOn = false, nil
	ctx := context.Background()
	var op *operation.Operation
	var err error
	info := m.op.Info()
	if info.PreviousRevision > 0 {
		op, err = operation.PrepareRollback(ctx, m.client, operation.Rollback{
			Common: common, Revision: info.PreviousRevision, HistoryMax: m.HistoryMax,
		})
	} else {
		op, err = operation.PrepareUninstall(ctx, m.client, operation.Uninstall{Common: common, IgnoreNotFound: true})
	}
	if err != nil {
		return run.Response{}, err
	}
	if op != nil {
		if err := s.runOperation(m, phase, o, op); err != nil {
			return run.Response{}, err
		}
	}
	s.mu.Lock()
	m.rolledBack = true
	s.mu.Unlock()
	message, change := "uninstalled", event.Deleted
	if info.PreviousRevision > 0 {
		message, change = fmt.Sprintf("rolled back to revision %d", info.PreviousRevision), event.Configured
	}
	m.observe(o, status, message)
	return run.Response{Change: change}, nil
}
