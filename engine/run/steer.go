package run

import (
	"fmt"
	"slices"

	"lockstep/engine/event"
)

// steering is what the commands have asked for. What the run is by it, running,
// paused, held or aborting, is derived (runStatus), so that the pause to return
// to after a hold is never lost.
type steering struct {
	paused bool
	why    string // it is paused
	// step is a unit that may start while the run is paused: the next one that
	// can, or the one that is named.
	step     bool
	stepUnit *unit
	abort    *event.Command
	// told is the status of the run that was last published, with its message.
	reported        event.Status
	reportedMessage string
}

func (s *steering) pause(why string) { s.paused, s.why = true, why }

// command obeys a command and answers it.
//
// Rule R45: every command is answered by an event
func (m *machine) command(c event.Command) {
	answer := event.Event{Kind: event.KindCommand, Command: c.Name, By: c.By, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Accepted}
	stops := m.rollback.begun && (c.Name == event.Abort || c.Name == event.Rollback)
	if why := m.execute(c); why != "" {
		answer.Status, answer.Message = event.Refused, why
	} else if stops {
		answer.Message = "the rollback was stopped"
	}
	m.publish(answer)
}

// execute carries out a command, or returns why it is refused.
func (m *machine) execute(c event.Command) string {
	switch {
	case c.Name == event.Abort || c.Name == event.Rollback || c.Name == event.Stop:
		return m.abort(c)
	case m.replacing():
		return "an edited revision is about to start"
	case m.steering.abort != nil:
		return "the run is being aborted"
	case m.timeouts.over:
		return "the operation has timed out"
	}
	switch c.Name {
	case event.Pause:
		return m.pause(c.Reason)
	case event.Resume:
		return m.resume()
	case event.Step:
		return m.step(c.Unit())
	case event.RunTo:
		return m.runTo(c.Unit())
	case event.Break:
		return m.toggleBreakpoint(c.Unit())
	case event.Disable:
		return m.disableBreakpoint(c.Unit())
	case event.Accept, event.Retry, event.GiveUp:
		return m.decide(c.Name, c.Unit())
	case event.Edit:
		return m.edit(c)
	}
	return fmt.Sprintf("unknown command %q", c.Name)
}

// runStatus is what the run is, and why.
func (m *machine) runStatus() (event.Status, string) {
	s := &m.steering
	if m.replacing() {
		return event.Replacing, "replaced by an edited revision"
	}
	if s.abort != nil {
		return event.Aborting, s.abort.Reason
	}
	if f := m.heldFailure(); f != nil {
		return event.Held, f.Group + ": " + f.Object.String() + ": " + f.Message
	}
	if s.paused {
		return event.Paused, s.why
	}
	return event.Running, ""
}

// reportRun tells what the run is where that is news, and lets its clock count or
// stand still (R25).
func (m *machine) reportRun() {
	status, message := m.runStatus()
	if status == m.steering.reported && message == m.steering.reportedMessage {
		return
	}
	m.steering.reported, m.steering.reportedMessage = status, message
	m.keepTime()
	m.publish(event.Event{Kind: event.KindRun, Status: status, Message: message})
}

// Rule R40: a pause lets what is in flight continue and starts no further unit
func (m *machine) pause(reason string) string {
	if m.steering.reported != event.Running {
		return "the run is " + string(m.steering.reported) + " already"
	}
	m.steering.pause(reason)
	m.reportRun()
	return ""
}

// heldAnswer is what there is instead of a command that a hold refuses (R44).
const heldAnswer = "the run is held on a failure: re-check it, retry it, stop here, or abort"

func (m *machine) resume() string {
	switch m.steering.reported {
	case event.Held:
		return heldAnswer
	case event.Running:
		return "the run is not paused"
	}
	s := &m.steering
	s.paused, s.why, s.step, s.stepUnit = false, "", false, nil
	for _, u := range m.units.all {
		if u.status == event.Held {
			m.setUnit(u, event.Waiting, "")
		}
	}
	m.reportRun()
	return ""
}

// step lets one unit go.
//
// Rule R41: exactly one, the first in plan order whose gates are open, or the one named
func (m *machine) step(named event.Unit) string {
	switch m.steering.reported {
	case event.Running:
		return "the run is not paused; pause it first"
	case event.Held:
		return heldAnswer
	}
	if named.Group == "" {
		if m.steering.step {
			return "already waiting to step; nothing can start " + m.before()
		}
		m.steering.step = true // it takes effect when the next gate opens
		return ""
	}
	open := m.startable()
	u := m.units.named(named, func(u *unit) bool { return slices.Contains(open, u) })
	switch {
	case u == nil:
		return fmt.Sprintf("no group %q", named.Group)
	case u.status != event.Waiting && u.status != event.Held:
		return u.Group + " has started already"
	case !slices.Contains(open, u):
		return u.Group + " cannot start " + m.before()
	}
	m.steering.step, m.steering.stepUnit = true, u
	return ""
}

