package run

import (
	"maps"
	"slices"
	"strings"

	"lockstep/engine/event"
)

// breakpoint is the state of a unit's breakpoint (R42).
type breakpoint uint8

const (
	noBreakpoint       breakpoint = iota
	breakpointSet                 // pauses the run
	breakpointOnce                // pauses the run, then is deleted: the target of a run-to
	breakpointDisabled            // does not pause the run until it is enabled
)

// pausesRun reports whether the unit's breakpoint pauses the run before it starts.
func (u *unit) pausesRun() bool {
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

// pauseAtBreakpoints pauses the run if one of the startable units has a breakpoint, and reports
// whether it did.
//
// Rule R42: a breakpoint pauses the whole run when its unit could start
func (m *machine) pauseAtBreakpoints(units []*unit) bool {
	reached := map[string][]string{} // groups by what pauses the run
	for _, u := range units {
		if !u.pausesRun() {
			continue
		}
		u.reached = true
		reason := event.Breakpoint
		if u.breakpoint == breakpointOnce {
			reason = event.RunToTarget
		}
		m.setUnitFor(u, event.AtBreakpoint, reason, reason)
		if u.breakpoint == breakpointOnce {
			m.setBreakpoint(u, noBreakpoint)
		}
		reached[reason] = append(reached[reason], u.Group)
	}
	if len(reached) == 0 {
		return false
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(reached)) {
		reasons = append(reasons, reason+" "+strings.Join(reached[reason], ", "))
	}
	m.steered = true
	m.steering.pause(strings.Join(reasons, "; "), "")
	m.reportRun()
	return true
}

// toggleBreakpoint sets a breakpoint on a unit, or deletes the one that it has.
func (m *machine) toggleBreakpoint(target event.Unit) (refusal string) {
	u, refusal := m.unstarted(target)
	switch {
	case refusal != "":
	case u.breakpoint == noBreakpoint:
		m.setBreakpoint(u, breakpointSet)
	default:
		m.setBreakpoint(u, noBreakpoint)
	}
	return refusal
}

// toggleDisabled disables the breakpoint of a unit, or enables a disabled one.
func (m *machine) toggleDisabled(target event.Unit) (refusal string) {
	u, refusal := m.unstarted(target)
	switch {
	case refusal != "":
	case u.breakpoint == noBreakpoint:
		refusal = u.Group + " has no breakpoint; set one first"
	case u.breakpoint == breakpointDisabled:
		m.setBreakpoint(u, breakpointSet)
	default:
		m.setBreakpoint(u, breakpointDisabled)
	}
	return refusal
}

// runTo resumes the run until the given unit could start. Other breakpoints still pause it earlier.
func (m *machine) runTo(target event.Unit) string {
	u, refusal := m.unstarted(target)
	switch {
	case refusal != "":
		return refusal
	case u.status == event.AtBreakpoint || slices.Contains(m.startable(), u):
		refusal = u.Group + " can already start"
		if m.steering.reported == event.Paused {
			refusal += "; step or resume the run"
		}
		return refusal
	}
	if !u.pausesRun() {
		b := breakpointOnce
		if u.breakpoint == breakpointSet { // it has paused the run before: keep it
			b = breakpointSet
		}
		m.setBreakpoint(u, b)
	}
	if m.steering.reported == event.Paused {
		return m.resume()
	}
	return ""
}
