package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
)

// steering is the state that commands set. runStatus derives the status of the run from it and from
// the failures, so that a pause survives a hold.
type steering struct {
	paused bool
	why    string // why it is paused
	via    string // Origin.Via of the pause, by its Origin.By
	by     string
	// unapproved means that it is paused because a unit is not approved (R42a).
	unapproved bool
	// step allows one unit to start while the run is paused: stepUnit or, if that is nil,
	// the next startable one.
	step     bool
	stepUnit *unit
	ending   *event.Command // see Engine.EndingCommand
	// reported is the last published status of the run.
	reported        event.Status
	reportedMessage string
	reportedSince   time.Time // see machine.askedSince
}

func (s *steering) pause(why, via string) {
	s.paused, s.why, s.via, s.by, s.unapproved = true, why, via, "", false
}

func (s *steering) cancelStep() {
	s.step = false
	s.stepUnit = nil
}

// Rule R45: every command is answered by an event
func (m *machine) command(c event.Command) {
	answer := event.Event{
		Kind: event.KindCommand, Command: c.Name, By: c.By, Reason: text.CollapseSpace(c.Reason), Answers: c.ID,
		Phase: c.Phase, Group: c.Group, Status: event.Accepted,
	}
	m.steered = true
	stops := m.rollback.started && (c.Name == event.Abort || c.Name == event.Rollback)
	before, refuse := m.decisions(), func(why string) {
		answer.Status, answer.Message = event.Refused, why
		m.publish(answer)
	}
	if r := m.execute(c); r.why != "" {
		answer.Code, answer.Hold = r.code, r.hold
		refuse(r.why)
		return
	}
	if e := m.steering.ending; c.Name == event.Rollback && e != nil && e.Name == event.Abort { // c.OrKeep
		answer.Message = phrase.NotRolledBack(m.barred(e))
	}
	commit := func() {
		switch c.Name {
		case event.Accept, event.Retry, event.GiveUp:
			m.resolveFailures(c.Name, c.Unit())
		}
		if stops {
			answer.Message = "the rollback was stopped"
		}
		m.publish(answer)
		if c.Accepted != nil {
			m.emit(reportAccepted{c})
		}
	}
	if c.ID == event.InternalID { // it follows from what is kept already
		commit()
		return
	}
	m.keepFirst(commit, func(err error) {
		m.undo(before)
		refuse(text.CollapseSpace("it could not be kept for the process that may continue the run: " + err.Error()))
	})
}

// refusal is why a command is refused, "" if it is accepted. Code and hold are those of the answer.
type refusal struct {
	why  string
	code string
	hold *event.Hold
}

// execute executes a command. Until the command is kept, it changes only decisions.
func (m *machine) execute(c event.Command) refusal {
	switch {
	case c.Name == event.Abort || c.Name == event.Rollback || c.Name == event.Stop:
		return m.abort(c)
	case m.replacing():
		return refusal{why: "an edited revision is about to start"}
	case m.steering.ending != nil:
		return refusal{why: "the run is being aborted"}
	case m.timeouts.expired:
		return refusal{why: "the operation has timed out"}
	case m.steering.reported == event.Held && (c.Name == event.Resume || c.Name == event.Step || c.Name == event.RunTo):
		hold := m.hold()
		return refusal{why: phrase.Hold(hold, nil), hold: &hold}
	}
	return refusal{why: m.steer(c)}
}

// steer executes a command that doesn't end the run.
func (m *machine) steer(c event.Command) (why string) {
	switch c.Name {
	case event.Pause:
		return m.pause(c)
	case event.Resume:
		return m.resume()
	case event.Step:
		return m.step(c.Unit())
	case event.RunTo:
		return m.runTo(c.Unit())
	case event.Break:
		return m.toggleBreakpoint(c.Unit())
	case event.Disable:
		return m.toggleDisabled(c.Unit())
	case event.Accept, event.Retry, event.GiveUp:
		return m.decideOnFailures(c.Name, c.Unit())
	case event.Edit:
		return m.edit(c)
	case event.Approve:
		return m.approveCommand(c)
	}
	return fmt.Sprintf("unknown command %q", c.Name)
}

