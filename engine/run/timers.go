package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// windDownTime is how long requests in flight may take after an abort, an edit or the timeout. After that
// they are cancelled, so that an unreachable API server cannot block the run.
const windDownTime = 10 * time.Second

// timeouts is the state of the operation's timeout, its wind-down and the heartbeat.
type timeouts struct {
	expired         bool          // the run is winding down because of the operation's timeout
	windDownStarted bool          // endRetries was sent
	nextHeartbeat   time.Duration // in active time
	cancelAt        time.Time     // when requests in flight are cancelled, zero for never
	cancelled       bool          // they were cancelled
	// cancelledRequests counts the requests that ended because of that.
	cancelledRequests int
	granted           time.Duration // by which holds at the timeout have extended it
	proof             *proof        // nil unless the timeout has passed and the run looks whether that fails it
}

// proof reads what the run waits for at the timeout of the operation, because a watch may have stalled unnoticed.
type proof struct {
	reading int       // groups of which an object is being read
	until   time.Time // then it is not waited for any longer: the API server may hang
}

// proofTime limits a proof.
const proofTime = 5 * time.Second

// wake returns the time of the next tick, zero for never. Nothing measured in active time is due
// while the run is paused or held.
func (m *machine) wake() time.Time {
	t := &m.timeouts
	if m.closing {
		return m.outage.reportAt
	}
	if !t.cancelAt.IsZero() {
		return t.cancelAt
	}
	next := earliest(earliest(earliest(m.nextDiagnosis(), m.outage.reportAt), m.keeping.again), m.nextHoldEnd())
	if !m.clock.stopped.IsZero() || m.steering.ending != nil {
		return next
	}
	wakeAt := func(c *clock, active time.Duration) {
		if c.stopped.IsZero() {
			next = earliest(next, m.now.Add(max(active-c.active(m.now), 0)))
		}
	}
	if t.proof != nil { // tick does nothing else until then
		return earliest(next, t.proof.until)
	}
	if limit := m.operationTimeout(); limit > 0 && !t.expired {
		wakeAt(&m.clock, limit)
	}
	if s := m.stage; s != nil {
		if m.opts.Heartbeat > 0 {
			wakeAt(&m.clock, t.nextHeartbeat)
		}
		if d := s.nextDeadline(); d != nil {
			wakeAt(&m.readinessClock, d.at)
		}
	}
	return next
}

// earliest returns the earlier of two times; zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// operationTimeout returns the timeout of the operation. If it has passed during a lenient removal,
// the removal gets windDownTime more to delete the rest.
func (m *machine) operationTimeout() time.Duration {
	limit := m.opts.Operation.Timeout
	if limit > 0 {
		limit += m.timeouts.granted
	}
	if m.stage != nil && m.stage.operationTimedOut {
		limit += windDownTime
	}
	return limit
}

// goneGrace is how long a lenient removal waits for an object if no other group waits for its
// group. Most objects disappear at once, or as soon as a controller has acted.
const goneGrace = 2 * time.Second

// setDeadline starts the readiness timeout of an object, or restarts it.
//
// Rule R25: both timeouts count only active time: an object's from its apply, the operation's from its start
func (s *stage) setDeadline(g *group, o *object) {
	limit, _ := s.readinessTimeout(o)
	if s.Lenient && o.request == requestSucceeded && len(g.dependents) == 0 {
		limit = goneGrace
	}
	if limit <= 0 {
		return
	}
	o.deadline = s.addDeadline(deadline{group: g, object: o, at: s.m.readinessClock.active(s.m.now) + limit})
}

// addDeadline inserts a deadline after the others of the same time, but one of a first status before them: it comes first.
func (s *stage) addDeadline(d deadline) *deadline {
	s.insertDeadline(&d)
	return &d
}

func (s *stage) insertDeadline(d *deadline) {
	after := d.at + 1
	if d.firstStatus {
		after = d.at
	}
	i, _ := slices.BinarySearchFunc(s.deadlines, after, func(other *deadline, at time.Duration) int {
		return cmp.Compare(other.at, at)
	})
	s.deadlines = slices.Insert(s.deadlines, i, d)
}

// readinessTimeout returns the time in which an object must become ready, and what sets it: its own limit comes before
// the one of the operation. 0 is no limit.
func (s *stage) readinessTimeout(o *object) (limit time.Duration, source string) {
	if s.ObjectTimeout > 0 && o.wait.Timeout > 0 {
		return o.wait.Timeout, o.wait.Source
	}
	return s.ObjectTimeout, string(event.LimitObject)
}

