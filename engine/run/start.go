package run

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// startUnits starts all units that may start now. While the run is paused, that is only the unit of
// a step.
//
// Rule R14: a group starts as soon as its own dependencies are ready, whatever else is running
func (m *machine) startUnits() {
	m.continueStarted()
	switch status, _ := m.runStatus(); status {
	case event.Running:
		for m.startNextUnits() { // again, because an empty group ends at once and may unblock others
		}
	case event.Paused:
		m.startPassed()
		m.takeStep()
	}
	if m.cohort != nil {
		m.stage.queueDueWaves(m.cohort)
	}
}

// continueStarted answers a repeated Admit for a running unit, and starts the attempts of groups
// that were admitted before their stage.
func (m *machine) continueStarted() {
	for len(m.admissions) > 0 {
		u, _ := m.units.getOrAdd(m.admissions[0].unit)
		if u.status != event.Running {
			break
		}
		m.admitNext()
	}
	s := m.stage
	if s == nil {
		return
	}
	s.candidates = slices.DeleteFunc(s.candidates, func(g *group) bool { return g.attempt.number > 0 })
	for _, g := range slices.Clone(s.candidates) { // an empty group ends at once and adds candidates
		if g.status == event.Running {
			s.startAttempt(g)
		}
	}
}

func (s *stage) addCandidate(g *group) {
	at, listed := slices.BinarySearchFunc(s.candidates, g, func(a, b *group) int { return cmp.Compare(a.position, b.position) })
	if !listed {
		s.candidates = slices.Insert(s.candidates, at, g)
	}
}

// startable returns the units that could start now, in plan order, ignoring pauses and Options.MaxGroups.
func (m *machine) startable() (units []*unit) {
	if len(m.admissions) > 0 {
		u, _ := m.units.getOrAdd(m.admissions[0].unit)
		units = append(units, u)
	}
	if s := m.stage; s != nil && !s.failing() {
		for _, g := range s.candidates {
			if g.pendingDependencies == 0 && (g.status == event.Waiting || g.status == event.AtBreakpoint) {
				units = append(units, g.unit)
			}
		}
	}
	return units
}

// groupSlots returns how many more groups may run under Options.MaxGroups.
func (m *machine) groupSlots() int {
	if m.opts.MaxGroups <= 0 || m.stage == nil {
		return math.MaxInt
	}
	return max(0, m.opts.MaxGroups-m.stage.running())
}

// startNextUnits starts all units that can start, unless one of them has a breakpoint. It
// reports whether any unit started.
func (m *machine) startNextUnits() bool {
	next := m.startable()
	next = next[:min(m.groupSlots(), len(next))]
	if m.pauseAtBreakpoints(next) || m.pauseForApprovals(next) {
		return false
	}
	m.start(next)
	return len(next) > 0
}

// takeStep starts the unit of a step once it can start.
func (m *machine) takeStep() {
	if !m.steering.step {
		return
	}
	startable := slices.DeleteFunc(m.startable(), m.unapproved)
	if only := m.steering.stepUnit; only != nil {
		startable = slices.DeleteFunc(startable, func(u *unit) bool { return u != only })
	}
	if len(startable) == 0 || m.groupSlots() == 0 {
		if m.stage == nil || !m.stage.failing() { // else no other unit will start
			m.steering.via, m.steering.by, m.steering.why = "", "", "step pending: starts the next "+m.opts.Operation.GroupNoun()+" as soon as one can start"
			m.reportRun()
		}
		return
	}
	m.steering.cancelStep()
	// The reason for the pause may name a breakpoint that the run has passed. event.State
	// clears it too.
	if !m.steering.unapproved {
		m.steering.why, m.steering.via, m.steering.by = "", "", ""
		m.steering.reportedMessage = ""
	}
	m.start(startable[:1])
}

func (m *machine) start(units []*unit) {
	m.steered = m.steered || m.steering.paused
	for _, u := range units {
		u.reached = true
		if u.hasGate && len(m.admissions) > 0 && m.admissions[0].unit == u.Unit { // it starts when its gate opens: after a step, even while the run is paused
			u.passed, u.reachedBefore = u.passed || m.steering.paused, true
			m.admitNext()
			continue
		}
		m.setUnit(u, event.Running, "")
		if len(m.admissions) > 0 && m.admissions[0].unit == u.Unit {
			m.admitNext()
		} else {
			m.stage.startAttempt(m.stage.byID[u.Group])
		}
	}
}

// admitNext lets the oldest Admit return.
func (m *machine) admitNext() {
	m.emit(replyAdmit{m.admissions[0], nil})
	m.admissions = m.admissions[1:]
}

// startAttempt starts an attempt at a group whose status is already Running. Its requests are
// queued once all groups that start at the same moment have joined the cohort (R15a).
func (s *stage) startAttempt(g *group) {
	if s.m.cohort == nil {
		s.m.cohort = &cohort{}
	}
	g.cohort = s.m.cohort
	g.attempt = attempt{
		number: g.attempt.number + 1, round: g.attempt.round + 1,
		unsettled: len(g.objects), notDone: len(g.objects),
	}
	for _, o := range g.objects {
		o.reset(s.m.now)
	}
	if !g.watched {
		g.watched = true
		s.m.emit(startWatch{g})
	}
	if g.accepted && s.Phase.Kind == event.PhaseApply { // when an earlier process held its failure
		s.recheck(g)
		return
	}
	g.offerWave()
	s.endGroup(g) // if it is empty
}

