package run

import (
	"cmp"
	"context"
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// actual returns the object with its actual name in the cluster.
func (o *object) actual() plan.Object {
	obj := o.Object
	if o.name != "" {
		obj.Name = o.name
	}
	return obj
}

// answer handles the API server's answer to a request.
func (s *stage) answer(r request, out Response, err error) {
	s.inFlight--
	g, o := r.group, r.object
	o.inFlight = false
	blocked := err == nil && out.WaitGone != nil
	if r.attempt != g.attempt.number {
		if err == nil && !blocked {
			if !o.applied || out.Change != event.Unchanged {
				o.statusBefore = out.StatusBefore
			}
			o.applied = true
			o.version = out.Version
			o.name, o.appliedNote = out.Name, out.Note
		}
		s.assess(g, o) // a re-check waited for this answer
		return         // sendQueued can send the request of the newer attempt now
	}
	if blocked && g.status == event.Running && !g.attempt.rechecking {
		s.block(g, o, out)
		return
	}
	g.attempt.pending--
	if blocked {
		return // the group no longer applies its objects
	}
	switch {
	case s.m.steering.ending != nil && errors.Is(err, ErrAborted):
		return // the request is an operation of a stack, which was aborted too
	case err != nil && s.m.timeouts.cancelled && errors.Is(err, context.Canceled):
		s.cancelled++ // the group ends as aborted, not as failed
		s.m.timeouts.cancelledRequests++
		return
	case err != nil:
		s.failRequest(g, o, err)
		return
	}
	s.completeRequest(g, o, out)
}

// completeRequest records that the API server accepted the request for an object.
func (s *stage) completeRequest(g *group, o *object, out Response) {
	o.request = requestSucceeded
	o.version = out.Version
	o.name, o.appliedNote = out.Name, out.Note
	o.since = s.m.now
	g.changed = g.changed || out.Change != event.Unchanged
	if o.unchanged = out.Change == event.Unchanged; !o.unchanged || !o.applied {
		o.statusBefore = out.StatusBefore
	}
	if s.removes() {
		s.deleted(g, o, out)
	} else {
		s.setObject(g, o, event.Applied, out.keptText(), out.Change)
		for _, pod := range out.Deleted {
			s.m.publish(event.Event{Kind: event.KindObject, Phase: g.Phase, Group: g.Group, Object: &pod, Status: event.Deleting, Change: event.Deleted})
		}
		if g.await && !o.wait.Never {
			s.setDeadline(g, o)
		}
		s.evaluate(g, o)
	}
	s.settle(g, o)
	s.continueGroup(g)
}

// failRequest fails a group because the request for an object failed.
func (s *stage) failRequest(g *group, o *object, err error) {
	o.ignoreEarlier()
	var why FindingError
	if errors.As(err, &why) {
		g.setFinding(o, why.Finding())
	}
	message := text.CollapseSpace(err.Error())
	s.setObject(g, o, event.Failed, message, "")
	s.fail(g, o, &failure{reason: message, reasonKind: causeKnown})
	if why != nil {
		s.reportFinding(g, o, o.actual(), why.Finding().Details)
	}
}

// block records that an object cannot be applied yet, because one of the same name is still being
// deleted. Its wave keeps waiting for it.
func (s *stage) block(g *group, o *object, out Response) {
	o.request = requestBlocked
	if o.deadline == nil { // if it is blocked again, the first deadline counts
		s.setDeadline(g, o)
	}
	message := out.Message
	o.finalizers = out.Finalizers
	if o.last.Status == event.Deleting { // the watch may have been faster than the response
		message, o.finalizers = o.last.Message, o.last.Finalizers
	}
	s.setObject(g, o, event.InProgress, blockedText(message), "")
}

func blockedText(message string) string {
	return text.CollapseSpace("an object of this name is still being deleted: " + message)
}

// nameFreed sends a blocked object again: its name is free now, and what was found about the earlier object does not count.
func (s *stage) nameFreed(r request) {
	if r.object.request == requestBlocked && r.attempt == r.group.attempt.number {
		r.object.request, r.object.found = requestNotSucceeded, Finding{}
		r.object.pace.reset()
		s.queue = append(s.queue, r)
	}
}

// continueGroup queues the waves that are due after a change in a group, including those of groups
// that started with it, and ends the group if all its objects are settled.
func (s *stage) continueGroup(g *group) {
	if s.closed || s.m.windingDown() {
		return
	}
	if g.gated == nil {
		if g.attempt.pending == 0 {
			g.offerWave()
		}
		s.queueDueWaves(g.cohort)
	}
	s.endGroup(g)
}

// keptText says why an object is kept, "" if it is not.
func (r Response) keptText() string {
	if r.Change != event.Kept {
		return ""
	}
	return "kept: " + cmp.Or(r.Message, "helm.sh/resource-policy: keep")
}

// deleted handles the answer to a delete request.
func (s *stage) deleted(g *group, o *object, out Response) {
	switch {
	case out.Change == event.Ran: // it deletes nothing
		s.setObject(g, o, event.Ready, out.Message, out.Change)
	case out.Change == event.Kept:
		s.setObject(g, o, event.Ready, out.keptText(), out.Change)
	case out.Change == event.Absent, o.last.Status == event.Gone:
		s.setObject(g, o, event.Gone, "", out.Change)
	default:
		message := ""
		if o.last.Status == event.Deleting { // else it describes the object before the request
			message = o.last.Message
		}
		s.setObject(g, o, event.Deleting, message, out.Change)
		if g.await {
			s.setDeadline(g, o)
		}
	}
}

func (s *stage) observe(g *group, seen Observation) {
	o := g.byObject[seen.Object]
	if o == nil || s.epoch != s.m.epoch || !s.removes() && s.m.removed[seen.Object] || g.gated != nil && (s.closed || !g.gated.unstarted() && g.status != event.Failed) {
		return
	}
	if seen.Trouble && o.request == requestSucceeded {
		s.scheduleDiagnosis(g, o, s.m.now)
	}
	if seen.Pods != nil {
		o.see(*seen.Pods, s.m.now)
		s.dropCause(g, o)
		s.assess(g, o)
	}
	switch {
	case seen.Status == "":
		return
	case seen.Status == event.Applying && o.inFlight:
		message := text.CollapseSpace(seen.Message)
		if o.retryError = ""; seen.Trouble {
			o.retryError, message = message, "retrying: "+message
		}
		s.setObject(g, o, o.status, message, "")
		return
	case seen.Status == event.Applying:
		return
	}
	o.finalizers = seen.Finalizers
	if o.request == requestBlocked && seen.Status == event.Deleting {
		s.setObject(g, o, event.InProgress, blockedText(seen.Message), "")
	}
	disappeared := seen.Status == event.Gone && o.last.Status != "" && o.last.Status != event.Gone && !s.removes()
	o.last = seen
	if o.request != requestSucceeded {
		o.fresh = seen.Version == 0 || seen.Version > o.version
	}
	s.assess(g, o)
	if disappeared && o.request == requestSucceeded {
		s.scheduleDiagnosis(g, o, s.m.now)
	}
}

// assess updates an object and its group after an observation.
func (s *stage) assess(g *group, o *object) {
	if o.request != requestSucceeded && !g.attempt.rechecking {
		return
	}
	if s.removes() {
		s.evaluateRemoval(g, o)
	} else {
		s.evaluate(g, o)
	}
	s.settle(g, o)
	s.markUncheckedReady(g)
	if g.status == event.Running {
		s.continueGroup(g)
	}
	if g.gated != nil {
		s.closeGate(g)
	}
}

func (s *stage) evaluateRemoval(g *group, o *object) {
	switch {
	case o.status == event.Gone, o.request == requestSucceeded && o.status == event.Ready: // kept
	case o.last.Status == event.Gone:
		s.setObject(g, o, event.Gone, o.last.Message, "")
	case o.last.Status == event.Deleting:
		s.setObject(g, o, event.Deleting, o.last.Message, "")
	}
}

// isCurrent reports whether the last observation of the object counts: see object.version (R22).
func (o *object) isCurrent() bool {
	switch applied := o.request == requestSucceeded; {
	case o.last.Status == "", !applied && o.inFlight:
		return false
	case applied, o.applied:
		return o.last.Version == 0 || o.last.Version >= o.version
	}
	return o.fresh
}

// evaluate derives the status of an object from its last observation. If that is Failed and the
// group is awaited or re-checking, it fails the group.
func (s *stage) evaluate(g *group, o *object) {
	if !o.isCurrent() || s.Phase.Kind == event.PhaseHooks && g.status.Over() {
		return // ignore a hook that has ended; its delete policy may remove it
	}
	if o.last.Status != event.Ready {
		o.setUnready()
	}
	switch {
	case o.last.Status == event.Gone:
		s.setObject(g, o, event.InProgress, g.absence(o), "")
	case o.last.Status == event.Deleting:
		s.setObject(g, o, event.InProgress, "being deleted", "")
	case o.awaitsStatus() && !o.wait.Never && o.last.Status != event.InProgress:
		s.evaluateSilent(g, o)
	case o.last.Status == event.Ready && !o.wait.Never:
		s.setReady(g, o, o.last.Message)
	default:
		s.setObject(g, o, o.judged(), o.last.Message, "")
	}
	if o.status == event.Failed && !o.wait.Never && (g.await || g.attempt.rechecking) {
		kind := causeUnknown
		if o.last.FailureDeclared {
			kind = causePartial
		}
		s.fail(g, o, &failure{reason: text.CollapseSpace(o.message), reasonKind: kind})
	}
}

// absence describes an object that is not in the cluster. The run never deletes what it waits for.
func (g *group) absence(o *object) string {
	if g.gated == nil && (o.applied || o.request == requestSucceeded) {
		return cmp.Or(o.last.Message, "deleted by somebody else")
	}
	return "not in the cluster"
}

// judged returns the status of the last observation.
func (o *object) judged() event.Status {
	if o.wait.Never {
		return o.last.NotAwaited().Status
	}
	return o.last.Status
}

// done reports whether an object is ready or, in a removal, gone or kept (R31). One that the run does not wait for is done
// once it is applied.
func (s *stage) done(o *object) bool {
	if o.wait.Never {
		return o.request == requestSucceeded || o.applied
	}
	if s.removes() && o.request != requestSucceeded {
		return o.status == event.Gone
	}
	return o.status == event.Ready || o.status == event.Gone
}

// settle updates whether an object is done and settled, and the counters of its group. An object
// that was never applied and is only re-checked must be done even if its group is not awaited.
func (s *stage) settle(g *group, o *object) {
	done := s.done(o)
	settled := done && g.attempt.rechecking
	if o.request == requestSucceeded {
		settled = done || !g.await || o.notAwaited
	}
	setFlag(&o.done, done, &g.attempt.notDone)
	setFlag(&o.settled, settled, &g.attempt.unsettled)
}

// setFlag sets a flag of an object and updates the number of objects for which it is not set.
func setFlag(flag *bool, value bool, unset *int) {
	switch {
	case value && !*flag:
		*unset--
	case !value && *flag:
		*unset++
	}
	*flag = value
}

// setObject updates an object and publishes the change, if there is one.
func (s *stage) setObject(g *group, o *object, status event.Status, message string, change event.Change) {
	var readyBy event.Judge
	var note string
	var progress event.Progress
	if status == o.judged() {
		progress = o.last.Progress
	}
	switch {
	case s.removes(): // it is kept
	case o.wait.Never:
		readyBy = event.NotAwaited
	case status == event.Ready:
		readyBy, note = o.judge(), cmp.Or(o.last.Note, o.appliedNote)
	}
	if o.status == status && o.message == message && o.readyBy == readyBy && o.note == note && o.shownUntil.Equal(o.until) && change == "" {
		return
	}
	o.shownUntil = o.until
	wasReady := o.status == event.Ready
	o.status = status
	o.message = message
	o.readyBy = readyBy
	o.note = note
	switch {
	case status == event.Failed && g.status == event.Ready: // a Job that counted once it had started: nothing else finds its cause
		s.scheduleDiagnosis(g, o, s.m.now)
	case o.request != requestNotSucceeded && (o.pace.count == 0 || wasReady):
		s.diagnoseLater(g, o)
	}
	obj, planned := o.actual(), ""
	if o.name != "" {
		planned = o.Name
	}
	e := event.Event{
		Kind: event.KindObject, Phase: g.Phase, Group: g.Group, Object: &obj, Planned: planned,
		Status: status, Message: message, Progress: progress, Change: change, ReadyBy: readyBy, Note: note, Until: o.until, Outside: g.gated != nil,
	}
	if status == event.Deleting || status == event.InProgress {
		e.Finalizers = o.finalizers
	}
	if status == event.Failed {
		e.Cause, e.Evidence = cmp.Or(o.found.Cause, message), o.found.Evidence
	}
	s.m.publish(e)
}
