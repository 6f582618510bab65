package run

import (
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// machine is the state machine of a run: a message comes in with its time, effects come out. It
// never blocks, reads no clock and starts no goroutines.
type machine struct {
	opts     Options
	now      time.Time // of the current message
	effects  []effect
	steering steering
	clock    clock
	// readinessClock is the clock of readiness timeouts: it stops whenever clock stops, and while
	// the API server is unreachable.
	readinessClock clock
	outage         outage
	units          units
	approved       []event.Approval
	noReturn       []string     // the reasons of the points of no return that the run has passed (R33a)
	admissions     []*admission // the oldest first
	stage          *stage       // nil between stages
	confirmable    []*stage     // ended without a failure since the operation, the edited revision or the rollback started
	cohort         *cohort      // groups that started since the current message came in, nil if none
	timeouts       timeouts
	rollback       rollback
	epoch          int                  // counts rollbacks and edited revisions; observations of an earlier epoch are ignored
	removed        map[plan.Object]bool // by this epoch, and not brought back since: that they go is no change by others
	firstFailure   *Failure             // of a group that stayed failed; it explains the end of the run
	failed         string               // why the run fails, "" while it may succeed
	keeping        keeping
	steered        bool // the steering may differ from the kept one
	closing        bool // the run ends, and accepts no more commands
	ended          bool
	silentKinds    map[plan.GroupKind]bool // a warning says that their controllers write no status (R22a)
	settling       *settling               // nil unless the run waits for workloads to settle (R22c)
	heldObjects    []heldObject            // objects that are ready, but not for long enough (R22c)
}

type rollback struct {
	started bool
	// warned is set after the first interrupt during a rollback (R43).
	warned bool
	cause  string
	by     *event.Command // the command that started it, nil after a failure
	origin *event.Origin  // of that command
}

// newMachine returns a machine whose first effects are the opening events.
func newMachine(opts Options, now time.Time) *machine {
	if opts.MaxRequests <= 0 {
		opts.MaxRequests = 32
	}
	m := &machine{opts: opts, now: now, clock: clock{start: now}, readinessClock: clock{start: now}}
	m.steering.reported = event.Running
	m.publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &opts.Operation})
	if opts.Kept != nil {
		opts.NoReturn = slices.Concat(opts.NoReturn, opts.Kept.NoReturn)
	}
	for _, reason := range opts.NoReturn {
		m.passNoReturn(event.Unit{}, reason)
	}
	switch {
	case opts.Kept != nil && opts.Kept.Rollback == nil:
		m.restore()
	case opts.Kept != nil: // restored when the rollback starts
	case opts.Paused:
		m.steering.pause("before the first "+opts.Operation.GroupNoun(), "")
		m.reportRun()
	}
	if m.keeping.last = m.steeringNow(); opts.Kept != nil {
		m.keeping.last, m.failed = *opts.Kept, opts.Kept.Failure
	}
	return m
}

// handle processes one message and returns the effects. The slice is valid until the next call.
func (m *machine) handle(now time.Time, msg message) []effect {
	m.now = now
	m.cohort = nil
	clear(m.effects)
	m.effects = m.effects[:0]
	if m.ended {
		return nil
	}
	switch msg := msg.(type) {
	case announced:
		m.announce(msg.phases)
	case admitRequested:
		m.admissions = append(m.admissions, msg.admission)
	case stageStarted:
		m.startStage(msg.stage, msg.run)
	case confirmRequested:
		m.confirm(msg.run)
	case answered:
		msg.request.stage.answer(msg.request, msg.response, msg.err)
	case nameFreed:
		msg.request.stage.nameFreed(msg.request)
	case observed:
		msg.group.stage.observe(msg.group, msg.observation)
	case diagnosed:
		msg.diagnosis.stage.diagnosed(msg.diagnosis, msg.found)
	case commanded:
		if !m.closing {
			m.command(msg.command)
		}
	case noReturnPassed:
		m.passNoReturn(event.Unit{}, msg.reason)
	case failed:
		m.fail(msg)
	case steeringKept:
		m.steeringKept(msg.err)
	case serverUnreachable:
		m.serverUnreachable(msg.since, msg.proven, msg.reason)
	case serverReachable:
		m.serverReachable()
	case refreshed:
		msg.deadline.group.stage.refreshed(msg.deadline)
	case lookedAtPods:
		m.lookedAtPods(msg.settling)
	case ticked:
		m.tick()
	case transitionRequested:
		m.steered = true
		m.emit(replyTransition{msg.reply, msg.transition(m)})
	}
	if m.keeping.decided != nil {
		return m.effects
	}
	m.advance()
	m.keep()
	return m.effects
}

