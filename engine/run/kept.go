package run

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Steering is what commands and breakpoints have decided about a run. Another process that continues the run starts
// from it (Options.Kept).
type Steering struct {
	Paused bool   `json:"paused,omitempty"`
	Why    string `json:"why,omitempty"` // why it is paused
	Via    string `json:"via,omitempty"` // Origin.Via of the pause
	// Step is set while a step waits for its unit: StepUnit, or if that is nil, the next one.
	Step     bool        `json:"step,omitempty"`
	StepUnit *event.Unit `json:"stepUnit,omitempty"`
	// Passed are the units that may start although the run is paused, because they had started before.
	Passed      []event.Unit     `json:"passed,omitempty"`
	Approved    []event.Approval `json:"approved,omitempty"` // (R42a)
	Asked       []KeptAsked      `json:"asked,omitempty"`
	NoReturn    []string         `json:"noReturn,omitempty"` // (R33a)
	Breakpoints []KeptBreakpoint `json:"breakpoints,omitempty"`
	// Accepted units were re-checked without applying them, GivenUp ones stay failed (R44).
	Accepted []event.Unit `json:"accepted,omitempty"`
	GivenUp  []event.Unit `json:"givenUp,omitempty"`
	// Failure is why the run fails, "" while it may succeed. Ending is the accepted command that ends the run, Rollback the
	// rollback that has started.
	Failure  string        `json:"failure,omitempty"`
	Ending   *KeptEnding   `json:"ending,omitempty"`
	Rollback *KeptRollback `json:"rollback,omitempty"`
}

// KeptAsked is a unit that is not approved yet, and since when the run waits for that.
type KeptAsked struct {
	event.Unit
	Since time.Time `json:"since"`
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
	Via    string            `json:"via,omitempty"`
	Reason string            `json:"reason,omitempty"`
	By     string            `json:"by,omitempty"`
	Edit   event.EditID      `json:"-"`
	// PastNoReturn is that of the command.
	PastNoReturn string `json:"pastNoReturn,omitempty"`
}

func keptEnding(c *event.Command) *KeptEnding {
	if c == nil {
		return nil
	}
	return &KeptEnding{c.Name, c.Via, c.Reason, c.By, c.Edit, c.PastNoReturn}
}

// Command returns the command again.
func (e *KeptEnding) Command() event.Command {
	return event.Command{Name: e.Name, Via: e.Via, Reason: e.Reason, By: e.By, Edit: e.Edit, PastNoReturn: e.PastNoReturn, KnowsRollback: true}
}

// KeptRollback is a rollback that has started.
type KeptRollback struct {
	Cause string `json:"cause"`
	// By is the command that started it, nil after a failure.
	By *KeptEnding `json:"by,omitempty"`
}

// ForEdit returns the steering of the edited revision that replaces the running one: a pause and breakpoints stay.
func (s Steering) ForEdit() Steering {
	edited := Steering{Paused: s.Paused, Why: s.Why, Via: s.Via}
	for _, b := range s.Breakpoints {
		if b.Reached, b.Waiting = false, false; b.Status != event.RunToTarget {
			edited.Breakpoints = append(edited.Breakpoints, b)
		}
	}
	return edited
}

// Resumed returns the steering once the run has resumed.
func (s Steering) Resumed() Steering {
	s.Paused, s.Why, s.Via, s.Step, s.StepUnit = false, "", "", false, nil
	return s
}

var breakpointStatus = map[breakpoint]event.Status{
	noBreakpoint: event.Cleared, breakpointSet: event.Set, breakpointOnce: event.RunToTarget, breakpointDisabled: event.Disabled,
}