// stopWaitingFor stops waiting for an object that is still being deleted, without a failure (R30).
func (s *stage) stopWaitingFor(g *group, o *object) {
	o.notAwaited = true
	s.settle(g, o)
	s.endGroup(g)
}

// stopWaitingForAll ends all waits of a lenient removal, including future ones.
func (s *stage) stopWaitingForAll() {
	s.operationTimedOut = true
	for _, g := range s.groups {
		g.await = false
		for _, o := range g.objects {
			s.settle(g, o)
		}
		s.endGroup(g)
	}
}

// nextDeadline returns the first deadline, nil for none. A group whose objects are being read has none. It removes deadlines
// that do not matter any more from the front.
func (s *stage) nextDeadline() *deadline {
	for len(s.deadlines) > 0 && !s.deadlines[0].matters() {
		s.deadlines = s.deadlines[1:]
	}
	i := slices.IndexFunc(s.deadlines, func(d *deadline) bool { return !d.group.refreshing && d.matters() })
	if i < 0 {
		return nil
	}
	return s.deadlines[i]
}

// matters reports whether the deadline was not restarted, and its group still waits for the object.
func (d *deadline) matters() bool {
	return !d.outdated() && d.group.status == event.Running && !d.object.settled
}

// tick performs all actions that are due.
func (m *machine) tick() {
	if m.closing {
		m.reportOutage()
		return
	}
	t := &m.timeouts
	if !t.cancelAt.IsZero() && !m.now.Before(t.cancelAt) {
		t.cancelAt = time.Time{}
		m.cancelRequests()
	}
	m.startDiagnoses()
	m.reportOutage()
	m.endHolds()
	if !m.clock.stopped.IsZero() || m.steering.ending != nil {
		return
	}
	active := m.clock.active(m.now)
	if limit := m.operationTimeout(); limit > 0 && active >= limit && !t.expired {
		if !m.proveTimeout() {
			m.timeOut()
		}
		return
	}
	if m.stage == nil {
		return
	}
	m.stage.expireDeadlines()
	if m.opts.Heartbeat > 0 && active >= t.nextHeartbeat {
		m.restartHeartbeat()
		m.publishHeartbeat(m.stage)
	}
}

// cancelRequests cancels the requests in flight. Groups do not fail because of that.
func (m *machine) cancelRequests() {
	m.timeouts.cancelled = true
	m.emit(cancelRequests{})
}

// timeOut handles the timeout of the operation. A lenient removal stops waiting. Anything else fails: the failures hold the
// run if it holds on failures (R44), and from then on it has its timeout once more.
func (m *machine) timeOut() {
	s, limit := m.stage, m.operationTimeout()
	switch {
	case s != nil && s.Lenient && !s.operationTimedOut:
		s.stopWaitingForAll()
		return
	case s != nil && m.opts.HoldOnFailure && !s.operationTimedOut && len(s.waiting()) > 0:
		m.timeouts.granted += m.opts.Operation.Timeout
	default:
		m.timeouts.expired = true
	}
	m.failUnready(limit)
}

// proveTimeout reports whether it is not known yet that the run has not become ready within the timeout of the operation. It
// reads the objects that the run waits for, one of each group at a time, unless the API server is known to be unreachable, or a
// lenient removal stops waiting for them.
func (m *machine) proveTimeout() bool {
	s, p := m.stage, m.timeouts.proof
	if p != nil {
		if m.now.Before(p.until) {
			return true
		}
		m.timeouts.proof = nil
		return false
	}
	if s == nil || m.opts.Refresh == nil || !m.outage.since.IsZero() || s.Lenient && !s.operationTimedOut {
		return false
	}
	p = &proof{until: m.now.Add(proofTime)}
	for _, g := range s.waiting() {
		if s.readUnsettled(p, g) {
			p.reading++
		}
	}
	if p.reading > 0 {
		m.timeouts.proof = p
	}
	return p.reading > 0
}

// readUnsettled reads the first object that keeps a group from being ready. It returns false if there is none, or if it has not
// been applied: the group fails without a look.
func (s *stage) readUnsettled(p *proof, g *group) bool {
	i := slices.IndexFunc(g.objects, func(o *object) bool { return !o.settled })
	if g.status != event.Running || i < 0 || g.objects[i].request != requestSucceeded {
		return false
	}
	s.m.emit(startRefresh{&deadline{group: g, object: g.objects[i], proof: p}})
	return true
}