func (m *machine) emit(e effect)         { m.effects = append(m.effects, e) }
func (m *machine) publish(e event.Event) { m.emit(publish{event: e}) }

func (m *machine) announce(phases []event.Phase) {
	m.publish(event.Event{Kind: event.KindPlan, Phases: phases})
	for g := range event.Groups(phases) {
		u, added := m.units.getOrAdd(g.Unit())
		u.hasGate = len(g.WaitFor) > 0
		m.askApprovals(u, g.Approve)
		switch {
		case !added || m.restoreUnit(u):
		case slices.Contains(m.opts.Breakpoints, g.ID):
			m.setBreakpoint(u, breakpointSet)
		case slices.Contains(m.opts.DisabledBreakpoints, g.ID):
			m.setBreakpoint(u, breakpointDisabled)
		}
	}
}

func (m *machine) setUnit(u *unit, s event.Status, message string) { m.setUnitFor(u, s, message, "") }

// setUnitFor is setUnit with an Event.Code.
func (m *machine) setUnitFor(u *unit, s event.Status, message, code string) {
	u.status = s
	m.restartHeartbeat()
	m.publish(event.Event{Kind: event.KindGroup, Phase: u.Phase, Group: u.Group, Status: s, Message: message, Code: code})
}

// skipUnit ends a unit that did not run to its end, as skipped or aborted.
func (m *machine) skipUnit(u *unit, s event.Status, skip event.Skip) {
	u.status = s
	m.restartHeartbeat()
	m.publish(event.Event{Kind: event.KindGroup, Phase: u.Phase, Group: u.Group, Status: s,
		Message: phrase.SkipMessage(s, skip), Skip: &skip})
}

func (m *machine) failUnit(g *group, f Failure) {
	u := g.shown()
	u.status = event.Failed
	m.restartHeartbeat()
	m.publish(event.Event{Kind: event.KindGroup, Phase: u.Phase, Group: u.Group, Status: event.Failed,
		Message: f.Object.String() + ": " + f.Message, Object: &f.Object, Cause: f.Cause, Evidence: f.Evidence, Limit: f.Timeout.Limit(), Timeout: f.Timeout, Outside: g.gated != nil})
}

// advance starts units, sends requests and ends the stage, as far as that is possible now.
func (m *machine) advance() {
	if m.closing {
		return
	}
	if m.windingDown() {
		m.windDown()
		return
	}
	if m.timeouts.proof != nil { // nothing starts after the timeout; a group that was retried meanwhile waits for its answer
		if m.cohort != nil {
			m.stage.queueDueWaves(m.cohort)
		}
		return
	}
	m.startUnits()
	m.openGates()
	s := m.stage
	if s == nil {
		if m.settling != nil {
			m.confirm(m.settling.run)
		}
		return
	}
	s.sendQueued()
	s.reportApplied()
	if !s.waitingForAnswers() && m.heldFailure() == nil && (s.failed() || s.allEnded()) {
		s.close(nil)
	}
}

// windingDown reports whether nothing more may start until a rollback or an edited revision.
func (m *machine) windingDown() bool { return m.steering.ending != nil || m.timeouts.expired }

