package run

import (
	"cmp"
	"errors"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// actual returns the object with its actual name in the cluster.
func (o *object) actual() plan.Object {
	obj := o.Object
	if o.name != "" {
		obj.Name = o.name
	}
	return obj
}

func (s *stage) answer(r request, out Outcome, err error) {
	s.busy.requests--
	g, o := r.group, r.object
	o.inFlight = false
	if r.attempt != g.attempt.number {
		return // pump can send the request of the newer attempt now
	}
	blocked := err == nil && out.WaitGone != nil
	if blocked && g.status == event.Running && !g.attempt.accepted {
		s.block(g, o, out.Message)
		return
	}
	g.attempt.pending--
	if blocked {
		return // the group has failed
	}
	if err != nil {
		o.ignoreEarlier()
		var why FindingError
		if errors.As(err, &why) {
			o.setFinding(why.Finding())
		}
		s.setObject(g, o, event.Failed, oneLine(err.Error()), "")
		s.fail(g, o, &failure{symptom: oneLine(err.Error()), certainty: causeKnown})
		if why != nil {
			s.reportFinding(g, o, o.actual(), why.Finding().Lines)
		}
		s.sendNext(g)
		return
	}
	o.reply, o.version, o.name, o.since = replyTaken, out.Version, out.Name, s.m.now
	o.unchanged = out.Change == event.Unchanged
	if s.removes() {
		s.deleted(g, o, out)
	} else {
		s.setObject(g, o, event.Applied, "", out.Change)
		if g.await {
			s.setDeadline(g, o)
		}
		s.evaluate(g, o)
	}
	s.settle(g, o)
	s.sendNext(g)
}

// block delays an object because one with the same name is still being deleted. Its wave
// keeps waiting for it.
func (s *stage) block(g *group, o *object, message string) {
	o.reply, o.since = replyBlocked, s.m.now
	s.setDeadline(g, o)
	s.setObject(g, o, event.InProgress, blockedText(message), "")
}

func blockedText(message string) string {
	return oneLine("an object of this name is still being deleted: " + message)
}

// vanished sends a blocked object again once its name is free.
func (s *stage) vanished(r request) {
	if r.object.reply == replyBlocked && r.attempt == r.group.attempt.number {
		r.object.reply = noReply
		s.queue = append(s.queue, r)
	}
}

// unblock stops waiting for the blocked objects of a failed group.
func (s *stage) unblock(g *group) {
	before := g.attempt.pending
	for _, o := range g.objects {
		if o.reply == replyBlocked {
			o.reply = noReply
			g.attempt.pending--
		}
	}
	if g.attempt.pending < before {
		s.sendNext(g)
	}
}

// sendNext sends the next waves after a change in a group. If the group failed, the groups
// that started with it no longer wait for it.
func (s *stage) sendNext(g *group) {
	if s.closed || s.m.windingDown() || g.attempt.number == 0 {
		return
	}
	if g.attempt.pending == 0 {
		g.updateTurn()
	}
	s.send(g)
}

func (s *stage) deleted(g *group, o *object, out Outcome) {
	switch {
	case out.Change == event.Kept:
		s.setObject(g, o, event.Ready, cmp.Or(out.Message, "kept: helm.sh/resource-policy"), out.Change)
	case out.Change == event.Absent, o.last.Status == event.Gone:
		s.setObject(g, o, event.Gone, "", out.Change)
	default:
		s.setObject(g, o, event.Deleting, o.last.Message, out.Change)
		if g.await {
			s.setDeadline(g, o)
		}
	}
}

func (s *stage) observe(g *group, seen Observation) {
	o := g.index[seen.Object]
	if o == nil || s.era != s.m.era { // a rollback or an edited revision has started
		return
	}
	if seen.Trouble && o.reply == replyTaken {
		s.scheduleDiagnosis(g, o, s.m.now)
	}
	switch {
	case seen.Status == "":
		return
	case seen.Status == event.Applying && o.inFlight:
		s.setObject(g, o, o.status, oneLine(seen.Message), "")
		return
	case seen.Status == event.Applying:
		return
	}
	if o.reply == replyBlocked && seen.Status == event.Deleting {
		s.setObject(g, o, event.InProgress, blockedText(seen.Message), "")
	}
	vanished := seen.Status == event.Gone && o.last.Status != "" && o.last.Status != event.Gone && !s.removes()
	o.last = seen
	if o.reply != replyTaken {
		o.fresh = seen.Version == 0 || seen.Version > o.version
	}
	s.assess(g, o)
	if vanished {
		s.scheduleDiagnosis(g, o, s.m.now)
	}
}

// assess updates an object and its group after an observation.
func (s *stage) assess(g *group, o *object) {
	if o.reply != replyTaken && !g.attempt.accepted {
		return
	}
	if s.removes() {
		s.evaluateRemoval(g, o)
	} else {
		s.evaluate(g, o)
	}
	s.settle(g, o)
	s.markLeafReady(g)
	if g.status == event.Running {
		s.sendNext(g)
	}
}

func (s *stage) evaluateRemoval(g *group, o *object) {
	switch {
	case o.status == event.Gone, o.reply == replyTaken && o.status == event.Ready: // kept
	case o.last.Status == event.Gone:
		s.setObject(g, o, event.Gone, "", "")
	case o.last.Status == event.Deleting:
		s.setObject(g, o, event.Deleting, o.last.Message, "")
	}
}

// isCurrent reports whether the last observation of the object is at least as new as its
// apply or, without an apply, newer than those from before the failure (R22).
func (o *object) isCurrent() bool {
	if o.reply == replyTaken {
		return o.last.Status != "" && (o.last.Version == 0 || o.last.Version >= o.version)
	}
	return o.last.Status != "" && o.fresh
}

// evaluate derives the status of an applied object from its last observation.
func (s *stage) evaluate(g *group, o *object) {
	if !o.isCurrent() || s.Phase.Kind == event.PhaseHooks && g.status.Over() {
		return // ignore a hook that has ended; its delete policy may remove it
	}
	switch o.last.Status {
	case event.Gone:
		s.setObject(g, o, event.InProgress, "deleted from the cluster", "")
	case event.Deleting:
		s.setObject(g, o, event.InProgress, "being deleted", "")
	default:
		s.setObject(g, o, o.last.Status, o.last.Message, "")
	}
	if o.status == event.Failed && (g.await || g.attempt.accepted) {
		certainty := causeUnknown
		if o.last.Decided {
			certainty = causePartial
		}
		s.fail(g, o, &failure{symptom: oneLine(o.message), certainty: certainty})
	}
}

// done reports whether an object is ready or, in a removal, gone (R31).
func (s *stage) done(o *object) bool {
	if s.removes() && o.reply != replyTaken {
		return o.status == event.Gone
	}
	return o.status == event.Ready || o.status == event.Gone
}

// settle updates whether an object is done and whether it is settled: the group no longer
// waits for it. An object that is ready already counts at once (R50). One that was accepted
// without an apply must be done even if its group is not awaited.
func (s *stage) settle(g *group, o *object) {
	done := s.done(o)
	settled := done && g.attempt.accepted
	if o.reply == replyTaken {
		settled = done || !g.await || o.released
	}
	count(&g.attempt.undone, &o.done, done)
	count(&g.attempt.open, &o.settled, settled)
}

// count sets a condition of an object and updates the number of objects without it.
func count(without *int, condition *bool, value bool) {
	switch {
	case value && !*condition:
		*without--
	case !value && *condition:
		*without++
	}
	*condition = value
}

// endGroup ends a group whose objects are all settled; one that is ready already ends with its last answer (R50).
func (s *stage) endGroup(g *group) {
	if g.status != event.Running || g.attempt.open > 0 {
		return
	}
	end, message := s.goal(), g.change()
	switch {
	case !g.await && !s.outOfTime:
		end = event.Applied
	case g.attempt.undone > 0:
		end, message = event.Applied, "still being deleted, not checked"
	}
	s.m.setUnit(g.unit, end, message)
	for _, next := range g.dependents {
		if next.pendingGates--; next.pendingGates == 0 {
			s.addOpen(next)
		}
	}
	s.markLeafReady(g)
}

// markLeafReady publishes that an unchecked group is ready, or gone (R21).
func (s *stage) markLeafReady(g *group) {
	if g.status == event.Applied && g.attempt.undone == 0 {
		s.m.setUnit(g.unit, s.goal(), g.change())
	}
}

// change returns "unchanged" if no apply of the group changed anything (R50).
func (g *group) change() string {
	if len(g.objects) == 0 || slices.ContainsFunc(g.objects, func(o *object) bool { return !o.unchanged }) {
		return ""
	}
	return string(event.Unchanged)
}

// goal returns the final status of a group whose objects are done. A removal waits until they are gone (R31).
func (s *stage) goal() event.Status {
	if s.removes() {
		return event.Gone
	}
	return event.Ready
}

func (s *stage) setObject(g *group, o *object, status event.Status, message string, change event.Change) {
	if o.status == status && o.message == message && change == "" {
		return
	}
	o.status, o.message = status, message
	if o.reply != noReply && o.pace.count == 0 {
		s.diagnoseLater(g, o)
	}
	obj, planned := o.actual(), ""
	if o.name != "" {
		planned = o.Name
	}
	e := event.Event{
		Kind: event.KindObject, Phase: g.Phase, Group: g.Group, Object: &obj, Planned: planned, Status: status, Message: message, Change: change,
	}
	if status == event.Failed {
		e.Cause, e.Evidence = cmp.Or(o.found.Cause, message), o.found.Evidence
	}
	s.m.publish(e)
}
