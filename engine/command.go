package engine

import (
	"fmt"
	"time"
)

// Command gives an order to the run. It never blocks; an event tells whether
// the command was accepted (R45).
func (e *Engine) Command(c Command) {
	e.post(func() {
		why := e.obey(c)
		answer := Event{Kind: KindCommand, Command: c.Name, Group: c.Group, Status: Accepted}
		if why != "" {
			answer.Status, answer.Message = Refused, why
		}
		e.publish(answer)
	})
}

// obey carries a command out, or says why it cannot be.
func (e *Engine) obey(c Command) string {
	if e.abort != nil && c.Name != Stop && c.Name != Abort && c.Name != Rollback {
		return "the run is being aborted"
	}
	switch c.Name {
	case Pause:
		if e.run != Running {
			return "the run is " + string(e.run) + " already"
		}
		e.setRun(Paused, c.Reason)
	case Resume:
		return e.resume()
	case Step:
		return e.step()
	case Break:
		return e.toggleBreakpoint(c.Group)
	case Retry:
		return e.retry(c.Group)
	case Abort, Rollback, Stop:
		return e.beginAbort(c)
	default:
		return fmt.Sprintf("there is no command %q", c.Name)
	}
	return ""
}

func (e *Engine) resume() string {
	switch e.run {
	case Paused:
		e.steps = 0
		e.passHeld()
		e.setRun(Running, "")
	case Held:
		e.setRun(Running, "")
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
		if g.status == Held {
			g.passed = true
			e.stage.set(g, Waiting, "")
		}
	}
}

func (e *Engine) step() string {
	switch e.run {
	case Running:
		return "the run is not paused; pause it first"
	case Held:
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
		if g.startable() || g.status == Held {
			n++
		}
	}
	return n
}

// before names what has to be over before anything can start.
func (e *Engine) before() string {
	if e.stage != nil {
		for _, g := range e.stage.groups {
			if g.status == Running {
				return "before " + g.ID + " is over"
			}
		}
	}
	return "yet"
}

func (e *Engine) toggleBreakpoint(id string) string {
	status, known := e.groups[id]
	switch {
	case !known:
		return fmt.Sprintf("there is no group %q", id)
	case e.breaks[id]:
		delete(e.breaks, id)
		e.publish(Event{Kind: KindBreakpoint, Group: id, Status: Cleared})
		return ""
	case status != Waiting:
		return id + " has started already"
	}
	e.breaks[id] = true
	e.publish(Event{Kind: KindBreakpoint, Group: id, Status: Set})
	return ""
}

func (e *Engine) retry(id string) string {
	if e.run != Held {
		return "nothing is held on a failure"
	}
	var failed []*groupRun
	left := false
	for _, g := range e.stage.groups {
		switch {
		case g.status != Failed:
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
		e.setRun(Running, "")
	}
	for _, g := range failed {
		e.stage.begin(g)
	}
	return ""
}

// beginAbort starts an abort, or makes one that is under way stricter: from
// keep to roll back, from either to stop. It never makes it milder, and never
// takes a rollback back.
func (e *Engine) beginAbort(c Command) string {
	if e.abort != nil && c.Name != Stop {
		return "the run is being aborted already; stop it to cancel the requests in flight as well"
	}
	if c.Name == Stop {
		e.cancelRequests()
	}
	if e.abort == nil {
		e.abort = &c
	}
	if c.Name == Stop {
		stop := c
		e.abort = &stop
	}
	e.setRun(Aborting, c.Reason)
	return ""
}

// setRun changes the state of the run, stops or starts its clock, and tells.
func (e *Engine) setRun(s Status, message string) {
	now := time.Now()
	if s == Paused || s == Held {
		e.clock.stop(now)
	} else {
		e.clock.goOn(now)
	}
	e.run = s
	e.publish(Event{Kind: KindRun, Status: s, Message: message})
}
