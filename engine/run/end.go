package run

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// fail ends a group as failed, if it is running. Unless the reason is the whole cause, the failure is
// published after a diagnosis.
//
// Rule R26: after a failure no further group starts; running ones finish
func (s *stage) fail(g *group, o *object, f *failure) {
	if g.status != event.Running {
		return
	}
	s.queue = slices.DeleteFunc(s.queue, func(r request) bool { return r.group == g })
	for _, other := range g.objects {
		if other.request == requestBlocked { // stop waiting for its name
			other.request = requestNotSucceeded
			g.attempt.pending--
		}
		if other.request != requestSucceeded {
			other.ignoreEarlier()
		}
	}
	f.group = g
	f.object = o
	f.reason = text.TrimFullStop(f.reason)
	f.Failure = Failure{Group: g.Group, Object: o.actual(), Message: phrase.Failure(f.reason, f.Timeout), Timeout: f.Timeout}
	g.status = event.Failed
	s.failures = append(s.failures, f)
	g.shown().status = event.Failed
	s.noteFailure()
	s.continueGroup(g) // groups that started with it no longer wait for it
	if f.reasonKind != causeKnown && s.m.opts.Diagnose != nil {
		s.diagnosing++
		s.m.emit(startDiagnosis{diagnosis{stage: s, group: g, object: o, actual: f.Object, round: g.attempt.round, failure: f}})
		return
	}
	s.reportFailure(f, o.found)
}

// reportFailures publishes failures without waiting for their diagnoses.
func (s *stage) reportFailures() {
	for _, f := range s.failures {
		if f.state == failureDiagnosing {
			s.reportFailure(f, f.object.found)
		}
	}
	if len(s.failures) > 0 && s.m.firstFailure == nil {
		s.m.firstFailure = &s.failures[0].Failure
	}
}

func (s *stage) reportFailure(f *failure, found Finding) {
	f.state = max(f.state, failureReported)
	if f.group.shown().givenUp { // before the process that held the failure ended
		f.state = failureGivenUp
	}
	f.Cause, f.Evidence = cmp.Or(found.Cause, f.reason), found.Evidence
	if f.reasonKind != causeKnown {
		f.Message = phrase.Failure(f.Cause, f.Timeout)
	}
	s.noteFailure()
	s.m.failUnit(f.group, f.Failure)
	s.m.reportRun()
}

// failing reports whether a failure keeps all other groups from starting.
func (s *stage) failing() bool {
	return slices.ContainsFunc(s.failures, func(f *failure) bool { return !f.group.def.ContinueOnError })
}

// failed reports whether the stage ends because of failures: nothing runs, and nothing else can start.
func (s *stage) failed() bool {
	return len(s.failures) > 0 && s.running() == 0 && (s.failing() || len(s.m.startable()) == 0)
}

func (s *stage) diagnosed(d diagnosis, found Finding) {
	o := d.object
	if d.failure == nil {
		s.schedule.End(&o.pace, s.m.now, found.Requests)
		s.diagnosedWaiting(d, found)
		return
	}
	o.pace.addCost(s.m.now, found.Requests)
	s.diagnosing--
	if found.Symptom && o.request != requestSucceeded && !s.removes() { // not applied in this attempt: it may be the old object, or none
		found = Finding{}
	}
	d.group.setFinding(o, d.failure.addReason(found))
	s.reportFailure(d.failure, o.found)
	if o.found.Cause != "" || !found.Details.IsEmpty() {
		s.reportFinding(d.group, o, d.actual, found.Details)
	}
}

// diagnosedWaiting handles the diagnosis of an object that has not failed.
func (s *stage) diagnosedWaiting(d diagnosis, found Finding) {
	g, o := d.group, d.object
	s.diagnoseLater(g, o)
	if s.closed || d.round != g.attempt.round || d.blocked != (o.request == requestBlocked) || !g.awaited() || o.settled || found.Over(o.pods, s.m.now) {
		return
	}
	before := o.found.Cause
	g.setFinding(o, found)
	if o.found.Cause != before {
		s.reportFinding(g, o, d.actual, found.Details)
	}
	if s.Lenient && g.status == event.Running && o.request == requestSucceeded && found.Degraded {
		s.stopWaitingFor(g, o)
	}
}

// dropCause drops the cause of an object that its pods contradict, and looks for another one.
func (s *stage) dropCause(g *group, o *object) {
	if !o.found.Over(o.pods, s.m.now) || !s.mayDiagnose(g, o) {
		return
	}
	o.found = Finding{}
	s.reportFinding(g, o, o.actual(), event.Details{})
	s.scheduleDiagnosis(g, o, s.m.now)
}

