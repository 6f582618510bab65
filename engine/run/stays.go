package run

import (
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// StableAfter is how long a container must run after a restart until its workload counts as ready again (R22c).
const StableAfter = 10 * time.Second

// settleMargin is how long before the operation's timeout settling ends: it is no reason to fail a release that is ready.
const settleMargin = time.Second

// Pods is what was seen of the pods of a workload.
type Pods struct {
	// Restarted is when a container was last seen to end or to start again, zero for never.
	Restarted time.Time
	// Down means that this container does not run now.
	Down bool
	// Restart names this container, and says how it ended: "container app exited with code 3".
	Restart string
	// Unready is how many pods are not ready, Ready how many are. Listed means that these are all.
	Unready, Ready int
	Listed         bool
	// Started is when the last container started, among the pods that have a container without a readiness or startup
	// probe; zero if there are none.
	Started time.Time
}

// stays is what an object must show to count as ready for longer than a moment (R22c).
type stays struct {
	pods       Pods
	lost       time.Time // when a pod was last seen to go whose containers had started last, zero for never
	readySince time.Time // by its rule, zero while it is not
	until      time.Time // when its hold ends, zero for none or if that is unknown
	shownUntil time.Time // the published until
	settles    bool      // the outcome waits, or has waited, until it has settled
	hasSettled bool
}

// hold is a wait for an object that is ready until it has been so for some time.
type hold struct {
	// until is when it ends if nothing happens; zero while that is unknown.
	until  time.Time
	reason string
}

// see records what was seen of the pods of the object.
func (s *stays) see(p Pods, now time.Time) {
	if p.Started.Before(s.pods.Started) {
		s.lost = now
	}
	s.pods = p
}

// RestartsCount reports whether restarts of its pods count against an object that is ready: the rule of an operator or a chart
// is nearer to it.
func (o Observation) RestartsCount() bool {
	switch o.ReadyBy {
	case event.ByChart, event.ByOperator, event.NotAwaited:
		return false
	}
	return true
}

// Held returns why a workload that is ready by its rule does not count yet, "" if it does: a container has restarted, and has
// not run for limit again. until is when it has, zero while the container does not run.
func (p Pods) Held(now time.Time, limit time.Duration) (why string, until time.Time) {
	if p.Restart == "" {
		return "", until
	}
	if !p.Down {
		if until = p.Restarted.Add(limit); !now.Before(until) {
			return "", time.Time{}
		}
	}
	return fmt.Sprintf("%s; ready once it has run for %s again", p.Restart, limit), until
}

// holdOf returns why an object that is ready does not count yet, nil if it does.
//
// Rule R22c: a restart since the apply makes a workload in progress until the container has run again for a while
func (s *stage) holdOf(o *object) *hold {
	now, h, stable := s.m.now, hold{}, o.wait.StableFor
	if stable > 0 {
		h = hold{o.readySince.Add(stable), fmt.Sprintf("ready; counts after staying ready for %s (lockstep/stable-for)", stable)}
	}
	if o.pods.Restarted.After(o.since) && (o.last.RestartsCount() || stable > 0) {
		reason, until := o.pods.Held(now, max(stable, StableAfter))
		switch {
		case reason != "" && until.IsZero():
			return &hold{reason: reason}
		case until.After(h.until):
			h = hold{until, reason}
		}
	}
	missing := o.pods.Unready - o.last.Spare
	if o.pods.Listed { // some may have been deleted
		missing = max(missing, o.last.Wanted-o.pods.Ready-o.last.Spare)
	}
	if missing > 0 && o.last.RestartsCount() && s.podsDecide() {
		return &hold{reason: text.Count(missing, "pod") + " not ready"}
	}
	if !now.Before(h.until) {
		return nil
	}
	return &h
}

// podsDecide reports whether a pod that is not ready counts against a workload whose status says that it is. Until its pods were
// looked at, they may be known later than its status.
func (s *stage) podsDecide() bool {
	settling := s.m.settling
	return s.confirming || settling != nil && !settling.looking && !settling.looked.IsZero()
}

// setReady sets the status of an object that is ready by its rule: Ready, or InProgress while it is held.
func (s *stage) setReady(g *group, o *object, message string) {
	if o.readySince.IsZero() {
		o.readySince = s.m.now
	}
	if s.removes() || s.Phase.Kind == event.PhaseHooks {
		s.setObject(g, o, event.Ready, message, "")
		return
	}
	h := s.holdOf(o)
	if h == nil {
		o.until = time.Time{}
		s.setObject(g, o, event.Ready, message, "")
		return
	}
	o.hasSettled = false
	if o.until = h.until; !h.until.IsZero() {
		s.m.heldObjects = append(s.m.heldObjects, heldObject{s, g, o, h.until})
	}
	s.setObject(g, o, event.InProgress, h.reason, "")
}

// setUnready records that an object is not ready by its rule.
func (o *object) setUnready() {
	o.readySince, o.until, o.hasSettled = time.Time{}, time.Time{}, false
	o.settles = false
}

// heldObject is an object to look at again at a time, because its hold ends then.
type heldObject struct {
	stage  *stage
	group  *group
	object *object
	at     time.Time
}

// nextHoldEnd returns when the next hold of an object, or the wait before the outcome, ends; zero for never.
func (m *machine) nextHoldEnd() (next time.Time) {
	m.heldObjects = slices.DeleteFunc(m.heldObjects, func(h heldObject) bool { return h.at != h.object.until })
	for _, h := range m.heldObjects {
		next = earliest(next, h.at)
	}
	if m.settling != nil {
		next = earliest(next, m.settling.until)
	}
	return next
}

// endHolds looks again at the objects whose hold has ended.
func (m *machine) endHolds() {
	held := m.heldObjects
	m.heldObjects = nil
	for _, h := range held {
		switch {
		case h.at != h.object.until: // a newer hold replaced it
		case m.now.Before(h.at):
			m.heldObjects = append(m.heldObjects, h)
		default:
			h.object.until = time.Time{}
			h.stage.dropCause(h.group, h.object)
			h.stage.assess(h.group, h.object)
		}
	}
}

// settling is the wait before the outcome of an operation whose groups are all ready: a workload whose pods show no readiness
// counts once its containers have run for Stage.Settle.
type settling struct {
	run       *StageRun
	until     time.Time
	notBefore time.Time // after an outage, because watches need time to report what they missed
	published time.Time // the last until that was published
	looked    time.Time // when the last look at the pods began, zero for none
	looking   bool
}

// look starts a look at the pods unless one has begun at due or later: what has settled is proven by the pods themselves, not
// by a watch that has reported nothing. It reports whether the outcome waits for a look.
func (m *machine) look(s *settling, due time.Time) bool {
	if s.looking || m.opts.LookAtPods == nil || !s.looked.IsZero() && !s.looked.Before(due) {
		return s.looking
	}
	if objects, lost := m.settlingObjects(); len(objects) > 0 {
		s.looking, s.looked = true, m.now
		m.emit(startLook{s, objects, lost})
	}
	return s.looking
}

// lookedAtPods judges the workloads again: a look reports only what is new about their pods.
func (m *machine) lookedAtPods(s *settling) {
	s.looking = false
	if m.settling != s {
		return
	}
	for _, s := range m.confirmable {
		for _, g := range s.groups {
			for _, o := range g.objects {
				if s.podsCount(g, o) {
					s.assess(g, o)
				}
			}
		}
	}
}

// settle waits until the workloads have settled, and then answers run. Their pods are looked at before and after the wait.
func (m *machine) settle(run *StageRun) {
	if m.settling == nil {
		m.settling = &settling{run: run}
	}
	s := m.settling
	s.until = time.Time{}
	until, g, o := m.settledAt()
	if o != nil && !m.outage.since.IsZero() { // nobody can say whether its containers still run
		s.notBefore = m.now.Add(catchUp)
	}
	until = latest(until, s.notBefore)
	if o == nil || !m.now.Before(until) {
		if m.look(s, until) {
			return
		}
		m.settling = nil
		m.setSettled()
		m.emit(endStage{run, nil})
		return
	}
	s.until = until
	if change := until.Sub(s.published).Abs(); change < time.Second || !m.outage.since.IsZero() {
		return
	}
	s.published = until
	obj := o.actual()
	m.publish(event.Event{Kind: event.KindWaiting, Phase: g.Phase, Group: g.Group, Object: &obj, Status: event.Ready,
		ReadyBy: event.BySettling, Until: until,
		Message: fmt.Sprintf("settling: %s left", until.Sub(m.now).Round(100*time.Millisecond))})
}

// settledAt returns when the last workload of the operation has settled, and which that is, nil if there is nothing to wait for.
func (m *machine) settledAt() (until time.Time, group *group, last *object) {
	for _, s := range m.confirmable {
		for _, g := range s.groups {
			for _, o := range g.objects {
				if at := s.settlesAt(g, o); at.After(until) {
					until, group, last = at, g, o
				}
			}
		}
	}
	if limit := m.operationTimeout(); limit > 0 && last != nil {
		if end := m.now.Add(limit - settleMargin - m.clock.active(m.now)); end.Before(until) {
			until = end
		}
	}
	return until, group, last
}

// settlingObjects returns the objects of the operation whose pods, if they have any, decide about the outcome, and those of
// them that have lost a pod: their own status may not say so yet.
func (m *machine) settlingObjects() (objects, lost []plan.Object) {
	for _, s := range m.confirmable {
		for _, g := range s.groups {
			for _, o := range g.objects {
				if !s.podsCount(g, o) {
					continue
				}
				objects = append(objects, o.actual())
				if !o.lost.IsZero() {
					lost = append(lost, o.actual())
				}
			}
		}
	}
	return objects, lost
}

// podsCount reports whether the pods of an object decide about the outcome.
func (s *stage) podsCount(g *group, o *object) bool {
	return g.await && !o.wait.Never && o.last.RestartsCount() && (s.Ends == nil || !s.Ends(g.def))
}

// settlesAt returns when a workload has settled, zero if it need not or if that was before.
func (s *stage) settlesAt(g *group, o *object) (at time.Time) {
	if s.Settle == 0 || !s.podsCount(g, o) {
		return at
	}
	if !o.lost.IsZero() {
		at = o.lost.Add(catchUp)
	}
	if !o.pods.Started.IsZero() {
		at = latest(at, o.pods.Started.Add(s.Settle))
	}
	if at.IsZero() || !s.m.now.Before(at) && !o.settles {
		return time.Time{}
	}
	o.settles = true
	return at
}

// setSettled publishes that the workloads that were waited for have settled.
func (m *machine) setSettled() {
	for _, s := range m.confirmable {
		for _, g := range s.groups {
			for _, o := range g.objects {
				if o.settles && o.status == event.Ready {
					o.hasSettled = true
					s.setObject(g, o, event.Ready, o.message, "")
				}
			}
		}
	}
}

// stopSettling ends the wait before the outcome, because something ends the run.
func (m *machine) stopSettling(cause error) {
	if m.settling != nil {
		m.emit(endStage{m.settling.run, &StageError{Cause: cause}})
		m.settling = nil
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