// proved handles an object that was read at the timeout of the operation. After the last one it times out, unless all is ready.
func (s *stage) proved(d *deadline) {
	t := &s.m.timeouts
	if t.proof != d.proof || d.object.settled && s.readUnsettled(d.proof, d.group) {
		return
	}
	if d.proof.reading--; d.proof.reading > 0 {
		return
	}
	t.proof = nil
	if s.m.clock.stopped.IsZero() && s.m.steering.ending == nil && !s.allEnded() {
		s.m.timeOut()
	}
}

// expireDeadlines reads the objects whose deadline has passed, one of each group at a time, because a watch or the API server
// may have stalled unnoticed. It does not read those for which a lenient removal stops waiting, because that is no failure.
func (s *stage) expireDeadlines() {
	for {
		d := s.nextDeadline()
		if d == nil || !s.isDue(d) {
			return
		}
		i := slices.Index(s.deadlines, d)
		s.deadlines = slices.Delete(s.deadlines, i, i+1)
		if s.m.opts.Refresh == nil || s.stopsWaiting(d) {
			s.expire(d)
			continue
		}
		d.group.refreshing = true
		s.m.emit(startRefresh{d})
	}
}

func (s *stage) isDue(d *deadline) bool {
	readiness := &s.m.readinessClock
	return readiness.stopped.IsZero() && s.m.steering.ending == nil && d.at <= readiness.active(s.m.now)
}

// refreshed handles a deadline that had passed when its object was read. An outage may have set the clock back meanwhile.
func (s *stage) refreshed(d *deadline) {
	if d.proof != nil {
		s.proved(d)
		return
	}
	d.group.refreshing = false
	switch {
	case s.m.stage != s || !d.matters():
	case s.isDue(d):
		s.expire(d)
	default:
		s.insertDeadline(d)
	}
}

// stopsWaiting reports whether a removal stops waiting for the object at the deadline.
func (s *stage) stopsWaiting(d *deadline) bool {
	return s.Lenient && d.object.request == requestSucceeded && !d.firstStatus
}

// expire handles a deadline that has passed: the group fails, or its controller has written no status, or a lenient removal
// stops waiting for the object.
func (s *stage) expire(d *deadline) {
	switch {
	case d.firstStatus:
		s.stopAwaitingStatus(d.group, d.object)
	case s.stopsWaiting(d):
		s.stopWaitingFor(d.group, d.object)
	default:
		limit, source := s.readinessTimeout(d.object)
		s.failUnready(d.group, d.object, event.Timeout{After: limit, Flag: source})
	}
}

// failUnready fails a group at a timeout, because of an object that is not settled.
func (s *stage) failUnready(g *group, o *object, t event.Timeout) {
	missing := string(s.goal(g))
	switch {
	case o.request == requestSucceeded:
	case s.removes():
		missing = "deleted"
	default:
		missing = "applied"
	}
	state, kind := o.message, causeUnknown
	if o.inFlight && o.retryError != "" { // a diagnosis would be of the object as it was before
		state, kind = o.retryError, causeKnown
	}
	s.fail(g, o, &failure{reason: text.CollapseSpace(cmp.Or(state, "not "+missing)), reasonKind: kind, Failure: Failure{Timeout: &t}})
}

// failUnready fails every running group at the timeout of the operation, because of its
// first object that is not settled.
func (m *machine) failUnready(limit time.Duration) {
	if m.stage == nil {
		return
	}
	expired := event.Timeout{After: limit, Flag: string(event.LimitOperation)}
	if !m.outage.since.IsZero() {
		expired.Away, expired.AwayWhy = m.now.Sub(m.outage.since), m.outage.reason
	}
	unready := map[*group]*object{}
	groups := m.stage.waiting()
	for _, g := range groups {
		if i := slices.IndexFunc(g.objects, func(o *object) bool { return !o.settled }); i >= 0 {
			unready[g] = g.objects[i]
		}
	}
	vagueness := func(g *group) int {
		if o := unready[g]; o != nil {
			return expired.Vagueness(o.explained())
		}
		return 0
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return vagueness(a) - vagueness(b) }) // the first one is the reason of the run's end
	for _, g := range groups {
		if o := unready[g]; o != nil {
			m.stage.failUnready(g, o, expired)
		}
	}
}
