package run

import (
	"slices"

	"lockstep/engine/event"
)

// heldFailure returns the failure that holds the run: the last one that was not given up. It
// returns nil if the run is not held.
//
// Rule R44: a failure is held until it is accepted, retried or given up
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

// resolveFailures accepts, retries or gives up the named failed group, or all failed groups if none is named.
func (m *machine) resolveFailures(name event.CommandName, named event.Unit) string {
	if m.heldFailure() == nil {
		return "there is no failed group to fix"
	}
	s := m.stage
	chosen := slices.DeleteFunc(slices.Clone(s.failures), func(f *failure) bool {
		return f.state == failureDiagnosing || named.Group != "" && f.Group != named.Group ||
			named.Phase != "" && f.group.Phase != named.Phase
	})
	if len(chosen) == 0 {
		return named.Group + " has not failed"
	}
	if name == event.GiveUp {
		for _, f := range chosen {
			f.state = failureGivenUp
		}
		m.reportRun()
		return ""
	}
	s.failures = slices.DeleteFunc(s.failures, func(f *failure) bool { return slices.Contains(chosen, f) })
	m.reportRun()
	s.ended, s.fullyQueued = 0, 0 // earlier groups may be running again
	for _, f := range chosen {
		m.setUnit(f.group.unit, event.Running, "")
		if name == event.Retry {
			s.startAttempt(f.group)
		} else {
			s.accept(f.group)
		}
	}
	return ""
}

// accept waits for a failed group again without applying it, because it may have been fixed in the cluster.
func (s *stage) accept(g *group) {
	g.attempt.round++
	g.attempt.accepted = true
	for _, o := range g.objects {
		o.pace.Cancel()
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