// addReason lets the reason replace a symptom: the state that made the object fail says more than its state now. A reason that
// is a part of the cause supports a cause that a diagnosis has found.
func (f *failure) addReason(found Finding) Finding {
	switch partial := f.reasonKind == causePartial; {
	case f.Timeout != nil || found.Declared || f.reason == "":
		return found
	case found.Symptom || partial && found.Cause == "":
		found.Cause, found.OnlyState = f.reason, false
	case partial:
		found.Evidence = slices.Insert(slices.Clone(found.Evidence), 0, f.reason)
	}
	found.Symptom = false
	return found
}

// reportFinding publishes the best known cause of an object, with all details of the last diagnosis.
func (s *stage) reportFinding(g *group, o *object, actual plan.Object, d event.Details) {
	best := o.found
	best.Details = d
	e := best.Event()
	e.Phase, e.Group, e.Object, e.Outside = g.Phase, g.Group, &actual, g.gated != nil
	s.m.publish(e)
}

// setFinding stores a finding that has a cause. A symptom never replaces a real cause.
func (g *group) setFinding(o *object, found Finding) {
	if found.Symptom && found.Cause != "" && o.last.Status == event.Gone && o.status == event.InProgress {
		found.Cause = g.absence(o)
	}
	if found.Cause != "" && (!found.Symptom || o.found.Cause == "" || o.found.Symptom) {
		found.Details, found.Cause = event.Details{}, text.TrimFullStop(found.Cause)
		o.found = found
	}
}

// blame is the failed group that another group waits for, directly or indirectly, and the direct
// dependency through which it waits. The zero value means none.
type blame struct{ failed, via string }

// blame finds the failed group that keeps g from starting. cache has earlier results.
func (s *stage) blame(g *group, cache map[*group]blame) blame {
	if b, ok := cache[g]; ok {
		return b
	}
	cache[g] = blame{}
	for _, id := range g.def.After {
		dependency := s.byID[id]
		if dependency == nil {
			continue
		}
		failed := id
		if dependency.status != event.Failed {
			failed = s.blame(dependency, cache).failed
		}
		if failed != "" {
			cache[g] = blame{failed, id}
			break
		}
	}
	return cache[g]
}

// whySkipped returns why g did not start: the failed group that it waits for, or else the cause that ended the stage.
func (s *stage) whySkipped(g *group, b blame, cause error) event.Skip {
	if b.failed != "" {
		return event.Skip{By: event.SkippedByFailure, Group: b.failed, Why: g.def.Why[b.via]}
	}
	return s.m.skipBy(cause)
}

// skipBy returns why groups end with a stage that cause ended; nil means that the operation failed.
func (m *machine) skipBy(cause error) event.Skip {
	switch {
	case errors.Is(cause, ErrReplaced):
		return event.Skip{By: event.SkippedByEdit}
	case errors.Is(cause, ErrAborted):
		return event.Skip{By: event.SkippedByAbort}
	case errors.Is(cause, ErrTimeout):
		return event.Skip{By: event.SkippedByTimeout, Timeout: m.opts.Operation.Timeout}
	}
	return event.Skip{By: event.SkippedByFailure}
}

// endGroup ends a running group whose objects are all settled.
func (s *stage) endGroup(g *group) {
	if g.status != event.Running || g.attempt.unsettled > 0 {
		return
	}
	status, message := s.goal(g), g.change()
	switch {
	case !g.await && !s.operationTimedOut:
		status = event.Applied
	case g.attempt.notDone > 0:
		status, message = event.Applied, "still being deleted, not checked"
	case !g.waitsForAny():
		status, message = event.Applied, "not waited for"
	}
	if g.gated != nil {
		g.status = status
	} else {
		s.m.setUnit(g.unit, status, message)
		if g.changed || message == "" && len(g.objects) > 0 { // not for one that was as applied already (R50)
			s.m.passNoReturn(g.Unit, g.def.NoReturn)
		}
	}
	for _, next := range g.dependents {
		if next.pendingDependencies--; next.pendingDependencies == 0 && next.gated == nil {
			s.addCandidate(next)
		}
	}
	s.markUncheckedReady(g)
}

// markUncheckedReady publishes that a group that ended without a check has become ready, or gone (R21).
func (s *stage) markUncheckedReady(g *group) {
	if g.status == event.Applied && g.attempt.notDone == 0 && g.waitsForAny() {
		s.m.setUnit(g.unit, s.goal(g), g.change())
	}
}

