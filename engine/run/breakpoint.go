package run

import (
	"slices"
	"strings"

	"lockstep/engine/event"
)

// breakpoint is the state of a unit's breakpoint (R42).
type breakpoint uint8

const (
	noBreakpoint       breakpoint = iota
	breakpointSet                 // pauses the run, and stays set
	breakpointOnce                // pauses the run, then is cleared: the target of a run-to
	breakpointDisabled            // does not pause the run, but can be enabled again
)

// breakpointRequested reports whether the options ask for a breakpoint at a group.
func (m *machine) breakpointRequested(id string) bool { return slices.Contains(m.opts.Breakpoints, id) }

func (u *unit) mustPause() bool {
	return !u.reached && (u.breakpoint == breakpointSet || u.breakpoint == breakpointOnce)
}

func (m *machine) setBreakpoint(u *unit, b breakpoint) {
	u.breakpoint = b
	status := event.Set
	switch b {
	case noBreakpoint:
		status = event.Cleared
	case breakpointDisabled:
		status = event.Disabled
	default:
		u.reached = u.status == event.AtBreakpoint
	}
	m.publish(event.Event{Kind: event.KindBreakpoint, Phase: u.Phase, Group: u.Group, Status: status})
}

// pauseAtBreakpoints pauses the run if any of the units that could start has a breakpoint, and
// reports whether it did.
//
// Rule R42: a breakpoint pauses the whole run when its unit could start
func (m *machine) pauseAtBreakpoints(units []*unit) bool {
	var ids []string
	for _, u := range units {
		if u.mustPause() {
			u.reached = true
			m.setUnit(u, event.AtBreakpoint, "breakpoint")
			if u.breakpoint == breakpointOnce {
				m.setBreakpoint(u, noBreakpoint)
			}
			ids = append(ids, u.Group)
		}
	}
	if len(ids) == 0 {
		return false
	}
	m.steering.pause("breakpoint " + strings.Join(ids, ", "))
	m.reportRun()
	return true
}

// toggleBreakpoint clears a breakpoint, or disables it, or else sets it.
func (m *machine) toggleBreakpoint(target event.Unit, disable bool) string {
	u, why := m.unstarted(target)
	next := breakpointSet
	switch {
	case why != "":
		return why
	case disable && u.breakpoint == noBreakpoint:
		return u.Group + " has no breakpoint"
	case disable && u.breakpoint != breakpointDisabled:
		next = breakpointDisabled
	case !disable && u.breakpoint != noBreakpoint:
		next = noBreakpoint
	}
	m.setBreakpoint(u, next)
	return ""
}

// runTo continues until a unit could start. Other breakpoints still pause the run.
func (m *machine) runTo(target event.Unit) string {
	if m.steering.reported == event.Held {
		return m.heldRefusal()
	}
	u, why := m.unstarted(target)
	switch {
	case why != "":
		return why
	case u.status == event.AtBreakpoint || slices.Contains(m.startable(), u):
		return u.Group + " is already the next group"
	}
	if !u.mustPause() {
		b := breakpointOnce
		if u.breakpoint == breakpointSet { // reached before; keep it
			b = breakpointSet
		}
		m.setBreakpoint(u, b)
	}
	if m.steering.reported == event.Paused {
		return m.resume()
	}
	return ""
}