// runStatus returns the status of the run, and the reason for it.
func (m *machine) runStatus() (event.Status, string) {
	s := &m.steering
	if m.replacing() {
		return event.Replacing, "an edited revision is about to start"
	}
	if s.ending != nil {
		return event.Aborting, phrase.Origin(s.ending.Origin())
	}
	if f := m.heldFailure(); f != nil {
		return event.Held, f.Group + ": " + f.Object.String() + ": " + f.Message
	}
	if s.paused {
		return event.Paused, phrase.Origin(event.Origin{Via: s.via, Why: s.why})
	}
	return event.Running, ""
}

// origin returns who or what aborted the run or, if that is known, paused it.
func (m *machine) origin() *event.Origin {
	s := &m.steering
	switch {
	case s.ending != nil && !m.replacing():
		o := s.ending.Origin()
		o.Cancelled = m.timeouts.cancelledRequests
		return &o
	case s.paused && s.via+s.by != "":
		return &event.Origin{Command: event.Pause, Via: s.via, By: s.by}
	}
	return nil
}

// reportRun publishes the status of the run if it changed, and stops or resumes the clocks (R25).
func (m *machine) reportRun() {
	status, message := m.runStatus()
	since := m.askedSince()
	if status == m.steering.reported && message == m.steering.reportedMessage && since.Equal(m.steering.reportedSince) {
		return
	}
	m.steering.reported = status
	m.steering.reportedMessage = message
	m.steering.reportedSince = since
	m.updateClocks()
	e := event.Event{Kind: event.KindRun, Status: status, Message: message}
	if status == event.Paused && m.steering.unapproved {
		e.Code, e.Since = event.Unapproved, since
	}
	switch status {
	case event.Paused, event.Aborting:
		e.Origin = m.origin()
	case event.Held:
		f := m.heldFailure()
		e.Phase, e.Group = f.group.Phase, f.Group
	}
	if m.timeouts.granted > 0 {
		extended := m.opts.Operation
		extended.Timeout = m.operationTimeout()
		e.Operation = &extended
	}
	m.publish(e)
}

// Rule R40: while paused, running units continue and no further unit starts
func (m *machine) pause(c event.Command) string {
	if m.steering.reported != event.Running {
		return "the run is already " + string(m.steering.reported)
	}
	m.steering.pause(c.Reason, c.Via)
	m.steering.by = c.By
	m.reportRun()
	return ""
}

// hold returns how a failure that holds the run is resolved (R44).
func (m *machine) hold() event.Hold {
	commands := []event.CommandName{event.Retry, event.Accept}
	if m.cannotEdit() == "" {
		commands = append(commands, event.Edit)
	}
	return event.Hold{Commands: append(commands, event.GiveUp, event.Abort)}
}

func (m *machine) resume() string {
	if m.steering.reported == event.Running {
		return "the run is not paused"
	}
	s := &m.steering
	if waiting := m.pausedForApproval(); s.unapproved && len(waiting) > 0 {
		return phrase.ApproveFirst(waiting[0].Group)
	}
	s.paused, s.why, s.via, s.by, s.unapproved = false, "", "", "", false
	s.cancelStep()
	for _, u := range m.units.all {
		u.passed = false // only during the pause that ends now
		if u.status == event.AtBreakpoint {
			m.setUnit(u, event.Waiting, "")
		}
	}
	m.reportRun()
	return ""
}

// Rule R41: a step starts one unit: the first in plan order whose dependencies are ready, or the named one
func (m *machine) step(target event.Unit) string {
	if m.steering.reported == event.Running {
		return "the run is not paused; pause it first"
	}
	startable := m.startable()
	if len(startable) == 0 && m.stage != nil && len(m.stage.failures) > 0 {
		failed, noun := m.stage.failures[0].Group, m.opts.Operation.GroupNoun()
		return fmt.Sprintf("no %s can start because %s failed (R26); the operation fails once the running %ss finish", noun, failed, noun)
	}
	if target.Group == "" {
		if len(m.units.all) > 0 && !slices.ContainsFunc(m.units.all, (*unit).unstarted) {
			return "every " + m.opts.Operation.GroupNoun() + " has started; the run ends once the running ones are ready"
		}
		if m.steering.step {
			return "a step is already waiting for its group; nothing can start yet"
		}
		m.steering.step = true // takes effect when the next unit can start
		return ""
	}
	u := m.units.find(target, func(u *unit) bool { return slices.Contains(startable, u) })
	switch {
	case u == nil:
		return fmt.Sprintf("no group %q", target.Group)
	case !u.unstarted():
		return u.startedRefusal()
	case !slices.Contains(startable, u):
		return u.Group + " is waiting for " + m.waitsFor(u)
	case m.unapproved(u):
		return phrase.ApproveFirst(u.Group)
	}
	m.steering.step = true
	m.steering.stepUnit = u
	return ""
}

