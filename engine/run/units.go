package run

import (
	"slices"

	"lockstep/engine/event"
)

// unit is what runs as one (R40).
type unit struct {
	event.Unit
	status event.Status
	stop   bool // a breakpoint is set on it
	off    bool // it is disabled
	once   bool // it goes when it is reached
	// stopped tells that the run has stopped before it: its breakpoint is over.
	stopped bool
	// unchecked tells that it is over once its objects are applied (R21).
	unchecked bool
}

// units are all that were announced, in order.
type units struct {
	all []*unit
	by  map[event.Unit]*unit
}

// add returns the unit of that name, and whether it was not known.
func (us *units) add(id event.Unit) (u *unit, added bool) {
	if u := us.by[id]; u != nil {
		return u, false
	}
	if us.by == nil {
		us.by = map[event.Unit]*unit{}
	}
	u = &unit{Unit: id, status: event.Waiting}
	us.all, us.by[id] = append(us.all, u), u
	return u, true
}

// unchecked counts the units that are applied and that nobody has seen ready (R21).
func (us *units) unchecked() (n int) {
	for _, u := range us.all {
		if u.unchecked && u.status == event.Applied {
			n++
		}
	}
	return n
}

// named finds the unit that a command names. Where it names no phase, that is the
// first one of the id that fits, else the first one of the id; nil where there is
// none.
func (us *units) named(id event.Unit, fits func(*unit) bool) *unit {
	if id.Phase != "" {
		return us.by[id]
	}
	var first *unit
	for _, u := range us.all {
		switch {
		case u.Group != id.Group:
		case fits(u):
			return u
		case first == nil:
			first = u
		}
	}
	return first
}

// stopsAt reports whether the options ask for a breakpoint on every unit of that
// id.
func (m *machine) stopsAt(id string) bool { return slices.Contains(m.opts.Breakpoints, id) }

// stops reports whether the run has to stop before the unit.
func (u *unit) stops() bool { return u.stop && !u.off && !u.stopped }

func (m *machine) setBreakpoint(u *unit, on bool) {
	u.stop, u.off, u.once = on, false, false
	status := event.Cleared
	if on {
		status = event.Set
		u.stopped = u.status == event.Held
	}
	m.publish(event.Event{Kind: event.KindBreakpoint, Phase: u.Phase, Group: u.Group, Status: status})
}
