package run

import (
	"slices"

	"lockstep/engine/event"
)

// heldFailure returns the failure that holds the run, the latest if there are several. It is nil if
// the run is not held.
//
// Rule R44: a failure holds the run until the group is re-checked, retried or given up on
func (m *machine) heldFailure() *failure {
	if m.stage == nil || !m.opts.HoldOnFailure || m.windingDown() {
		return nil
	}
	for _, f := range slices.Backward(m.stage.failures) {
		if f.state == failureReported {
			return f
		}
	}
	return nil
}

// decideOnFailures decides on the named group, or on all failed groups if none is named.
func (m *machine) decideOnFailures(command event.CommandName, target event.Unit) string {
	if m.heldFailure() == nil {
		return "the run is not held on a failure"
	}
	chosen := m.stage.failuresOf(target)
	if len(chosen) == 0 {
		return target.Group + " has not failed"
	}
	for _, f := range chosen {
		f.group.accepted, f.group.givenUp = command == event.Accept, command == event.GiveUp
	}
	return ""
}

// failuresOf returns the reported failures of the named group, or all if none is named.
func (s *stage) failuresOf(target event.Unit) []*failure {
	return slices.DeleteFunc(slices.Clone(s.failures), func(f *failure) bool {
		return f.state == failureDiagnosing || target.Group != "" && f.Group != target.Group ||
			target.Phase != "" && f.group.Phase != target.Phase
	})
}

// resolveFailures re-checks, retries or gives up on groups as decided.
func (m *machine) resolveFailures(command event.CommandName, target event.Unit) {
	s := m.stage
	chosen := s.failuresOf(target)
	if command == event.GiveUp {
		for _, f := range chosen {
			f.state = failureGivenUp
		}
		m.reportRun()
		return
	}
	s.failures = slices.DeleteFunc(s.failures, func(f *failure) bool { return slices.Contains(chosen, f) })
	m.reportRun()
	s.endedCount = 0 // groups that had ended are running again
	s.appliedCount = 0
	for _, f := range chosen {
		if command == event.Retry {
			m.setUnit(f.group.unit, event.Running, "")
			s.startAttempt(f.group)
		} else {
			m.setUnit(f.group.unit, event.Running, event.Rechecking)
			s.recheck(f.group)
		}
	}
}

// recheck waits for the objects of a failed group again without applying them: somebody may have
// fixed them in the cluster.
func (s *stage) recheck(g *group) {
	g.attempt.round++
	g.attempt.rechecking = true
	for _, o := range g.objects {
		o.pace.reset()
		if o.last.Status == event.Failed {
			o.last = Observation{}
		}
		if g.await || o.request != requestSucceeded {
			s.setDeadline(g, o)
		}
		s.assess(g, o)
	}
	s.endGroup(g)
}
