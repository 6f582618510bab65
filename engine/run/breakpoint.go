package run

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
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
	var reasons []string
	for _, u := range units {
		if !u.pausesRun() {
			continue
		}
		u.reached = true
		reason := event.Breakpoint
		if u.breakpoint == breakpointOnce {
			reason = event.RunToTarget
		}
		why := m.whyAtBreakpoint(u, reason)
		m.setUnitFor(u, event.AtBreakpoint, why, reason)
		if u.breakpoint == breakpointOnce {
			m.setBreakpoint(u, noBreakpoint)
		}
		if why != reason {
			reasons = append(reasons, why)
			continue
		}
		reached[reason] = append(reached[reason], u.Group)
	}
	for _, reason := range slices.Sorted(maps.Keys(reached)) {
		reasons = append(reasons, reason+" "+strings.Join(reached[reason], ", "))
	}
	return m.pauseFor(reasons, false)
}

// whyAtBreakpoint is Event.Message of a unit before which the run pauses.
func (m *machine) whyAtBreakpoint(u *unit, reason string) string {
	if reason == event.RunToTarget || m.rollback.started {
		return reason
	}
	return cmp.Or(m.opts.PausesBefore[u.Group], reason)
}

// forgetAnswered removes, for an edited revision, the breakpoints that the plan itself has set before groups that have started since:
// the user has let them go, and has seen what the edit changes. A breakpoint of the user's on the same group stays (R42).
func (m *machine) forgetAnswered() {
	m.opts.PausesBefore = maps.Clone(m.opts.PausesBefore)
	for _, u := range m.units.all {
		if m.opts.PausesBefore[u.Group] == "" || u.unstarted() || u.status == event.Skipped || u.breakpoint != breakpointSet {
			continue
		}
		delete(m.opts.PausesBefore, u.Group)
		if at := slices.Index(m.opts.Breakpoints, u.Group); at >= 0 && !slices.Contains(m.opts.Breakpoints[at+1:], u.Group) {
			m.setBreakpoint(u, noBreakpoint)
		}
	}
}

// pauseFor pauses the run if there are reasons, and reports whether there are.
func (m *machine) pauseFor(reasons []string, unapproved bool) bool {
	if len(reasons) == 0 {
		return false
	}
	m.steered = true
	m.steering.pause(strings.Join(reasons, "; "), "")
	m.steering.unapproved = unapproved
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

// missing returns what must still be approved before a unit starts. The rollback of a failed operation asks nobody.
func (m *machine) missing(u *unit) (missing []plan.Approval) {
	if m.rollback.started {
		return nil
	}
	return event.Missing(u.asks.approvals, m.approved)
}

func (m *machine) unapproved(u *unit) bool { return len(m.missing(u)) > 0 }

// askApprovals sets what must be approved before a unit starts, and approves what Options.Approve names.
func (m *machine) askApprovals(u *unit, asked []plan.Approval) {
	u.asks.approvals = asked
	if slices.Contains(m.opts.Approve, u.Group) {
		m.approve(u, event.Command{Via: "--approve"})
	}
}

// pauseForApprovals pauses the run if one of the startable units waits for an approval, and reports whether it did.
//
// Rule R42a: a group that asks for an approval pauses the run when it could start, and starts only once it is approved
func (m *machine) pauseForApprovals(units []*unit) bool {
	var reasons []string
	for _, u := range units {
		if missing := m.missing(u); len(missing) > 0 {
			if u.asks.since.IsZero() { // else an earlier process has asked
				u.asks.since = m.now
			}
			m.setUnitFor(u, event.AtBreakpoint, phrase.Missing(missing), event.Unapproved)
			reasons = append(reasons, phrase.ApprovalOf(u.Group, missing))
		}
	}
	return m.pauseFor(reasons, true)
}

// approveCommand approves what the named unit waits for or, without a name, what all units do that pause the run.
func (m *machine) approveCommand(c event.Command) (refusal string) {
	if m.opts.Operation.Approvals != nil && c.Proven == nil {
		return "the approvals of this run are written to the cluster, by somebody else than who started it: " + text.Program + " ctl " + m.opts.Operation.Release + " approve"
	}
	units := m.pausedForApproval()
	if c.Group != "" {
		u, refusal := m.unstarted(c.Unit())
		switch {
		case refusal != "":
			return refusal
		case len(u.asks.approvals) == 0:
			return u.Group + " asks for no approval"
		case !m.unapproved(u):
			return u.Group + " is already approved"
		}
		units = []*unit{u}
	}
	if len(units) == 0 {
		return "no " + m.opts.Operation.GroupNoun() + " waits for an approval; name one to approve it beforehand"
	}
	for _, u := range units {
		m.approve(u, c)
	}
	if m.steering.unapproved && len(m.pausedForApproval()) == 0 {
		return m.resume()
	}
	m.reportRun()
	return ""
}

// approve records that what a unit still waits for, or the proven approval of that, is approved.
func (m *machine) approve(u *unit, c event.Command) {
	by := c.By
	if by == "" || by == event.AnotherTerminal {
		by = text.Join(", ", m.opts.Author, cmp.Or(c.By, c.Via))
	}
	for _, a := range m.missing(u) {
		if c.Proven != nil && *c.Proven != a {
			continue
		}
		m.give(u.Unit, event.Approval{Approval: a, By: by, At: m.now})
	}
}

func (m *machine) give(u event.Unit, given event.Approval) {
	m.approved = append(m.approved, given)
	m.publish(event.Event{Kind: event.KindApproval, Phase: u.Phase, Group: u.Group, Status: event.Accepted, Approval: &given})
}

// pausedForApproval returns the units before which the run has paused because they are not approved.
func (m *machine) pausedForApproval() (units []*unit) {
	for _, u := range m.startable() {
		if u.status == event.AtBreakpoint && m.unapproved(u) {
			units = append(units, u)
		}
	}
	return units
}

// askedSince returns since when the run is paused because a unit is not approved, zero if it is not.
func (m *machine) askedSince() (first time.Time) {
	if !m.steering.unapproved {
		return first
	}
	for _, u := range m.pausedForApproval() {
		if first.IsZero() || u.asks.since.Before(first) {
			first = u.asks.since
		}
	}
	return first
}

// passNoReturn records that the run has passed a point of no return.
//
// Rule R33a: past a point of no return, no rollback starts without its reason
func (m *machine) passNoReturn(u event.Unit, reason string) {
	if reason == "" || m.rollback.started || slices.Contains(m.noReturn, reason) {
		return
	}
	m.noReturn, m.steered = append(m.noReturn, reason), true
	m.publish(event.Event{Kind: event.KindNoReturn, Phase: u.Phase, Group: u.Group, Message: reason})
}

// barred returns the reasons of the points of no return that the run has passed, "" if there are none or the user has given
// them: with the command, which may be nil, or with Options.
func (m *machine) barred(c *event.Command) string {
	passed := plan.JoinReasons(m.noReturn...)
	if passed == m.opts.PastNoReturn || c != nil && passed == c.PastNoReturn {
		return ""
	}
	return passed
}
