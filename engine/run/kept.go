package run

import (
	"reflect"
	"slices"

	"lockstep/engine/event"
)

// Steering is what commands and breakpoints have decided about a run. Another process that continues the run starts
// from it (Options.Kept).
type Steering struct {
	Paused bool   `json:"paused,omitempty"`
	Why    string `json:"why,omitempty"` // why it is paused
	// Step is set while a step waits for its unit: StepUnit, or if that is nil, the next one.
	Step     bool        `json:"step,omitempty"`
	StepUnit *event.Unit `json:"stepUnit,omitempty"`
	// Passed are the units that may start although the run is paused, because they had started before.
	Passed      []event.Unit     `json:"passed,omitempty"`
	Breakpoints []KeptBreakpoint `json:"breakpoints,omitempty"`
	// Accepted units were re-checked without applying them, GivenUp ones stay failed (R44).
	Accepted []event.Unit `json:"accepted,omitempty"`
	GivenUp  []event.Unit `json:"givenUp,omitempty"`
	// Ending is the accepted command that ends the run, Rollback the rollback that has started.
	Ending   *KeptEnding   `json:"ending,omitempty"`
	Rollback *KeptRollback `json:"rollback,omitempty"`
}

// KeptBreakpoint is the breakpoint of a unit: event.Set, event.RunToTarget or event.Disabled, or event.Cleared if the
// unit has none although Options ask for one.
type KeptBreakpoint struct {
	event.Unit
	Status  event.Status `json:"status"`
	Reached bool         `json:"reached,omitempty"` // it has paused the run, and does not pause it again
	Waiting bool         `json:"waiting,omitempty"` // the run is paused there
}

// KeptEnding is a command that ends a run. Edit is set if an edited revision follows (R46).
type KeptEnding struct {
	Name   event.CommandName `json:"command"`
	Reason string            `json:"reason,omitempty"`
	By     string            `json:"by,omitempty"`
	Edit   event.EditID      `json:"-"`
}

func keptEnding(c *event.Command) *KeptEnding {
	if c == nil {
		return nil
	}
	return &KeptEnding{c.Name, c.Reason, c.By, c.Edit}
}

// Command returns the command again.
func (e *KeptEnding) Command() event.Command {
	return event.Command{Name: e.Name, Reason: e.Reason, By: e.By, Edit: e.Edit, KnowsRollback: true}
}

// KeptRollback is a rollback that has started.
type KeptRollback struct {
	Cause string `json:"cause"`
	// By is the command that started it, nil after a failure.
	By *KeptEnding `json:"by,omitempty"`
}

// ForEdit returns the steering of the edited revision that replaces the running one: a pause and breakpoints stay.
func (s Steering) ForEdit() Steering {
	edited := Steering{Paused: s.Paused, Why: s.Why}
	for _, b := range s.Breakpoints {
		if b.Reached, b.Waiting = false, false; b.Status != event.RunToTarget {
			edited.Breakpoints = append(edited.Breakpoints, b)
		}
	}
	return edited
}

var breakpointStatus = map[breakpoint]event.Status{
	noBreakpoint: event.Cleared, breakpointSet: event.Set, breakpointOnce: event.RunToTarget, breakpointDisabled: event.Disabled,
}

// steeringNow returns the steering to keep. Without a pause, only breakpoints that the run has passed matter.
func (m *machine) steeringNow() Steering {
	s := Steering{Paused: m.steering.paused, Why: m.steering.why, Step: m.steering.step}
	if u := m.steering.stepUnit; u != nil {
		s.StepUnit = &u.Unit
	}
	s.Ending = keptEnding(m.steering.ending)
	if m.rollback.started {
		s.Rollback = &KeptRollback{m.rollback.cause, keptEnding(m.rollback.by)}
	}
	for _, u := range m.units.all {
		if s.Paused && (u.passed || !u.unstarted() && u.status != event.Skipped) {
			s.Passed = append(s.Passed, u.Unit)
		}
		asked := slices.Contains(m.opts.Breakpoints, u.Group) || slices.Contains(m.opts.DisabledBreakpoints, u.Group)
		if waiting := u.status == event.AtBreakpoint; u.breakpoint != noBreakpoint || waiting || asked {
			s.Breakpoints = append(s.Breakpoints, KeptBreakpoint{u.Unit, breakpointStatus[u.breakpoint], u.reached, waiting})
		}
		if u.accepted {
			s.Accepted = append(s.Accepted, u.Unit)
		}
		if u.givenUp {
			s.GivenUp = append(s.GivenUp, u.Unit)
		}
	}
	return s
}

// keep makes the engine keep the steering before it performs the other effects of the current message.
//
// Rule S13: an accepted command is kept before it takes effect, and the process that continues the run starts from it
func (m *machine) keep() {
	if m.opts.Keep == nil || !m.steered || m.ended {
		return
	}
	m.steered = false
	if now := m.steeringNow(); !reflect.DeepEqual(now, m.kept) {
		m.kept = now
		m.effects = slices.Insert(m.effects, 0, effect(keepSteering{now}))
	}
}

// restore starts the run as Options.Kept says. A kept rollback is restored when it starts.
func (m *machine) restore() {
	k := m.opts.Kept
	if k.Paused {
		m.steering.pause(k.Why)
	}
	m.steering.step = k.Step
	m.reportRun()
}

// restoreUnit restores what Options.Kept says about an announced unit. It reports whether it says anything about the
// unit's breakpoint.
func (m *machine) restoreUnit(u *unit) (breakpointKnown bool) {
	k := m.opts.Kept
	if k == nil || (k.Rollback != nil) != m.rollback.started {
		return false
	}
	is := func(id event.Unit) bool { return id == u.Unit }
	u.passed = slices.ContainsFunc(k.Passed, is)
	u.accepted = slices.ContainsFunc(k.Accepted, is)
	u.givenUp = slices.ContainsFunc(k.GivenUp, is)
	if k.StepUnit != nil && is(*k.StepUnit) && m.steering.step {
		m.steering.stepUnit = u
	}
	i := slices.IndexFunc(k.Breakpoints, func(b KeptBreakpoint) bool { return is(b.Unit) })
	if i < 0 {
		u.reachedBefore = u.passed
		u.reached = u.passed
		return false
	}
	b := k.Breakpoints[i]
	for kind, status := range breakpointStatus {
		if status == b.Status && kind != noBreakpoint {
			m.setBreakpoint(u, kind)
		}
	}
	u.reachedBefore = b.Reached || u.passed
	if u.reached = u.reachedBefore; b.Waiting && k.Paused {
		m.setUnit(u, event.AtBreakpoint, "breakpoint")
	}
	return true
}

// startPassed starts the units that had started before the process that paused the run ended.
func (m *machine) startPassed() {
	for {
		units := slices.DeleteFunc(m.startable(), func(u *unit) bool { return !u.passed })
		if units = units[:min(m.groupSlots(), len(units))]; len(units) == 0 {
			return
		}
		m.start(units)
	}
}
