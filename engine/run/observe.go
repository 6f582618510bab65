package run

import (
	"cmp"
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// named is the object under the name that it has in the cluster.
func (o *object) named() plan.Object {
	obj := o.Object
	if o.name != "" {
		obj.Name = o.name
	}
	return obj
}

// answer takes in the API server's answer to a request.
func (s *stage) answer(r request, out Outcome, err error) {
	s.busy.requests--
	g, o := r.group, r.object
	o.flying = false
	if r.attempt != g.attempt.number {
		return // what has replaced it goes now
	}
	blocked := err == nil && out.Terminating != nil
	if blocked && g.status == event.Running && !g.attempt.accepted {
		s.block(g, o, out.Message)
		return
	}
	g.attempt.pending--
	if blocked {
		return // its group has failed
	}
	if err != nil {
		o.onlyLater()
		var why Explained
		if errors.As(err, &why) {
			o.setFinding(why.Finding())
		}
		s.setObject(g, o, event.Failed, oneLine(err.Error()), "")
		s.refuse(g, o, err.Error())
		if why != nil {
			s.reportFinding(g, o, o.named(), why.Finding().Lines)
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

// block keeps an object for later: one of its name is still being deleted. Its wave
// continues to wait for it.
func (s *stage) block(g *group, o *object, message string) {
	o.reply, o.since = replyBlocked, s.m.now
	s.setDeadline(g, o)
	s.setObject(g, o, event.InProgress, blockedText(message), "")
}

func blockedText(message string) string {
	return oneLine("an object of this name is still being deleted: " + message)
}

// vanished sends an object again whose name is free now.
func (s *stage) vanished(r request) {
	if r.object.reply == replyBlocked && r.attempt == r.group.attempt.number {
		r.object.reply = noReply
		s.queue = append(s.queue, r)
	}
}

// unblock gives up on the objects of a failed group that are blocked: nothing waits
// for their answers any more.
func (s *stage) unblock(g *group) {
	was := g.attempt.pending
	for _, o := range g.objects {
		if o.reply == replyBlocked {
			o.reply = noReply
			g.attempt.pending--
		}
	}
	if g.attempt.pending < was {
		s.sendNext(g)
	}
}

// sendNext continues after news of a group. Where that has failed, those that have
// started with it need not wait for it any more.
func (s *stage) sendNext(g *group) {
	if s.closed || s.m.over() || g.attempt.number == 0 {
		return
	}
	if g.attempt.pending == 0 {
		g.takeTurn()
	}
	s.send(g)
}

// deleted takes in the answer to a delete.
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

// observe takes in what the watch has seen of an object.
func (s *stage) observe(g *group, seen Observation) {
	o := g.index[seen.Object]
	if o == nil || s.era != s.m.era { // what the stage did is undone, or done otherwise
		return
	}
	if seen.Sign && o.reply == replyTaken {
		s.diagnoseNow(g, o)
	}
	if seen.Status == "" {
		return
	}
	if seen.Status == event.Applying {
		if o.flying {
			s.setObject(g, o, o.status, oneLine(seen.Message), "")
		}
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
		s.diagnoseNow(g, o)
	}
}

// assess draws the consequences of what was last seen of an object.
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
	s.endLeaf(g)
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

// counts reports whether what was last seen of the object is not older than its
// apply, or where there was none, than the failure (R22).
func (o *object) counts() bool {
	if o.reply == replyTaken {
		return o.last.Status != "" && (o.last.Version == 0 || o.last.Version >= o.version)
	}
	return o.last.Status != "" && o.fresh
}

// evaluate compares what was last seen of an object with its apply.
func (s *stage) evaluate(g *group, o *object) {
	if !o.counts() || s.Phase.Kind == event.PhaseHooks && g.status.Over() {
		return // a hook is left alone once it has run; its delete policy may remove it
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
		s.failSeen(g, o)
	}
}

// done reports whether an object has come to all it should.
func (s *stage) done(o *object) bool {
	if s.removes() && o.reply != replyTaken {
		return o.status == event.Gone
	}
	return o.status == event.Ready || o.status == event.Gone
}

// settle counts whether an object has come to all it should, and whether something
// is left to wait for of it. What was accepted without an answer has to be done,
// whether its group is awaited or not.
func (s *stage) settle(g *group, o *object) {
	done := s.done(o)
	settled := done
	if o.reply == replyTaken && (!g.await || o.released) {
		settled = true
	}
	if o.reply != replyTaken && !g.attempt.accepted {
		settled = false
	}
	count(&g.attempt.undone, &o.done, done)
	count(&g.attempt.open, &o.settled, settled)
}

// count keeps the number of objects of which something is not true (yet).
func count(left *int, was *bool, is bool) {
	switch {
	case is && !*was:
		*left--
	case !is && *was:
		*left++
	}
	*was = is
}

// endGroup ends a group that has all it should.
func (s *stage) endGroup(g *group) {
	if g.status != event.Running || g.attempt.open > 0 {
		return
	}
	end, message := s.goal(), g.change()
	switch {
	case !g.await && !s.hurried:
		end = event.Applied
	case g.attempt.undone > 0:
		end, message = event.Applied, "still being deleted, not checked"
	}
	s.m.setUnit(g.unit, end, message)
	for _, next := range g.after {
		if next.left--; next.left == 0 {
			s.opened(next)
		}
	}
	s.endLeaf(g)
}

// endLeaf means that a group that is not waited for has become ready, or is gone
// (R21).
func (s *stage) endLeaf(g *group) {
	if g.status == event.Applied && g.attempt.undone == 0 {
		s.m.setUnit(g.unit, s.goal(), g.change())
	}
}

// change says of a group that everything was in the cluster already as it was to
// be applied (R50).
func (g *group) change() string {
	for _, o := range g.objects {
		if !o.unchanged {
			return ""
		}
	}
	if len(g.objects) == 0 {
		return ""
	}
	return string(event.Unchanged)
}

// goal is how a group ends that has come to all it should.
func (s *stage) goal() event.Status {
	if s.removes() {
		return event.Gone
	}
	return event.Ready
}

// setObject changes the status of an object and tells, where there is news.
func (s *stage) setObject(g *group, o *object, status event.Status, message string, change event.Change) {
	if o.status == status && o.message == message && change == "" {
		return
	}
	o.status, o.message = status, message
	if o.reply != noReply && o.pace.looks == 0 {
		s.diagnoseLater(g, o)
	}
	obj, planned := o.named(), ""
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
