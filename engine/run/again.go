package run

import (
	"cmp"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// heldFailure returns the failure that holds the run, the latest of the least vague ones. It is nil if
// the run is not held.
//
// Rule R44: a failure holds the run until the group is re-checked, retried or given up on
func (m *machine) heldFailure() *failure {
	if m.stage == nil || !m.opts.HoldOnFailure || m.windingDown() {
		return nil
	}
	var held *failure
	for _, f := range slices.Backward(m.stage.failures) {
		if f.state == failureReported && f.holds() && (held == nil || f.vagueness() < held.vagueness()) {
			held = f
		}
	}
	return held
}

func (f *failure) vagueness() int { return f.Timeout.Vagueness(f.object.explained()) }

// explained reports whether an object was applied, and whether it is known why it is not ready or was not applied.
func (o *object) explained() (applied, causeKnown bool) {
	known := o.found.Cause != "" && !o.found.Symptom && !o.found.OnlyState
	return o.request == requestSucceeded, known || o.retryError != ""
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
		u := f.group.shown()
		u.accepted, u.givenUp = command == event.Accept && f.group.gated == nil, command == event.GiveUp
	}
	return ""
}

// holds reports whether a failure may hold the run, so that the group can be retried.
func (f *failure) holds() bool {
	holds := f.group.stage.Holds
	return holds == nil || holds(f.group.def)
}

// failuresOf returns the reported failures of the named group that may hold the run, or all if none is named.
func (s *stage) failuresOf(target event.Unit) []*failure {
	return slices.DeleteFunc(slices.Clone(s.failures), func(f *failure) bool {
		return f.state == failureDiagnosing || !f.holds() || target.Group != "" && f.Group != target.Group ||
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
		switch {
		case f.group.gated != nil:
			m.setUnit(f.group.shown(), event.Waiting, "")
			f.group.forgetFailures()
			s.awaitGate(f.group)
		case command == event.Retry:
			m.setUnit(f.group.unit, event.Running, "")
			s.startAttempt(f.group)
		default:
			m.setUnitFor(f.group.unit, event.Running, event.Rechecking, event.Rechecking)
			s.recheck(f.group)
		}
	}
}

// recheck waits for the objects of a failed group again without applying them: somebody may have
// fixed them in the cluster.
func (s *stage) recheck(g *group) {
	g.forgetFailures()
	s.awaitAgain(g)
}

// forgetFailures makes the run wait for new observations of the objects that have failed.
func (g *group) forgetFailures() {
	for _, o := range g.objects {
		if o.last.Status == event.Failed {
			o.last = Observation{}
		}
	}
}

// awaitAgain waits for the objects of a group again without applying them.
func (s *stage) awaitAgain(g *group) {
	g.attempt.round++
	g.attempt.rechecking = true
	for _, o := range g.objects {
		o.pace.reset()
		o.statusDeadline = nil
		if g.await || o.request != requestSucceeded {
			s.setDeadline(g, o)
		}
		s.assess(g, o)
		s.explainAgain(g, o)
	}
	s.endGroup(g)
}

// explainAgain drops the cause of an object that is waited for again, because somebody may have removed it, and diagnoses the object.
func (s *stage) explainAgain(g *group, o *object) {
	if !s.mayDiagnose(g, o) {
		return
	}
	if o.found.Cause != "" {
		o.found = Finding{}
		s.reportFinding(g, o, o.actual(), event.Details{})
	}
	s.scheduleDiagnosis(g, o, s.m.now)
}

// ConfirmReady waits until all groups that had to become ready are ready at the same time (R21). It is for the end of an
// operation, after its last stage: nothing else waits for a group whose objects break after it was ready. Such a group is in
// progress again, with a new readiness timeout, and can fail and be held like any other. The error is a *StageError.
// Then it waits until workloads without probes have settled (R22c). If a group has failed, there is nothing to wait for.
func (e *Engine) ConfirmReady() error {
	r := newStageRun(e)
	e.inbox.put(confirmRequested{r})
	return r.Wait()
}

// confirm continues the first ended stage with a group that is no longer ready, until there is none. It answers run.
func (m *machine) confirm(run *StageRun) {
	if m.windingDown() {
		m.emit(endStage{run, nil}) // the command or the timeout decides
		return
	}
	for _, s := range m.confirmable {
		if groups := s.unreadyAgain(); len(groups) > 0 {
			m.settling = nil
			s.reopen(run, groups)
			return
		}
	}
	m.settle(run)
}

// unreadyAgain returns the groups that were ready and no longer are.
func (s *stage) unreadyAgain() (groups []*group) {
	for _, g := range s.groups {
		if g.await && g.status == event.Ready && g.attempt.notDone > 0 && (s.Ends == nil || !s.Ends(g.def)) {
			groups = append(groups, g)
		}
	}
	return groups
}

// reopen continues an ended stage, to wait for some of its groups again without applying them.
func (s *stage) reopen(run *StageRun, groups []*group) {
	s.m.stage = s
	s.run = run
	s.closed, s.confirming = false, true
	s.endedCount = 0
	for _, g := range groups {
		for _, o := range g.objects {
			if !o.done {
				s.m.setUnreadyAgain(g.unit, o)
				break
			}
		}
	}
	for _, g := range groups {
		s.awaitAgain(g)
	}
}

// setUnreadyAgain publishes that a group that was ready is in progress again because of an object.
func (m *machine) setUnreadyAgain(u *unit, o *object) {
	u.status = event.Running
	m.restartHeartbeat()
	m.publish(UnreadyAgain(u.Unit, o.actual(), cmp.Or(o.message, string(o.status))))
}

// UnreadyAgain is the event of a group that was ready and is in progress again because of an object.
func UnreadyAgain(u event.Unit, o plan.Object, state string) event.Event {
	return event.Event{Kind: event.KindGroup, Phase: u.Phase, Group: u.Group, Status: event.Running, Object: &o,
		Message: event.UnreadyAgain + ": " + o.String() + ": " + state}
}
