package run

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lockstep/engine/event"
)

// Rule R14: a group starts as soon as its own gates are open, whatever else runs
func (m *machine) startUnits() {
	m.continueStarted()
	switch status, _ := m.runStatus(); status {
	case event.Running:
		for m.startOpenUnits() { // an empty group ends at once and opens gates
		}
	case event.Paused:
		m.takeStep()
	}
	if m.cohort != nil { // all groups that start at this moment have started
		m.stage.send(m.cohort.groups[0])
	}
}

// continueStarted handles units that have already started: the second gate of a unit, and the
// stage of an admitted unit.
func (m *machine) continueStarted() {
	for len(m.admissions) > 0 {
		u, _ := m.units.add(m.admissions[0].unit)
		if u.status != event.Running {
			break
		}
		m.openGate()
	}
	s := m.stage
	if s == nil {
		return
	}
	s.open = slices.DeleteFunc(s.open, func(g *group) bool { return g.attempt.number > 0 })
	for _, g := range slices.Clone(s.open) { // an empty group ends at once and opens others
		if g.status == event.Running {
			s.begin(g)
		}
	}
}

func (s *stage) addOpen(g *group) {
	at, listed := slices.BinarySearchFunc(s.open, g, func(a, b *group) int { return cmp.Compare(a.place, b.place) })
	if !listed {
		s.open = slices.Insert(s.open, at, g)
	}
}

// startable returns the units that could start now, in plan order, ignoring pauses and Options.Groups.
func (m *machine) startable() (open []*unit) {
	if len(m.admissions) > 0 {
		u, _ := m.units.add(m.admissions[0].unit)
		open = append(open, u)
	}
	if s := m.stage; s != nil && !s.failing() {
		for _, g := range s.open {
			if g.pendingGates == 0 && (g.status == event.Waiting || g.status == event.Held) {
				open = append(open, g.unit)
			}
		}
	}
	return open
}

func (m *machine) free() int {
	if m.opts.Groups <= 0 || m.stage == nil {
		return math.MaxInt
	}
	return max(0, m.opts.Groups-m.stage.running())
}

// startOpenUnits starts all units that can start, unless one of them has a breakpoint. It
// reports whether a unit started.
func (m *machine) startOpenUnits() bool {
	open := m.startable()
	open = open[:min(m.free(), len(open))]
	if m.pauseAtBreakpoints(open) {
		return false
	}
	m.start(open)
	return len(open) > 0
}

// takeStep starts the unit of a step once it can start.
func (m *machine) takeStep() {
	open := m.startable()
	if !m.steering.step || len(open) == 0 || m.free() == 0 {
		return
	}
	u := m.steering.stepUnit
	if u == nil {
		u = open[0]
	}
	m.steering.step, m.steering.stepUnit = false, nil
	m.start([]*unit{u})
}

func (m *machine) start(open []*unit) {
	for _, u := range open {
		u.reached = true
		m.setUnit(u, event.Running, "")
		if len(m.admissions) > 0 && m.admissions[0].unit == u.Unit {
			m.openGate()
		} else {
			m.stage.begin(m.stage.by[u.Group])
		}
	}
}

func (m *machine) openGate() {
	m.do(admitReplied{m.admissions[0], nil})
	m.admissions = m.admissions[1:]
}

// begin starts an attempt at a group whose status is already Running. Its requests are sent
// once all groups that start at this moment have started.
func (s *stage) begin(g *group) {
	if s.m.cohort == nil {
		s.m.cohort = &cohort{}
	}
	s.m.cohort.join(g)
	g.attempt = attempt{number: g.attempt.number + 1, round: g.attempt.round + 1, open: len(g.objects), undone: len(g.objects)}
	for _, o := range g.objects {
		o.reply, o.settled, o.done, o.unchanged, o.released, o.since = noReply, false, false, false, false, s.m.now
		o.found, o.diagnoseAt = Finding{}, time.Time{}
		o.pace.reset()
		o.ignoreEarlier()
	}
	if !g.watched {
		g.watched = true
		s.m.do(startWatch{g})
	}
	g.updateTurn()
	s.endGroup(g) // if it is empty
}

// ignoreEarlier makes the object ignore earlier observations in its next apply or after its failure.
func (o *object) ignoreEarlier() {
	o.version, o.fresh = max(o.version, o.last.Version), false
	if o.last.Status == event.Failed {
		o.last = Observation{}
	}
}
