package run

import "lockstep/engine/event"

// unit is a unit of steering (R40).
type unit struct {
	event.Unit
	status     event.Status
	breakpoint breakpoint
	// reached means that the run has reached the unit: its breakpoint does not pause the run again.
	reached bool
	// unchecked means that the unit ends once its objects are applied (R21).
	unchecked bool
}

// units are all announced units, in order.
type units struct {
	all  []*unit
	byID map[event.Unit]*unit
}

// add returns the unit with that id, and whether it is new.
func (us *units) add(id event.Unit) (u *unit, added bool) {
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

func (us *units) unchecked() (n int) {
	for _, u := range us.all {
		if u.unchecked && u.status == event.Applied {
			n++
		}
	}
	return n
}

// find returns the unit that a command names, or nil. Without a phase it prefers the first
// matching unit with that id.
func (us *units) find(id event.Unit, match func(*unit) bool) *unit {
	if id.Phase != "" {
		return us.byID[id]
	}
	var first *unit
	for _, u := range us.all {
		switch {
		case u.Group != id.Group:
		case match(u):
			return u
		case first == nil:
			first = u
		}
	}
	return first
}
