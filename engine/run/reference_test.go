package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// reference is a small model to which a run is compared. It knows the events, the requests
// and the commands, but not the implementation, and reports every violation of a rule.
type reference struct {
	s     scenario
	state event.State
	units map[event.Unit]*refUnit
	steer refSteering
	stage map[event.Unit]bool // the units of the running stage
	// notReady, if set, says why a unit that is reported ready is not.
	notReady func(event.Unit) string
	// isReady, if set, reports whether the object of a failure is ready.
	isReady func(message string) bool
	sent    []event.Command
	// freed are the objects, by name, that were blocked and must be sent again.
	freed map[string]event.Unit
	// outside has the last observed status of the objects from outside the release, by name; nil if only events tell it.
	outside map[string]event.Status
	// inFlight counts the requests in flight per object.
	inFlight map[string]int
	// counted is the time that counts for readiness: the run is neither paused nor held, and
	// the API server is reachable. at is the end of that time, zero if unknown.
	counted time.Duration
	// total is the time that counts for the operation, outages included.
	total time.Duration
	at    time.Time
	away  bool
	// moment numbers the moments at which units start.
	moment     int
	opened     bool
	closed     bool
	passed     bool // a point of no return (R33a)
	confirming bool // groups that were ready may be in progress again (R21)
	timeout    bool
	proving    bool // the timeout has passed, and the run reads what it waits for: nothing starts (R25)
	diagnosing int  // failures whose diagnosis is running
	wrong      []string
}

type refUnit struct {
	spec       groupSpec
	lenient    bool
	kind       event.PhaseKind
	after      []event.Unit
	status     event.Status
	breakpoint bool // the run must pause before it
	givenUp    bool
	restarted  bool // just restarted, which a command must explain
	moment     int
	since      time.Duration           // start, or that of the wait for objects outside the release, in time of counted
	outside    map[string]event.Status // the published status of these objects
	sent       map[string]bool         // objects of this attempt
	rechecking bool
}

type refSteering struct {
	paused, step    bool
	stepUnit        event.Unit
	ending          event.CommandName
	rolling, warned bool
	givesReason     bool // the command that ends the run gives the reason of the point of no return
	atBreakpoint    bool
}

func newReference(s scenario) *reference {
	return &reference{s: s, units: map[event.Unit]*refUnit{}, inFlight: map[string]int{}, freed: map[string]event.Unit{}, outside: map[string]event.Status{}}
}

func (r *reference) fail(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *reference) announce(p phaseSpec) {
	for _, g := range p.Groups {
		u := &refUnit{spec: g, lenient: p.Lenient, kind: p.Kind, status: event.Waiting}
		for _, a := range g.After {
			u.after = append(u.after, event.Unit{Phase: p.Name, Group: "c:" + a})
		}
		r.units[event.Unit{Phase: p.Name, Group: "c:" + g.Name}] = u
	}
}

// confirmed checks that all groups that had to become ready are ready at the same time.
func (r *reference) confirmed() {
	for id, u := range r.units {
		if u.kind != event.PhaseApply || u.spec.Leaf || r.steer.ending != "" || r.timeout {
			continue
		}
		if why := r.notReady(id); u.status != event.Ready || why != "" {
			r.fail("R21: the operation succeeds, but %v is %s: %s", id, u.status, why)
		}
	}
}

// enter records the start of a stage.
func (r *reference) enter(p event.Phase) {
	r.stage = map[event.Unit]bool{}
	for _, g := range p.Groups {
		r.stage[event.Unit{Phase: p.Name, Group: g.ID}] = true
	}
}

// event checks an event of the run.
func (r *reference) event(e event.Event) {
	if r.closed {
		r.fail("R48: after the closing event: %s %s", e.Kind, e.Status)
	}
	next := r.state.Next()
	r.state.Apply(e)
	switch e.Kind {
	case event.KindGroup:
		if u := r.units[e.Unit()]; u != nil {
			r.group(e, u, next)
		}
	case event.KindObject:
		if u := r.units[e.Unit()]; u != nil && e.Outside {
			r.outsideObject(e, u)
		}
	case event.KindRun:
		if e.Status == event.Paused && (strings.HasPrefix(e.Message, "breakpoint") || strings.HasPrefix(e.Message, event.RunToTarget)) {
			if !r.steer.atBreakpoint && !r.steer.paused {
				r.fail("R42: paused at a breakpoint, but no unit is held at one")
			}
			r.steer.paused, r.steer.atBreakpoint = true, false
		}
	case event.KindBreakpoint:
		if u := r.units[e.Unit()]; u != nil {
			u.breakpoint = e.Status == event.Set && u.status != event.AtBreakpoint
		}
	case event.KindCommand:
		r.answer(e)
	case event.KindOperation:
		r.operation(e)
	}
}