// reset prepares the object for a new attempt.
func (o *object) reset(now time.Time) {
	o.applied = o.applied || o.request == requestSucceeded
	o.request = requestNotSucceeded
	o.since = now
	o.settled = false
	o.done = false
	o.unchanged = false
	o.notAwaited = false
	o.found = Finding{}
	o.deadline = nil
	o.statusDeadline = nil
	o.statusOverdue = false
	o.setUnready()
	o.pace.reset()
	o.ignoreEarlier()
}

// ignoreEarlier makes the next attempt or re-check ignore a Failed observation and, if no attempt has
// applied the object, everything observed so far.
func (o *object) ignoreEarlier() {
	if !o.applied {
		o.version = max(o.version, o.last.Version)
		o.fresh = false
	}
	if o.last.Status == event.Failed {
		o.last = Observation{}
	}
}

// queueDueWaves queues the requests of all waves that are due in a cohort.
func (s *stage) queueDueWaves(c *cohort) {
	for _, g := range c.due() {
		a := &g.attempt
		w := g.def.Waves[a.wave]
		for _, o := range g.objects[a.queued : a.queued+w.Count] {
			s.queue = append(s.queue, request{s, g, o, a.number})
		}
		a.pending = w.Count
		a.queued += w.Count
		a.wave++
		g.offerWave()
	}
}

// sendQueued sends queued requests while there are free slots. Each object has at most one request
// in flight, so a retry waits for the request of the previous attempt (R44).
func (s *stage) sendQueued() {
	for i := 0; i < len(s.queue) && s.inFlight < s.m.opts.MaxRequests; {
		r := s.queue[i]
		stale := r.attempt != r.group.attempt.number || r.group.status != event.Running
		if r.object.inFlight && !stale {
			i++
			continue
		}
		if i == 0 {
			s.queue = s.queue[1:]
		} else {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		if !stale {
			s.startRequest(r)
		}
	}
}

func (s *stage) startRequest(r request) {
	status := event.Applying
	if s.removes() {
		status = event.Deleting
	}
	s.inFlight++
	r.object.inFlight, r.object.retryError = true, ""
	s.setObject(r.group, r.object, status, "", "")
	s.m.emit(sendRequest{r})
}

// unit is a group, the removal of a group, a hook, crds/ or the namespace. Pauses, steps and
// breakpoints apply to units (R40).
type unit struct {
	event.Unit
	status     event.Status
	breakpoint breakpoint
	reached    bool // it started, or its breakpoint has paused the run and does not pause it again
	unchecked  bool // it ends once its objects are applied (R21)
	notAwaited int  // the number of its objects that the run does not wait for (R22b)
	// passed means that it had started before, so a pause does not stop it. accepted and givenUp are decisions about
	// its failure (R44).
	passed, accepted, givenUp bool
	asks                      asks
	reachedBefore             bool // reached when the earlier process ended, or before its gate
	hasGate                   bool // it waits for objects outside the release before it starts (R22d)
}

// asks is what must be approved before a unit starts (R42a).
type asks struct {
	approvals []plan.Approval
	since     time.Time // when the run began to wait for them, zero if it has not
}

// units holds all units in the order in which they were announced.
type units struct {
	all  []*unit
	byID map[event.Unit]*unit
}

// getOrAdd returns the unit with the given id, and whether it is new.
func (us *units) getOrAdd(id event.Unit) (u *unit, added bool) {
	if u := us.byID[id]; u != nil {
		return u, false
	}
	if us.byID == nil {
		us.byID = map[event.Unit]*unit{}
	}
	u = &unit{Unit: id, status: event.Waiting}
	us.all = append(us.all, u)
	us.byID[id] = u
	return u, true
}

// countUnchecked returns the number of groups that were applied and not checked (R21).
func (us *units) countUnchecked() (n int) {
	for _, u := range us.all {
		if u.unchecked && u.status == event.Applied {
			n++
		}
	}
	return n
}

// countNotAwaited returns the number of objects that were applied and not waited for (R22b).
func (us *units) countNotAwaited() (n int) {
	for _, u := range us.all {
		if u.status == event.Ready || u.status == event.Applied {
			n += u.notAwaited
		}
	}
	return n
}

// withBreakpoint returns the ids of the groups whose breakpoint is b.
func (us *units) withBreakpoint(b breakpoint) (ids []string) {
	for _, u := range us.all {
		if u.breakpoint == b && !slices.Contains(ids, u.Group) {
			ids = append(ids, u.Group)
		}
	}
	return ids
}

// find returns the unit that a command names, or nil. If the command names no phase, it is the
// first preferred unit of the group, or else the group's first unit.
func (us *units) find(id event.Unit, preferred func(*unit) bool) *unit {
	if id.Phase != "" {
		return us.byID[id]
	}
	var first *unit
	for _, u := range us.all {
		switch {
		case u.Group != id.Group:
		case preferred(u):
			return u
		case first == nil:
			first = u
		}
	}
	return first
}
