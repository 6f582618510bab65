package run

import (
	"fmt"
	"time"

	"lockstep/engine/event"
)

// Command gives an order to the run. It never blocks; an event tells whether
// the command was accepted (R45).
func (e *Engine) Command(c event.Command) {
	e.post(func() {
		why := e.obey(c)
		answer := event.Event{Kind: event.KindCommand, Command: c.Name, Phase: c.Phase, Group: c.Group, Status: event.Accepted}
		if why != "" {
			answer.Status, answer.Message = event.Refused, why
		}
		e.publish(answer)
	})
}

// obey carries a command out, or says why it cannot be.
func (e *Engine) obey(c event.Command) string {
	if e.abort != nil && c.Name != event.Stop && c.Name != event.Abort && c.Name != event.Rollback {
		return "the run is being aborted"
	}
	switch c.Name {
	case event.Pause:
		if e.run != event.Running {
			return "the run is " + string(e.run) + " already"
		}
		e.setRun(event.Paused, c.Reason)
	case event.Resume:
		return e.resume()
	case event.Step:
		return e.step()
	case event.Break:
		return e.toggleBreakpoint(event.Unit{Phase: c.Phase, Group: c.Group})
	case event.Retry:
		return e.retry(c.Group)
	case event.Abort, event.Rollback, event.Stop:
		return e.beginAbort(c)
	default:
		return fmt.Sprintf("there is no command %q", c.Name)
	}
	return ""
}

func (e *Engine) resume() string {
	switch e.run {
	case event.Paused:
		e.steps = 0
		e.passHeld()
		e.setRun(event.Running, "")
	case event.Held:
		e.setRun(event.Running, "")
		e.stage.giveUp()
	default:
		return "the run is not paused"
	}
	return ""
}

// passHeld lets the groups that a breakpoint keeps go on.
func (e *Engine) passHeld() {
	if e.stage == nil {
		return
	}
	for _, g := range e.stage.groups {
		if g.status == event.Held {
			g.passed = true
			e.stage.set(g, event.Waiting, "")
		}
	}
}

func (e *Engine) step() string {
	switch e.run {
	case event.Running:
		return "the run is not paused; pause it first"
	case event.Held:
		return "the run is held on a failure: retry, continue or abort"
	}
	if e.steps > 0 && e.steps >= e.startable() {
		return "a step is waiting already; nothing can start " + e.before()
	}
	e.steps++ // it takes effect when the next gate opens
	return ""
}

// startable counts the units that a step could let go now.
func (e *Engine) startable() int {
	n := len(e.gates)
	if e.stage == nil {
		return n
	}
	for _, g := range e.stage.groups {
		if g.startable() || g.status == event.Held {
			n++
		}
	}
	return n
}

// before names what has to be over before anything can start.
func (e *Engine) before() string {
	if e.stage != nil {
		for _, g := range e.stage.groups {
			if g.status == event.Running {
				return "before " + g.ID + " is over"
			}
		}
	}
	return "yet"
}

func (e *Engine) toggleBreakpoint(at event.Unit) string {
	if at.Phase == "" {
		at = e.complete(at)
	}
	status, known := e.groups[groupKey(at.Phase, at.Group)]
	switch {
	case !known:
		return fmt.Sprintf("there is no group %q", at.Group)
	case e.breaks[at]:
		e.setBreak(at, event.Cleared)
		return ""
	case status != event.Waiting:
		return at.Group + " has started already"
	}
	e.setBreak(at, event.Set)
	return ""
}

// complete finds the phase that a command without one means: the first in which
// the group is still to come, else the first that has it.
func (e *Engine) complete(at event.Unit) event.Unit {
	for _, u := range e.units {
		if u.id != at.Group {
			continue
		}
		if e.groups[u.key()] == event.Waiting {
			return event.Unit{Phase: u.phase, Group: u.id}
		}
		if at.Phase == "" {
			at.Phase = u.phase
		}
	}
	return at
}

func (e *Engine) setBreak(at event.Unit, s event.Status) {
	if s == event.Set {
		e.breaks[at] = true
	} else {
		delete(e.breaks, at)
	}
	e.publish(event.Event{Kind: event.KindBreakpoint, Phase: at.Phase, Group: at.Group, Status: s})
}

func (e *Engine) retry(id string) string {
	if e.run != event.Held {
		return "nothing is held on a failure"
	}
	var failed []*groupRun
	left := false
	for _, g := range e.stage.groups {
		switch {
		case g.status != event.Failed:
		case id == "" || g.ID == id:
			failed = append(failed, g)
		default:
			left = true
		}
	}
	if len(failed) == 0 {
		return id + " has not failed"
	}
	if !left {
		e.setRun(event.Running, "")
	}
	for _, g := range failed {
		e.stage.begin(g)
	}
	return ""
}

// beginAbort starts an abort, or makes one that is under way stricter: from
// keep to roll back, from either to stop. It never makes it milder, and never
// takes a rollback back.
func (e *Engine) beginAbort(c event.Command) string {
	if e.abort != nil && c.Name != event.Stop {
		return "the run is being aborted already; stop it to cancel the requests in flight as well"
	}
	if c.Name == event.Stop {
		e.cancelRequests()
	}
	if e.abort == nil {
		e.abort = &c
	}
	if c.Name == event.Stop {
		stop := c
		e.abort = &stop
	}
	e.setRun(event.Aborting, c.Reason)
	return ""
}

// setRun changes the state of the run, stops or starts its clock, and tells.
func (e *Engine) setRun(s event.Status, message string) {
	now := time.Now()
	if s == event.Paused || s == event.Held {
		e.clock.stop(now)
	} else {
		e.clock.goOn(now)
	}
	e.run = s
	e.publish(event.Event{Kind: event.KindRun, Status: s, Message: message})
}