// outsideObject records the status of an object from outside the release. The wait for the objects of the group starts
// with the first one that is not ready.
func (r *reference) outsideObject(e event.Event, u *refUnit) {
	waits := false
	for _, s := range u.outside {
		waits = waits || s != event.Ready
	}
	if !waits && e.Status != event.Ready {
		u.since = r.counted
	}
	if u.outside == nil {
		u.outside = map[string]event.Status{}
	}
	if u.outside[e.Object.Name] = e.Status; u.status != event.Waiting && u.status != event.AtBreakpoint && u.status != event.Failed {
		r.fail("R22d: %v is %s, and %s, for which it waits, is published as %s", e.Unit(), u.status, e.Object, e.Status)
	}
}

// outsideReady reports whether all objects outside the release that a unit waits for are ready.
func (r *reference) outsideReady(u *refUnit) bool {
	seen := r.outside
	if seen == nil {
		seen = u.outside
	}
	return !slices.ContainsFunc(u.spec.Outside, func(o outsideSpec) bool { return seen[o.Name] != event.Ready })
}

func (r *reference) group(e event.Event, u *refUnit, next *event.GroupState) {
	was := u.status
	u.status = e.Status
	if u.spec.NoReturn && len(u.spec.Objects) > 0 && (e.Status == event.Ready || e.Status == event.Applied) && u.kind == event.PhaseApply && e.Message != string(event.Unchanged) {
		r.passed = true
	}
	switch e.Status {
	case event.Running:
		u.moment, u.since, u.sent, u.rechecking = r.moment, r.counted, map[string]bool{}, false
		if was == event.Failed {
			u.restarted, u.givenUp = true, false
			return
		}
		if was == event.Ready {
			if u.rechecking = true; !r.confirming || e.Object == nil || u.spec.Leaf {
				r.fail("R21: %v is in progress again: %+v", e.Unit(), e)
			}
			return
		}
		r.started(e.Unit(), u, was, next)
	case event.AtBreakpoint:
		if was != event.Waiting || !u.breakpoint {
			r.fail("R42: the run pauses before %v, which has no breakpoint and was %s", e.Unit(), was)
		}
		u.breakpoint, r.steer.atBreakpoint = false, true
	case event.Failed:
		if gated := e.Outside && len(u.spec.Outside) > 0 && (was == event.Waiting || was == event.AtBreakpoint); was != event.Running && !gated {
			r.fail("%v failed, but was %s", e.Unit(), was)
		}
		r.unready(e, u)
		r.timeout = r.timeout || !r.s.Hold && strings.Contains(e.Message, "(--timeout)")
	case event.Waiting, event.Skipped:
		if len(u.spec.Outside) > 0 && was == event.Failed && e.Status == event.Waiting {
			u.restarted, u.givenUp, u.since = true, false, r.counted
			return
		}
		if was != event.Waiting && was != event.AtBreakpoint {
			r.fail("%v is %s after %s", e.Unit(), e.Status, was)
		}
	default: // ready, applied, gone, aborted
		if was != event.Running && !(was == event.Applied && (e.Status == event.Ready || e.Status == event.Gone)) {
			r.fail("%v is %s after %s: more than one final state", e.Unit(), e.Status, was)
		}
		if e.Status == event.Applied && was == event.Running && u.lenient {
			r.released(e.Unit(), u)
		}
		if e.Status == event.Ready && r.notReady != nil {
			if why := r.notReady(e.Unit()); why != "" {
				r.fail("R22: %v is reported ready, but %s", e.Unit(), why)
			}
		}
	}
}

// released checks that an object that is still being deleted delayed the groups after it for
// as long as R30 says.
func (r *reference) released(id event.Unit, u *refUnit) {
	waited := false
	if r.at.IsZero() {
		return
	}
	for _, other := range r.units {
		waited = waited || slices.Contains(other.after, id)
	}
	had, limit := r.counted-u.since, time.Duration(r.s.Readiness)*time.Millisecond
	if timedOut := r.s.Timeout > 0 && r.total >= time.Duration(r.s.Timeout)*time.Millisecond; waited && !timedOut && (limit == 0 || had < limit) {
		r.fail("R30: groups stopped waiting for %v after %s", id, had)
	}
}

// blocked records that an object cannot be applied yet.
func (r *reference) blocked(id event.Unit, o plan.Object) {
	if u := r.units[id]; u != nil && u.sent != nil {
		delete(u.sent, o.Name)
	}
}