// waitsFor names the groups that keep a unit from starting.
func (m *machine) waitsFor(u *unit) string {
	s, earlier := m.stage, "earlier "+m.opts.Operation.GroupNoun()+"s"
	if s == nil || s.byID[u.Group] == nil || s.byID[u.Group].unit != u {
		return earlier
	}
	var waiting []string
	for _, id := range s.byID[u.Group].def.After {
		if dependency := s.byID[id]; dependency != nil && !dependency.succeeded() {
			waiting = append(waiting, id)
		}
	}
	if waiting == nil {
		waiting = s.missingOutside(s.byID[u.Group])
	}
	if len(waiting) == 0 {
		return earlier
	}
	return strings.Join(waiting, ", ")
}

// unstarted returns the named unit, or a refusal if there is none or it has started.
func (m *machine) unstarted(target event.Unit) (u *unit, refusal string) {
	u = m.units.find(target, (*unit).unstarted)
	switch {
	case u == nil:
		return nil, fmt.Sprintf("no group %q", target.Group)
	case !u.unstarted():
		return nil, u.startedRefusal()
	}
	return u, ""
}

func (u *unit) unstarted() bool { return u.status == event.Waiting || u.status == event.AtBreakpoint }

// startedRefusal says why a command for a unit that has not started is refused.
func (u *unit) startedRefusal() string {
	switch {
	case u.status == event.Skipped:
		return u.Group + " was skipped"
	case u.status == event.Failed: // maybe at its gate, so it has not started
		return u.Group + " has failed"
	}
	return u.Group + " has already started"
}

// Rule R46: while paused or held, an edited revision replaces the running one
func (m *machine) edit(c event.Command) string {
	switch why := m.cannotEdit(); {
	case why != "":
		return why
	case m.steering.reported == event.Running:
		return "the run is not paused; pause it first"
	case c.Edit == 0:
		return "nothing was edited"
	}
	m.steering.ending = &c
	m.steering.cancelStep()
	m.reportRun()
	return ""
}

// cannotEdit returns why the operation cannot be edited, or "" if it can be.
func (m *machine) cannotEdit() string {
	switch op := m.opts.Operation.Name; {
	case m.rollback.started:
		return "cannot edit during a rollback"
	case m.opts.Operation.Approvals != nil:
		return "an edit is not what was approved; abort the run, then run it with the new values"
	case m.opts.InStack:
		return "a stack cannot be edited: change the file and run the command again"
	case op != "install" && op != "upgrade":
		return fmt.Sprintf("%s takes no values; nothing to edit", op)
	}
	return ""
}

// replacing reports whether the run winds down for an edited revision.
func (m *machine) replacing() bool {
	return m.steering.ending != nil && m.steering.ending.Name == event.Edit
}

// abort executes Abort, Rollback and Stop. A run that is already being aborted accepts only Stop,
// which also cancels requests in flight and a rollback that has not started. All three cancel an
// edited revision that has not started.
//
// Rule R43: after an abort nothing starts; the second interrupt stops a rollback
func (m *machine) abort(c event.Command) refusal {
	a := m.steering.ending
	switch {
	case a != nil && a.Name == event.Stop:
		return refusal{why: "the run is already being stopped"}
	case m.rollback.started && !m.rollback.warned && !c.KnowsRollback:
		m.rollback.warned = true
		return refusal{why: "a rollback is in progress; repeat the command to stop it and leave the objects as they are", code: event.RollbackInProgress}
	case m.rollback.started:
		c.Name = event.Stop
	case a != nil && c.Name != event.Stop && !m.replacing():
		return refusal{why: "the run is already being aborted; stop it to also cancel requests in flight"}
	}
	if why := m.barred(&c); c.Name == event.Rollback && why != "" {
		if !c.OrKeep && c.ID != event.InternalID {
			return refusal{why: phrase.Barred(why) + "; to roll back anyway, give that reason", code: event.NoReturn}
		}
		c.Name = event.Abort
	}
	m.steering.ending = &c
	m.steering.cancelStep()
	if c.Name == event.Stop {
		m.cancelRequests()
		m.steering.reported = "" // so that reportRun publishes another event
	}
	m.reportRun()
	return refusal{}
}