// windDown ends the stage after an abort, an edit or the timeout, as soon as no request and no diagnosis of a
// failure is running (R43).
func (m *machine) windDown() {
	var cause error
	switch {
	case m.replacing():
		cause = ErrReplaced
	case m.steering.ending != nil:
		cause = fmt.Errorf("%w%s", ErrAborted, phrase.Whence(m.steering.ending.Origin()))
	default:
		cause = fmt.Errorf("%w after %s (--timeout)", ErrTimeout, m.opts.Operation.Timeout)
	}
	for _, a := range m.admissions {
		m.emit(replyAdmit{a, cause})
	}
	m.admissions = nil
	if !m.timeouts.windDownStarted { // even between stages: Helm sends requests then
		m.timeouts.windDownStarted = true
		m.timeouts.cancelAt = m.now.Add(windDownTime)
		if m.steering.ending == nil && m.stage != nil && m.stage.operationTimedOut { // its requests already had windDownTime
			m.timeouts.cancelAt = m.now
		}
		m.emit(endRetries{cause})
	}
	m.stopSettling(cause)
	if s := m.stage; s != nil {
		s.queue = nil
		s.closeGates()
		if !s.waitingForAnswers() {
			s.close(cause)
		}
	}
}

// startRollback starts the rollback of a failed or aborted operation. It is refused if a
// command ended the run without a rollback.
func (m *machine) startRollback(op event.Operation, reason string) error {
	if a := m.steering.ending; a != nil && a.Name != event.Rollback {
		return ErrAborted
	}
	if k := m.opts.Kept; m.barred(m.steering.ending) != "" && (k == nil || k.Rollback == nil) {
		return ErrNoReturn
	}
	m.endUnits(m.skipCause(event.SkippedByRollback))
	for _, u := range m.units.all {
		if u.breakpoint != noBreakpoint {
			m.setBreakpoint(u, noBreakpoint)
		}
	}
	m.failed = ""
	m.opts.Breakpoints = nil
	m.opts.DisabledBreakpoints = nil
	m.opts.Operation.Timeout = op.Timeout
	m.rollback = rollback{started: true, cause: reason, by: m.steering.ending}
	if m.rollback.by != nil {
		m.rollback.origin = m.origin()
	}
	m.startOver()
	m.publish(event.Event{Kind: event.KindOperation, Status: event.RollingBack, Operation: &op, Message: reason, Origin: m.rollback.origin})
	if k := m.opts.Kept; k != nil && k.Rollback != nil {
		m.restore()
	}
	return nil
}

// startEditedRevision ends the replaced revision and starts the edited one. A paused run stays
// paused (R46).
func (m *machine) startEditedRevision(op event.Operation, reason string, phases []event.Phase) error {
	if !m.replacing() {
		return ErrAborted
	}
	m.forgetAnswered()
	m.endUnits(event.Skip{By: event.SkippedByEdit})
	m.opts.Breakpoints = m.units.withBreakpoint(breakpointSet)
	m.opts.DisabledBreakpoints = m.units.withBreakpoint(breakpointDisabled)
	m.units, m.approved, m.opts.Approve = units{}, nil, nil // what was approved was another revision
	m.opts.Kept = nil
	m.firstFailure, m.failed = nil, ""
	m.opts.Operation = op
	paused := m.steering.paused
	m.startOver()
	m.publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &op, Message: text.CollapseSpace(reason)})
	m.announce(phases)
	if paused {
		m.steering.pause(fmt.Sprintf("before the first group of revision %d", op.Revision), "")
		m.reportRun()
	}
	return nil
}

// startOver resets requests, steering and clocks for a rollback or an edited revision.
func (m *machine) startOver() {
	m.emit(resetRequests{})
	m.epoch++
	m.confirmable, m.heldObjects, m.removed = nil, nil, nil
	m.steering = steering{reported: event.Running}
	m.timeouts = timeouts{}
	m.clock = clock{start: m.now}
	m.readinessClock = clock{start: m.now}
	m.updateClocks()
}

// fail records why the run fails.
func (m *machine) fail(msg failed) {
	reply := func(err error) { m.emit(replyTransition{msg.reply, err}) }
	m.steered = true
	if m.steering.ending == nil && m.failed == "" {
		m.failed = text.CollapseSpace(msg.cause)
	}
	m.keepFirst(func() { reply(nil) }, reply)
}

// close makes the run accept no more commands, unless an accepted one contradicts the end.
//
// Rule R48: accepted commands take effect; the closing event is the last
func (m *machine) close(status event.Status) error {
	if !m.closing && m.steering.ending != nil && status != event.Aborted {
		return ErrAborted
	}
	m.closing = true
	return nil
}