// waitsForAny reports whether the run waits for any object of the group.
func (g *group) waitsForAny() bool { return g.notAwaited == 0 || g.notAwaited < len(g.objects) }

// change returns "unchanged" if no apply of the group changed anything (R50).
func (g *group) change() string {
	if len(g.objects) == 0 || slices.ContainsFunc(g.objects, func(o *object) bool { return !o.unchanged }) {
		return ""
	}
	return string(event.Unchanged)
}

// goal returns the final status of a group whose objects are done.
func (s *stage) goal(g *group) event.Status {
	if s.removes() && g.def.Step == nil {
		return event.Gone
	}
	return event.Ready
}

// finish ends the run, unless an accepted command contradicts the end.
func (m *machine) finish(end End) error {
	if err := m.close(end.Status); err != nil {
		return err
	}
	unchecked, started := 0, 0
	if end.Status == event.Succeeded {
		m.endUnits(event.Skip{By: event.SkippedAsDone})
		unchecked, started = m.units.countUnchecked(), m.countReadyBy(event.ByStart)
		end.NoStatus += m.countReadyBy(event.ByNoStatus)
		end.NotAwaited += m.units.countNotAwaited()
		if outcome := incompleteOutcome(unchecked, started, end.NoStatus, end.NotAwaited); outcome != "" {
			end.Outcome, end.Message = outcome, outcome
		}
	} else {
		m.endUnits(m.skipCause(event.SkippedByFailure))
	}
	if end.Status != event.Succeeded {
		end.NoStatus, end.NotAwaited = 0, 0
	}
	var origin *event.Origin
	if end.Status == event.Aborted {
		origin = cmp.Or(m.rollback.origin, m.origin())
	}
	if m.firstFailure != nil && end.Object == nil && end.Status != event.Succeeded {
		end.Object = &m.firstFailure.Object
		end.Cause = m.firstFailure.Cause
		end.Evidence = m.firstFailure.Evidence
	}
	m.emit(publish{closing: true, event: event.Event{
		Kind: event.KindOperation, Status: end.Status, Message: text.CollapseSpace(end.Message), Exit: &end.Exit, Origin: origin,
		Outcome: text.CollapseSpace(end.Outcome), Code: end.Code, Release: end.Release, Unchecked: unchecked, Started: started, NoStatus: end.NoStatus, NotAwaited: end.NotAwaited,
		Object: end.Object, Cause: text.CollapseSpace(end.Cause), Evidence: end.Evidence, Newer: end.Newer, Results: end.Results,
	}})
	m.ended = true
	return nil
}

// incompleteOutcome says what a successful operation does not know: the groups that it did not check, the objects whose
// controllers have written no status, and those that it did not wait for.
func incompleteOutcome(unchecked, started, noStatus, notAwaited int) string {
	var parts []string
	if unchecked > 0 {
		parts = append(parts, text.Count(unchecked, "group")+" applied, not checked")
	}
	if started > 0 {
		parts = append(parts, text.Count(started, "Job")+" started, not complete at the end")
	}
	if noStatus > 0 {
		parts = append(parts, text.Count(noStatus, "object")+" whose controller said nothing")
	}
	if notAwaited > 0 {
		parts = append(parts, text.Count(notAwaited, "object")+" not waited for")
	}
	return strings.Join(parts, ", ")
}

// skipCause returns why units did not start: an abort, the first failed group, or else the given cause.
func (m *machine) skipCause(otherwise event.SkipCause) event.Skip {
	switch {
	case m.steering.ending != nil:
		return event.Skip{By: event.SkippedByAbort}
	case m.firstFailure != nil:
		return event.Skip{By: event.SkippedByFailure, Group: m.firstFailure.Group}
	}
	return event.Skip{By: otherwise}
}

// endUnits ends all units that are still running or have not started, as aborted or skipped. It
// publishes failures that are still being diagnosed.
func (m *machine) endUnits(why event.Skip) {
	if m.stage != nil {
		m.stage.reportFailures()
	}
	unsent := why // admitted, but the stage has not started
	unsent.Unsent = true
	for _, u := range m.units.all {
		switch {
		case u.status == event.Running && m.stage != nil:
			m.skipUnit(u, event.Aborted, why)
		case u.status == event.Running && m.steering.ending != nil:
			m.skipUnit(u, event.Aborted, unsent)
		case u.status == event.Running:
			m.skipUnit(u, event.Skipped, unsent)
		case u.unstarted():
			m.skipUnit(u, event.Skipped, why)
		}
	}
}