// steeringNow returns the steering to keep. Without a pause, only breakpoints that the run has passed matter.
func (m *machine) steeringNow() Steering {
	s := Steering{Paused: m.steering.paused, Why: m.steering.why, Via: m.steering.via, Step: m.steering.step, Approved: m.approved, NoReturn: m.noReturn}
	if m.steering.unapproved { // the next process pauses by itself
		s.Paused, s.Why = false, ""
	}
	if u := m.steering.stepUnit; u != nil {
		s.StepUnit = &u.Unit
	}
	s.Failure = m.failed
	s.Ending = keptEnding(m.steering.ending)
	if m.rollback.started {
		s.Rollback = &KeptRollback{m.rollback.cause, keptEnding(m.rollback.by)}
	}
	for _, u := range m.units.all {
		if s.Paused && (u.passed || !u.unstarted() && u.status != event.Skipped && !m.failedAtGate(u)) {
			s.Passed = append(s.Passed, u.Unit)
		}
		asked := slices.Contains(m.opts.Breakpoints, u.Group) || slices.Contains(m.opts.DisabledBreakpoints, u.Group)
		if waiting := u.status == event.AtBreakpoint && s.Paused; u.breakpoint != noBreakpoint || waiting || asked {
			s.Breakpoints = append(s.Breakpoints, KeptBreakpoint{u.Unit, breakpointStatus[u.breakpoint], u.reached, waiting})
		}
		if !u.asks.since.IsZero() && m.unapproved(u) {
			s.Asked = append(s.Asked, KeptAsked{u.Unit, u.asks.since})
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

// noteFailure records why the run fails. Failures that hold the run may be retried (R44).
func (s *stage) noteFailure() {
	m := s.m
	final := slices.IndexFunc(s.failures, func(f *failure) bool { return !m.opts.HoldOnFailure || !f.holds() })
	if final >= 0 && !m.rollback.started {
		f := s.failures[final]
		m.failed, m.steered = f.Group+": "+f.Object.String()+": "+f.Message, true
	}
}

// keeping is what the machine does about the steering that it keeps. The zero value means that all of it is kept.
type keeping struct {
	last    Steering // was kept last
	next    Steering // is being kept
	decided *undecided
	again   time.Time // when to try again, zero if the last attempt succeeded or none is needed
}

// undecided is a command, or the end of a failed run, that takes effect once it is kept. effects are those to perform then.
type undecided struct {
	effects []effect
	commit  func()
	refuse  func(error)
}

// keepRetry is how long the run waits before it keeps again what it has decided itself.
const keepRetry = 15 * time.Second

// keepFirst performs commit once the current steering is kept, and refuse if it cannot be kept. The effects so far wait too.
//
// Rule S13: a command, or the end of a failed run, is kept before it takes effect; the next process starts from it
func (m *machine) keepFirst(commit func(), refuse func(error)) {
	now := m.steeringNow()
	if m.opts.Keep == nil || reflect.DeepEqual(now, m.keeping.last) {
		commit()
		return
	}
	m.keeping.next, m.keeping.decided = now, &undecided{slices.Clone(m.effects), commit, refuse}
	m.effects = append(m.effects[:0], keepSteering{now})
}

// keep makes the engine keep what the run itself has decided before it performs the other effects of the current message. If
// that fails, the run tries again later: until then, the next process decides the same from what was kept before.
func (m *machine) keep() {
	k := &m.keeping
	if m.opts.Keep == nil || !m.steered || m.closing || m.now.Before(k.again) {
		return
	}
	m.steered = false
	if now := m.steeringNow(); reflect.DeepEqual(now, k.last) {
		k.again = time.Time{}
	} else {
		k.next = now
		m.effects = slices.Insert(m.effects, 0, effect(keepSteering{now}))
	}
}

// steeringKept handles the result of a keepSteering.
func (m *machine) steeringKept(err error) {
	k := &m.keeping
	decided := k.decided
	k.decided = nil
	if err == nil {
		k.last, k.again = k.next, time.Time{}
	}
	switch {
	case decided == nil && err != nil:
		if k.again.IsZero() {
			m.publish(event.Event{Kind: event.KindWarning, Rule: "S13", Message: text.CollapseSpace(fmt.Sprintf(
				"if this process is replaced, the next one does not know the state of the run: %v", err))})
		}
		m.steered, k.again = true, m.now.Add(keepRetry)
	case decided == nil:
	case err == nil:
		m.steered = true
		m.effects = append(m.effects, decided.effects...)
		decided.commit()
	default:
		decided.refuse(err)
	}
}

// decisions are what a command changes before it is kept.
type decisions struct {
	steering              steering
	rollback              rollback
	timeouts              timeouts
	clock, readinessClock clock
	units                 []unit
	approved              []event.Approval
}

func (m *machine) decisions() decisions {
	d := decisions{m.steering, m.rollback, m.timeouts, m.clock, m.readinessClock, make([]unit, len(m.units.all)), m.approved}
	for i, u := range m.units.all {
		d.units[i] = *u
	}
	return d
}

// undo restores the decisions before a command.
func (m *machine) undo(d decisions) {
	m.steering, m.rollback, m.timeouts, m.clock, m.readinessClock, m.approved = d.steering, d.rollback, d.timeouts, d.clock, d.readinessClock, d.approved
	for i := range d.units {
		*m.units.all[i] = d.units[i]
	}
	m.updateClocks()
}

// restore starts the run as Options.Kept says. A kept rollback is restored when it starts.
func (m *machine) restore() {
	k := m.opts.Kept
	for _, given := range k.Approved { // this process's events and record have them, too
		m.give(event.Unit{Group: given.Of}, given)
	}
	if k.Paused {
		m.steering.pause(k.Why, k.Via)
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
	if i := slices.IndexFunc(k.Asked, func(a KeptAsked) bool { return is(a.Unit) }); i >= 0 {
		u.asks.since = k.Asked[i].Since
	}
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
		m.setUnitFor(u, event.AtBreakpoint, m.whyAtBreakpoint(u, event.Breakpoint), event.Breakpoint)
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
