package run

import (
	"slices"

	"lockstep/engine/event"
)

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
	reachedBefore             bool // reached when the earlier process ended
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