// before names what has to be over before anything can start.
func (m *machine) before() string {
	if m.stage != nil {
		for _, g := range m.stage.groups {
			if g.status == event.Running {
				return "before " + g.Group + " is over"
			}
		}
	}
	return "yet"
}

// ahead finds the unit that a command about what is to come names, or says why
// there is none.
func (m *machine) ahead(named event.Unit) (u *unit, why string) {
	fits := func(u *unit) bool { return u.status == event.Waiting || u.status == event.Held }
	u = m.units.named(named, fits)
	switch {
	case u == nil:
		return nil, fmt.Sprintf("no group %q", named.Group)
	case !fits(u):
		return nil, u.Group + " has started already"
	}
	return u, ""
}

// toggleBreakpoint sets a breakpoint or takes it away.
func (m *machine) toggleBreakpoint(named event.Unit) string {
	u, why := m.ahead(named)
	switch {
	case why != "":
		return why
	case u.breakpoint == noBreakpoint:
		m.setBreakpoint(u, breakpointSet)
	default:
		m.setBreakpoint(u, noBreakpoint)
	}
	return ""
}

// disableBreakpoint lets a breakpoint stop nothing, or stop again.
func (m *machine) disableBreakpoint(named event.Unit) string {
	u, why := m.ahead(named)
	switch {
	case why != "":
		return why
	case u.breakpoint == noBreakpoint:
		return u.Group + " has no breakpoint"
	case u.breakpoint == breakpointDisabled:
		m.setBreakpoint(u, breakpointSet)
	default:
		m.setBreakpoint(u, breakpointDisabled)
	}
	return ""
}

// runTo continues until a unit could start. Breakpoints on the way there stop as
// ever.
func (m *machine) runTo(named event.Unit) string {
	if m.steering.reported == event.Held {
		return heldAnswer
	}
	u, why := m.ahead(named)
	switch {
	case why != "":
		return why
	case u.status == event.Held || slices.Contains(m.startable(), u):
		return u.Group + " can start now: nothing runs before it"
	}
	if !u.stops() {
		b := breakpointOnce
		if u.breakpoint == breakpointSet { // it was reached, and stays
			b = breakpointSet
		}
		m.setBreakpoint(u, b)
	}
	if m.steering.reported == event.Paused {
		return m.resume()
	}
	return ""
}

// edit ends the revision, so that another one can begin.
//
// Rule R46: while paused or held, an edited revision takes the place of the running one
func (m *machine) edit(c event.Command) string {
	switch op := m.opts.Operation.Name; {
	case m.rollback.begun:
		return "cannot edit during a rollback"
	case op != "install" && op != "upgrade":
		return fmt.Sprintf("%s takes no values; nothing to edit", op)
	case m.steering.reported == event.Running:
		return "the run is not paused; pause it first"
	case c.Edit == 0:
		return "nothing was edited"
	}
	m.steering.abort, m.steering.step, m.steering.stepUnit = &c, false, nil
	m.reportRun()
	return ""
}

// replacing reports whether an edited revision is about to begin.
func (m *machine) replacing() bool {
	return m.steering.abort != nil && m.steering.abort.Name == event.Edit
}

// abort starts an abort, or makes one that is running stricter: a stop cancels
// the requests in flight as well, and takes the place of a rollback that has not
// begun. It is never made milder. All of them take the place of an edited revision
// that has not begun.
//
// Rule R43: nothing more starts; a rollback is stopped by the second interrupt
func (m *machine) abort(c event.Command) string {
	a := m.steering.abort
	switch {
	case a != nil && a.Name == event.Stop:
		return "the run is already being stopped"
	case m.rollback.begun && !m.rollback.warned && !c.Told:
		m.rollback.warned = true
		return "a rollback is running; repeat to stop it and leave everything as is"
	case m.rollback.begun:
		c.Name = event.Stop
	case a != nil && c.Name != event.Stop && !m.replacing():
		return "the run is already being aborted; stop it to also cancel requests in flight"
	}
	m.steering.abort, m.steering.step, m.steering.stepUnit = &c, false, nil
	if c.Name == event.Stop {
		m.do(cancelRequests{})
		m.steering.reported = "" // force another event: the abort is stricter now
	}
	m.reportRun()
	return ""
}