// pass advances the time.
func (r *reference) pass(now time.Time) {
	if run := r.state.Run; !r.at.IsZero() && run != event.Paused && run != event.Held {
		r.total += now.Sub(r.at)
		if !r.away {
			r.counted += now.Sub(r.at)
		}
	}
	r.at = now
}

// unready checks that a unit that timed out was really given its whole timeout, and did not become
// ready during an outage.
func (r *reference) unready(e event.Event, u *refUnit) {
	if u.lenient && strings.Contains(e.Message, "deleting") && !u.rechecking && strings.Contains(e.Message, "-timeout)") {
		r.fail("R30: %v failed, although its objects were merely still being deleted: %s", e.Unit(), e.Message)
	}
	if r.at.IsZero() || r.s.Diagnosis > 0 || !strings.Contains(e.Message, "(--readiness-timeout)") {
		return
	}
	if had := r.counted - u.since; r.away || had < time.Duration(r.s.Readiness)*time.Millisecond {
		r.fail("R25: %v failed after %s (API server unreachable: %t): %s", e.Unit(), had, r.away, e.Message)
	}
	if u.kind != event.PhaseRemove && r.isReady != nil && r.isReady(e.Message) {
		r.fail("R25: %v failed, but its object is ready and was not yet observed: %s", e.Unit(), e.Message)
	}
}

// started checks that a unit was allowed to start.
func (r *reference) started(id event.Unit, u *refUnit, was event.Status, next *event.GroupState) {
	if was != event.Waiting && was != event.AtBreakpoint {
		r.fail("%v starts, but was %s", id, was)
	}
	for _, dependency := range u.after {
		if s := r.units[dependency].status; s != event.Ready && s != event.Applied && s != event.Gone {
			r.fail("R14: %v starts before its dependency %s, which is %s", id, dependency.Group, s)
		}
	}
	if !r.outsideReady(u) {
		r.fail("R22d: %v starts before the objects outside the release that it waits for are ready: %v", id, r.outside)
	}
	if r.steer.ending != "" || r.timeout {
		r.fail("R43: %v starts after an accepted %s", id, r.steer.ending)
	}
	if r.failed() {
		r.fail("R26, R44: %v starts after a failure", id)
	}
	if n := r.running(); r.s.Groups > 0 && n > r.s.Groups {
		r.fail("%v starts, and %d groups run: the limit is %d", id, n, r.s.Groups)
	}
	switch {
	case r.steer.paused && !r.steer.step:
		r.fail("R40: %v starts while the run is paused", id)
	case r.steer.paused:
		if want := r.steer.stepUnit; want.Group != "" && want.Group != id.Group || want.Phase != "" && want.Phase != id.Phase {
			r.fail("R41: the step was for %v, not for %v", want, id)
		}
		if r.steer.stepUnit.Group == "" && (next == nil || next.Unit() != id) {
			r.fail("R41: the step starts %v, event.State says %v", id, next)
		}
		r.steer.step = false
	case u.breakpoint:
		r.fail("R42: %v starts despite its breakpoint", id)
	}
}

// running is the number of groups of the stage that are running.
func (r *reference) running() (n int) {
	for id := range r.stage {
		if r.units[id].status == event.Running {
			n++
		}
	}
	return n
}

// failed reports whether a unit of the stage failed.
func (r *reference) failed() bool {
	for id := range r.stage {
		if r.units[id].status == event.Failed {
			return true
		}
	}
	return false
}

// held reports whether a failure should hold the run.
func (r *reference) held() bool {
	if !r.s.Hold || r.timeout {
		return false
	}
	for id := range r.stage {
		if u := r.units[id]; u.status == event.Failed && !u.givenUp {
			return true
		}
	}
	return false
}

