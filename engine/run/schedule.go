package run

import (
	"fmt"
	"time"

	"lockstep/engine/event"
)

// schedule does all that can be done now: lets units go, sends requests, ends
// the stage. It is called after every message.
func (e *Engine) schedule() {
	if e.abort != nil || e.timedOut {
		e.wind()
		return
	}
	e.openGates()
	r := e.stage
	if r == nil {
		return
	}
	if !r.failing && e.run != event.Held {
		e.admit(r)
	}
	r.pump()
	if r.busy == 0 && len(r.tasks) == 0 && r.allSent() {
		r.signalApplied()
	}
	if e.run == event.Held || r.busy > 0 || r.diagnosing > 0 {
		return
	}
	if r.failing && !r.active() || r.allOver() {
		r.close(nil)
	}
}

// wind ends what is under way after an abort or the timeout: nothing starts,
// waits end, requests in flight come back (R43).
func (e *Engine) wind() {
	cause := ErrAborted
	if e.abort == nil {
		cause = fmt.Errorf("%w after %s (--timeout)", ErrTimeout, e.opts.Operation.Timeout)
	}
	for _, w := range e.gates {
		w.done <- cause
	}
	e.gates = nil
	r := e.stage
	if r == nil {
		return
	}
	r.tasks = nil
	if r.busy == 0 && r.diagnosing == 0 {
		r.close(cause)
		return
	}
	if e.patience.IsZero() {
		e.patience = time.Now().Add(windingTime)
	}
}

// windingTime is how long requests in flight may take to come back after an
// abort; then they are cancelled, so that a lost API server cannot hang it.
const windingTime = 10 * time.Second

// openGates lets units outside of a stage go.
func (e *Engine) openGates() {
	for len(e.gates) > 0 {
		w := e.gates[0]
		if e.groups[groupKey(w.phase, w.group.ID)] == event.Running {
			e.gates = e.gates[1:]
			w.done <- nil
			continue
		}
		if e.breaks[event.Unit{Phase: w.phase, Group: w.group.ID}] && e.groups[w.group.ID] != event.Held && e.run == event.Running {
			e.setGroup(w.phase, w.group.ID, event.Held, "breakpoint")
			e.setRun(event.Paused, "breakpoint "+w.group.ID)
			return
		}
		if !e.mayStart() {
			return
		}
		e.gates = e.gates[1:]
		e.setGroup(w.phase, w.group.ID, event.Running, "")
		w.done <- nil
	}
}

// mayStart reports whether one more unit may start, and takes the step that
// allows it (R41).
func (e *Engine) mayStart() bool {
	if e.run == event.Running {
		return true
	}
	if e.run == event.Paused && e.steps > 0 {
		e.steps--
		return true
	}
	return false
}

// admit starts the groups whose gates are open, as far as the run's state
// allows (R14, R40 to R42).
func (e *Engine) admit(r *StageRun) {
	for _, g := range r.groups {
		if g.admit && g.status == event.Waiting && g.attempt == 0 {
			r.begin(g)
		}
	}
	if e.run == event.Running {
		for _, g := range r.groups {
			if g.startable() && e.breaks[event.Unit{Phase: r.Phase.Name, Group: g.ID}] && !g.passed {
				e.stopBefore(r, g)
				return
			}
		}
	}
	for progress := true; progress; {
		progress = false
		for _, g := range r.groups {
			if !g.startable() && g.status != event.Held {
				continue
			}
			if e.run == event.Running && e.breaks[event.Unit{Phase: r.Phase.Name, Group: g.ID}] && !g.passed {
				e.stopBefore(r, g)
				return
			}
			if !e.mayStart() {
				return
			}
			g.passed = true
			r.begin(g)
			progress = true // an empty group is over at once and opens gates
		}
	}
}

// stopBefore pauses the run before a group with a breakpoint (R42).
func (e *Engine) stopBefore(r *StageRun, g *groupRun) {
	r.set(g, event.Held, "breakpoint")
	e.setRun(event.Paused, "breakpoint "+g.ID)
}

func (g *groupRun) startable() bool {
	return g.status == event.Waiting && g.left == 0 && g.attempt == 0
}

// active reports whether a group of the stage is under way.
func (r *StageRun) active() bool {
	for _, g := range r.groups {
		if g.status == event.Running {
			return true
		}
	}
	return false
}

