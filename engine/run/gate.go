package run

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// addGate adds the gate of a group, if it has one, and returns what waits for the dependencies of the group: the gate, or
// else the group.
//
// A gate is a group of objects from outside the release. It is ready when they are, and until then the group waits for it.
// It sends no requests, and no command is about it. Its status is not published: the group is waiting, or failed.
//
// Rule R22d: a group starts once the objects outside the release that it waits for exist and are ready
func (s *stage) addGate(g *group) *group {
	if len(g.def.WaitFor) == 0 || s.WatchOutside == nil {
		return g
	}
	gate := &group{
		unit: &unit{Unit: g.Unit, status: event.Waiting}, def: &plan.Group{ID: g.Group, WaitFor: g.def.WaitFor}, stage: s,
		position: g.position, await: true, byObject: make(map[plan.Object]*object, len(g.def.WaitFor)),
		dependents: []*group{g}, gated: g,
	}
	for _, o := range g.def.WaitFor {
		obj := &object{Object: o, wait: g.def.WaitOf(o), status: event.Waiting, request: requestSucceeded}
		gate.objects = append(gate.objects, obj)
		gate.byObject[o] = obj
	}
	gate.attempt.unsettled, gate.attempt.notDone = len(gate.objects), len(gate.objects)
	g.pendingDependencies = 1
	s.gates = append(s.gates, gate)
	return gate
}

// shown returns the unit whose status is published: for a gate, that of the group behind it.
func (g *group) shown() *unit {
	if g.gated != nil {
		return g.gated.unit
	}
	return g.unit
}

// openGates starts to watch the objects of the gates whose dependencies are ready, also while the run is paused.
func (m *machine) openGates() {
	s := m.stage
	if s == nil || s.failing() {
		return
	}
	for _, gate := range s.gates {
		if gate.pendingDependencies == 0 && gate.status == event.Waiting && gate.gated.unstarted() {
			s.awaitGate(gate)
		}
	}
}

// awaitGate waits for the objects of a gate, with a new readiness timeout (R25).
func (s *stage) awaitGate(gate *group) {
	gate.status = event.Running
	if !gate.watched {
		gate.watched = true
		s.m.emit(startWatch{gate})
	}
	for _, o := range gate.objects {
		if o.since = s.m.now; o.status == event.Waiting {
			s.setObject(gate, o, event.InProgress, "", "")
		}
	}
	s.awaitAgain(gate)
}

// closeGate waits again for the objects of a gate whose group has not started, because one is no longer ready.
func (s *stage) closeGate(gate *group) {
	if s.closed || gate.status != event.Ready || gate.attempt.notDone == 0 || !gate.gated.unstarted() {
		return
	}
	gate.gated.pendingDependencies++
	s.candidates = slices.DeleteFunc(s.candidates, func(g *group) bool { return g == gate.gated })
	s.awaitGate(gate)
}

// closeGates ends the gates of a stage that ends.
func (s *stage) closeGates() {
	for _, gate := range s.gates {
		gate.status = event.Aborted
	}
}

// failedAtGate reports whether a group has failed without a start.
func (m *machine) failedAtGate(u *unit) bool {
	return m.stage != nil && slices.ContainsFunc(m.stage.failures, func(f *failure) bool { return f.group.gated != nil && f.group.shown() == u })
}

// waiting returns the groups and gates whose objects the run waits for.
func (s *stage) waiting() []*group {
	return slices.DeleteFunc(slices.Concat(s.groups, s.gates), func(g *group) bool { return g.status != event.Running })
}

// missingOutside returns the objects outside the release that keep a group from starting.
func (s *stage) missingOutside(g *group) (names []string) {
	for _, gate := range s.gates {
		for _, o := range gate.objects {
			if gate.gated == g && gate.status != event.Ready && !o.done {
				names = append(names, o.String())
			}
		}
	}
	return names
}