func (r *reference) answer(e event.Event) {
	if len(r.sent) == 0 || r.sent[0].Name != e.Command || r.sent[0].Group != e.Group {
		r.fail("R45: %s %s answers a command that was not sent", e.Command, e.Group)
		return
	}
	c := r.sent[0]
	r.sent = r.sent[1:]
	ok := e.Status == event.Accepted
	s := &r.steer
	for id, u := range r.units {
		if u.restarted && (!ok || c.Name != event.Retry && c.Name != event.Accept || c.Group != "" && c.Group != id.Group) {
			r.fail("R44: %v starts again, but the command was %s %s", id, c.Name, c.Group)
		}
		if u.restarted {
			u.restarted, u.rechecking = false, c.Name == event.Accept
		}
	}
	switch c.Name {
	case event.Pause:
		s.paused = s.paused || ok
	case event.Resume:
		if ok && r.held() {
			r.fail("R44: resume is accepted while a failure is held")
		}
		if ok {
			s.paused, s.step = false, false
		}
	case event.Step:
		if ok && (!s.paused || r.held()) {
			r.fail("R41: a step is accepted, but the run is not paused")
		}
		if ok {
			s.step, s.stepUnit = true, c.Unit()
		}
	case event.RunTo:
		if ok && r.held() {
			r.fail("R44: run-to is accepted while a failure is held")
		}
		if ok {
			s.paused, s.step = false, false
			for id, u := range r.units {
				if id == c.Unit() && !u.breakpoint {
					r.fail("R42: run-to %v is accepted, but the run would not pause there", id)
				}
			}
		}
	case event.Disable:
		if u := r.units[c.Unit()]; ok && u != nil && u.status != event.Waiting && u.status != event.AtBreakpoint {
			r.fail("R42: a breakpoint on %v is disabled, which is %s", c.Unit(), u.status)
		}
	case event.Break:
		if u := r.units[c.Unit()]; !ok && u != nil && u.status == event.Waiting && s.ending == "" && !r.timeout && r.diagnosing == 0 {
			r.fail("R42: a breakpoint on %v is refused, although it has not started: %s", c.Unit(), e.Message)
		}
	case event.GiveUp:
		for id, u := range r.units {
			if ok && r.stage[id] && u.status == event.Failed && (c.Group == "" || c.Group == id.Group) {
				u.givenUp = true
			}
		}
	case event.Edit:
		r.edited(ok)
	case event.Abort, event.Rollback, event.Stop:
		r.interrupt(c, ok)
	}
}

// edited records whether an edited revision is about to start.
func (r *reference) edited(ok bool) {
	s := &r.steer
	editable := (s.paused || r.held()) && s.ending == "" && !s.rolling && !r.timeout
	if ok != editable && r.diagnosing == 0 {
		r.fail("R46: edit accepted %t: paused %t, held %t, aborted %q, rolling back %t", ok, s.paused, r.held(), s.ending, s.rolling)
	}
	if ok {
		s.ending, s.step = event.Edit, false
	}
}

func (r *reference) interrupt(c event.Command, ok bool) {
	s := &r.steer
	barred := c.Name == event.Rollback && r.passed && c.PastNoReturn != noWayBack
	if ok {
		s.givesReason = c.PastNoReturn == noWayBack
	}
	switch {
	case !s.rolling && barred:
		if ok {
			r.fail("R33a: a rollback past the point of no return is accepted without its reason")
		}
	case s.rolling && c.KnowsRollback && s.ending == "" && !ok:
		r.fail("R43: %s is refused, although the user was warned", c.Name)
	case s.rolling && !s.warned && !c.KnowsRollback:
		if s.warned = true; ok {
			r.fail("R43: the first interrupt of a rollback is accepted")
		}
	case ok && s.rolling:
		s.ending, s.step = event.Stop, false
	case ok:
		s.ending, s.step = c.Name, false
	case s.ending == "" || s.ending == event.Edit:
		r.fail("R43: %s is refused", c.Name)
	}
}

func (r *reference) operation(e event.Event) {
	switch {
	case e.Status == event.Running && r.opened:
		if r.steer.ending != event.Edit {
			r.fail("R46: another revision starts, but the run was ended by %q, not by an edit", r.steer.ending)
		}
		for id, u := range r.units {
			if !u.status.Over() {
				r.fail("R46: another revision starts while %v is %s", id, u.status)
			}
		}
		r.steer, r.timeout, r.units = refSteering{paused: r.steer.paused}, false, map[event.Unit]*refUnit{}
		for _, p := range r.s.Phases {
			r.announce(p)
		}
	case e.Status == event.Running:
		r.opened = true
	case e.Status == event.RollingBack:
		if r.steer.ending == event.Abort || r.steer.ending == event.Stop {
			r.fail("R48: a rollback starts after an accepted %s", r.steer.ending)
		}
		if r.passed && !r.steer.givesReason {
			r.fail("R33a: a rollback starts past the point of no return, and nobody gave its reason")
		}
		r.steer, r.timeout = refSteering{rolling: true}, false
	default:
		r.closed = true
		r.ended(e)
	}
}