func (r *StageRun) allOver() bool {
	for _, g := range r.groups {
		if !g.status.Over() {
			return false
		}
	}
	return true
}

func (r *StageRun) allSent() bool {
	for _, g := range r.groups {
		if g.sent < len(g.objects) || g.attempt == 0 {
			return false
		}
	}
	return true
}

func (r *StageRun) signalApplied() {
	select {
	case <-r.applied:
	default:
		close(r.applied)
	}
}

// nextTimer is how long the loop may sleep: until the next deadline in active
// time, which stands still while the run is paused or held (R25).
func (e *Engine) nextTimer() time.Duration {
	next := time.Hour
	if !e.patience.IsZero() {
		return max(time.Until(e.patience), 0)
	}
	if e.run == event.Paused || e.run == event.Held || e.abort != nil {
		return next
	}
	active := e.clock.active(time.Now())
	at := func(d time.Duration) { next = min(next, max(d-active, 0)) }
	if t := e.opts.Operation.Timeout; t > 0 && !e.timedOut {
		at(t)
	}
	if r := e.stage; r != nil {
		if e.opts.Heartbeat > 0 {
			at(e.heartbeat)
		}
		r.dropDone()
		if len(r.deadlines) > 0 {
			at(r.deadlines[0].at)
		}
	}
	return next
}

// dropDone forgets deadlines that no longer matter. Deadlines are in order,
// since each is its apply plus one constant.
func (r *StageRun) dropDone() {
	for len(r.deadlines) > 0 {
		d := r.deadlines[0]
		if d.n == d.g.attempt && d.g.status == event.Running && !r.doneWith(d.o) {
			return
		}
		r.deadlines = r.deadlines[1:]
	}
}

// tick acts on the deadlines that are over.
func (e *Engine) tick() {
	if !e.patience.IsZero() && !time.Now().Before(e.patience) {
		e.patience = time.Time{}
		e.cancelRequests()
	}
	active := e.clock.active(time.Now())
	if e.run == event.Paused || e.run == event.Held || e.abort != nil {
		return
	}
	if t := e.opts.Operation.Timeout; t > 0 && active >= t && !e.timedOut {
		e.timedOut = true
		e.failUnready()
		return
	}
	r := e.stage
	if r == nil {
		return
	}
	for r.dropDone(); len(r.deadlines) > 0 && r.deadlines[0].at <= active; r.dropDone() {
		d := r.deadlines[0]
		r.deadlines = r.deadlines[1:]
		r.fail(d.g, d.o, fmt.Sprintf("not ready after %s (--readiness-timeout): %s", r.Readiness, d.o.state()), true)
	}
	if e.opts.Heartbeat > 0 && active >= e.heartbeat {
		e.heartbeat = active + e.opts.Heartbeat
		e.beat(r)
	}
}

// state is an object's last status with its message.
func (o *objectRun) state() string {
	if o.message == "" {
		return string(o.status)
	}
	return string(o.status) + ", " + o.message
}

// failUnready names, at the timeout of the operation, the first object of every
// running group that is not done.
func (e *Engine) failUnready() {
	r := e.stage
	if r == nil {
		return
	}
	for _, g := range r.groups {
		if g.status != event.Running {
			continue
		}
		for _, o := range g.objects {
			if !r.doneWith(o) {
				r.fail(g, o, fmt.Sprintf("not done after %s (--timeout): %s", e.opts.Operation.Timeout, o.state()), true)
				break
			}
		}
	}
}

// beat tells what has been waited for longest.
func (e *Engine) beat(r *StageRun) {
	var oldest *objectRun
	var group *groupRun
	others := 0
	for _, g := range r.groups {
		if g.status != event.Running {
			continue
		}
		for _, o := range g.objects {
			if o.since.IsZero() || r.doneWith(o) {
				continue
			}
			if oldest == nil || o.since.Before(oldest.since) {
				oldest, group = o, g
			}
			others++
		}
	}
	if oldest == nil {
		return
	}
	message := fmt.Sprintf("%s for %s", oldest.state(), time.Since(oldest.since).Round(time.Second))
	if others > 1 {
		message += fmt.Sprintf(", and %d more", others-1)
	}
	obj := oldest.named()
	e.publish(event.Event{Kind: event.KindWaiting, Phase: r.Phase.Name, Group: group.ID, Object: &obj, Status: oldest.status, Message: message})
}