// ended checks the whole run against its closing event.
func (r *reference) ended(e event.Event) {
	status, unchecked := e.Status, 0
	for id, u := range r.units {
		if u.status == event.Applied && u.kind == event.PhaseApply {
			unchecked++
		}
		switch u.status {
		case event.Ready, event.Applied, event.Gone:
		case event.Failed, event.Skipped, event.Aborted:
			if status == event.Succeeded {
				r.fail("R44: the run succeeded, but %v is %s", id, u.status)
			}
		default:
			r.fail("%v is %s after the run", id, u.status)
		}
	}
	noStatus := 0
	for g := range r.state.GroupStates() {
		for _, o := range g.Objects {
			if o.ReadyBy == event.ByNoStatus {
				noStatus++
			}
		}
	}
	if status == event.Succeeded && e.NoStatus != noStatus {
		r.fail("R22a: the controllers of %d objects said nothing, the closing event says %d", noStatus, e.NoStatus)
	}
	if status == event.Succeeded && (e.Unchecked != unchecked || (e.Outcome == "") != (unchecked+noStatus == 0)) {
		r.fail("R21: %d groups are applied and not checked, the closing event says %d: %q", unchecked, e.Unchecked, e.Outcome)
	}
	if r.steer.ending == event.Edit {
		r.fail("R48: an edit was accepted and no other revision started")
	}
	if r.steer.ending == event.Rollback && (!r.passed || r.steer.givesReason) {
		r.fail("R48: a rollback was accepted and did not start")
	}
	if r.steer.ending != "" && status != event.Aborted {
		r.fail("R48: %s was accepted, but the operation is %s", r.steer.ending, status)
	}
}

// requested records a request. exact means that the request follows the machine's decision at
// once, so that its order can be checked.
func (r *reference) requested(id event.Unit, o plan.Object, exact bool) {
	if r.inFlight[o.Name]++; r.inFlight[o.Name] > 1 {
		r.fail("R44: %d concurrent requests for %s", r.inFlight[o.Name], o)
	}
	delete(r.freed, o.Name)
	u := r.units[id]
	if !exact || u == nil {
		return
	}
	if u.status != event.Running || r.steer.ending != "" || u.rechecking {
		r.fail("a request for %s, but %v is %s (re-checking %t) and the run %q", o, id, u.status, u.rechecking, r.steer.ending)
	}
	u.sent[o.Name] = true
	for other, v := range r.units { // R15a
		if r.diagnosing > 0 || v.status != event.Running || v.moment != u.moment || other.Phase != id.Phase || v.rechecking {
			continue
		}
		for _, before := range v.spec.Objects {
			if earliest := before.Kind < kindOf(o); earliest == (u.kind != event.PhaseRemove) && before.Kind != kindOf(o) && !v.sent[before.Name] {
				r.fail("R15a: %s is sent before %s/%s of %v", o, kinds[before.Kind], before.Name, other)
			}
		}
	}
}

func kindOf(o plan.Object) int { return slices.Index(kinds, o.Kind) }

// returned records the response to a request.
func (r *reference) returned(o plan.Object) { r.inFlight[o.Name]-- }

// idle checks, while no request is in flight, that freed objects were sent again.
func (r *reference) idle() {
	for name, id := range r.freed {
		if u := r.units[id]; u == nil || u.status != event.Running || u.rechecking || r.steer.ending != "" || r.timeout || r.proving {
			delete(r.freed, name)
			continue
		}
		r.fail("R30: %s of %v is not sent, although its name is free", name, id)
	}
}

// quiet checks what must hold when no message is in flight.
func (r *reference) quiet() {
	if r.closed || r.state.Status == "" {
		return
	}
	want := event.Running
	switch {
	case r.steer.ending == event.Edit:
		want = event.Replacing
	case r.steer.ending != "":
		want = event.Aborting
	case r.held():
		want = event.Held
	case r.steer.paused:
		want = event.Paused
	}
	if r.state.Run != want {
		r.fail("the run is %s, want %s", r.state.Run, want)
	}
	for id, u := range r.units {
		if u.restarted {
			r.fail("R44: %v starts again without a command", id)
		}
		if r.diagnosing > 0 || r.proving || !r.stage[id] || u.status != event.Waiting || r.steer.ending != "" || r.timeout || r.failed() {
			continue
		}
		startable := !slices.ContainsFunc(u.after, func(dependency event.Unit) bool {
			s := r.units[dependency].status
			return s != event.Ready && s != event.Applied && s != event.Gone
		})
		startable = startable && r.outsideReady(u)
		if want == event.Paused && r.steer.stepUnit.Group != "" && r.steer.stepUnit.Group != id.Group {
			continue
		}
		if room := r.s.Groups == 0 || r.running() < r.s.Groups; startable && room && (want == event.Running || want == event.Paused && r.steer.step) {
			r.fail("R14: %v does not start, although its dependencies are ready and the run is %s", id, want)
		}
	}
}
