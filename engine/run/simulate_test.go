package run

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// simulation drives a machine on a virtual clock, in one goroutine.
type simulation struct {
	s              scenario
	m              *machine
	r              *reference
	w              world
	now            time.Time
	inbox          []message
	later          timeline
	phases         map[*StageRun]phaseSpec
	over           map[*StageRun]error
	hangs          []request
	actual         map[string]Observation // state of each object
	seen           map[string]Observation // its last reported state
	appliedVersion map[string]uint64      // the version of its apply
	custom         map[string]*customState
	away           bool      // the API server is unreachable
	delayed        []message // by the outage
	// watched has the watched groups by unit; those of an edited revision replace the
	// earlier ones.
	watched   map[event.Unit]*group
	gates     map[event.Unit]*group  // likewise
	outside   map[string]Observation // state of each object from outside the release
	diagnoses int
	confirms  map[*StageRun]bool
	blocked   map[string]int       // how often an object was blocked; gone once its name is free
	answered  map[string]time.Time // when the last apply of an object was answered
	restarted map[string]time.Time // when a container of an object last restarted, as reported
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// simulate runs a scenario and returns the rule violations.
func simulate(s scenario) []string {
	x := &simulation{s: s, r: newReference(s), now: epoch, phases: map[*StageRun]phaseSpec{}, over: map[*StageRun]error{}, actual: map[string]Observation{}, seen: map[string]Observation{}, appliedVersion: map[string]uint64{}, custom: map[string]*customState{}, watched: map[event.Unit]*group{}, gates: map[event.Unit]*group{}, outside: map[string]Observation{}, confirms: map[*StageRun]bool{}, blocked: map[string]int{}, answered: map[string]time.Time{}, restarted: map[string]time.Time{}}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			for _, spec := range g.Objects {
				if spec.Custom {
					x.custom[spec.Name] = &customState{writes: uint64(spec.Request % 20 / 10)}
				}
			}
		}
	}
	x.startOutside()
	x.r.notReady, x.r.isReady = x.notReady, x.readyNamed
	x.m = newMachine(s.options(), x.now)
	x.r.steer.paused = s.Paused
	x.perform(x.m.effects)
	for _, c := range s.Commands {
		x.after(c.At, func() { x.command(c.Command) })
	}
	for _, o := range s.Outages {
		x.after(o.At, func() {
			x.away = true
			x.post(serverUnreachable{x.now, x.now, "cut"})
		})
		x.after(o.At+o.For, func() {
			x.away = false
			x.post(serverReachable{})
			x.after(o.For/2, func() {
				x.inbox = append(x.inbox, x.delayed...)
				x.delayed = nil
			})
		})
	}
	next, stop := iter.Pull(func(yield func(bool) bool) {
		defer func() {
			if r := recover(); r != nil && r != errStopped {
				panic(r)
			}
		}()
		operate(s, &simulated{x, yield})
	})
	defer stop()
	for nudges := 0; !x.r.closed && len(x.r.wrong) == 0; {
		next()
		for len(x.inbox) > 0 {
			msg := x.inbox[0]
			x.inbox = x.inbox[1:]
			x.handle(msg)
		}
		if x.advance() {
			continue
		}
		if next(); len(x.inbox) > 0 || len(x.later) > 0 || x.r.closed {
			continue
		}
		if nudges++; nudges > 30 {
			x.r.fail("R34: the run does not end: %s", x.r.state.Run)
		}
		x.command(nudge(x.r.state.Run, nudges))
	}
	return x.r.wrong
}

// startOutside schedules the changes of the objects from outside the release.
func (x *simulation) startOutside() {
	for _, p := range x.s.Phases {
		for _, g := range p.Groups {
			unit := event.Unit{Phase: p.Name, Group: "c:" + g.Name}
			for _, o := range g.Outside {
				x.outside[o.Name] = Observation{Object: plan.Object{Kind: "Secret", Name: o.Name}, Status: event.Gone}
				for _, c := range o.Changes {
					x.after(c.At, func() {
						seen := x.outside[o.Name]
						seen.Status, seen.Version = results[c.Status], x.w.next()
						x.outside[o.Name] = seen
						if gate := x.gates[unit]; gate != nil {
							x.hear(observed{gate, seen})
						}
					})
				}
			}
		}
	}
}

// customState is what is known of a custom object.
type customState struct {
	writes  uint64        // of its status
	before  string        // Response.StatusBefore of the last answer
	applied time.Duration // when that was, on the clock of readiness timeouts
}

func (c *customState) mark() string {
	if c.writes == 0 {
		return ""
	}
	return fmt.Sprint(c.writes)
}

// silence returns how long the object may still count as in progress because its controller has not written its status
// since the apply; 0 or less if it need not.
func (x *simulation) silence(name string, seen Observation) time.Duration {
	c := x.custom[name]
	if c == nil || seen.StatusWrite != "" && seen.StatusWrite != c.before {
		return 0
	}
	limit := x.s.FirstStatus
	if x.s.Readiness > 0 {
		limit = min(limit, x.s.Readiness)
	}
	return time.Duration(limit)*time.Millisecond - (x.r.counted - c.applied)
}

// write records that the controller of a custom object writes its status.
func (x *simulation) write(name string) {
	if c := x.custom[name]; c != nil {
		c.writes++
	}
}

// nudge returns a command for a run that waits for the user.
func nudge(run event.Status, n int) event.Command {
	switch {
	case n > 15:
		return event.Command{Name: event.Stop}
	case run == event.Held:
		return event.Command{Name: event.GiveUp}
	case run == event.Paused:
		return event.Command{Name: event.Resume}
	}
	return event.Command{Name: event.Stop}
}

func (s scenario) options() Options {
	ms := time.Millisecond
	var diagnose func(context.Context, plan.Object) Finding
	var refresh func(context.Context, plan.Object)
	if s.Diagnosis > 0 { // perform answers startDiagnosis and startRefresh itself
		diagnose = func(context.Context, plan.Object) Finding { return Finding{} }
		refresh = func(context.Context, plan.Object) {}
	}
	return Options{
		Diagnose: diagnose, Refresh: refresh,
		Operation: event.Operation{Name: "install", Timeout: time.Duration(s.Timeout) * ms}, MaxRequests: s.Parallel, MaxGroups: s.Groups,
		Paused: s.Paused, Breakpoints: s.Breakpoints, HoldOnFailure: s.Hold,
	}
}

// advance advances the time until something is due. It returns false if nothing is.
func (x *simulation) advance() bool {
	wake := x.m.wake()
	if len(x.later) > 0 && (wake.IsZero() || !x.later[0].at.After(wake)) {
		l := heap.Pop(&x.later).(later)
		x.now = l.at
		l.do()
		return true
	}
	if wake.IsZero() {
		return false
	}
	x.now = wake
	x.post(ticked{})
	return true
}

func (x *simulation) post(msg message) { x.inbox = append(x.inbox, msg) }

func (x *simulation) command(c event.Command) {
	x.r.sent = append(x.r.sent, c)
	x.post(commanded{c})
}

func (x *simulation) after(ms int, do func()) {
	heap.Push(&x.later, later{x.now.Add(time.Duration(ms) * time.Millisecond), len(x.later) + int(x.w.next()), do})
}

// hear delivers a message from the API server: at once, or after an outage.
func (x *simulation) hear(msg message) {
	if x.away || len(x.delayed) > 0 {
		x.delayed = append(x.delayed, msg)
		return
	}
	x.post(msg)
}

func (x *simulation) handle(msg message) {
	x.r.moment++
	x.r.pass(x.now)
	switch msg := msg.(type) {
	case observed:
		if pods := msg.observation.Pods; pods != nil {
			x.restarted[msg.observation.Object.Name] = pods.Restarted
			break
		}
		if _, outside := x.outside[msg.observation.Object.Name]; outside {
			if msg.group == x.gates[msg.group.Unit] { // else an edited revision has replaced it
				x.r.outside[msg.observation.Object.Name] = msg.observation.Status
			}
			break
		}
		x.seen[msg.observation.Object.Name] = msg.observation
	case answered:
		if msg.err == nil && msg.response.WaitGone == nil {
			x.answered[msg.request.object.Name] = x.now
		}
		if c := x.custom[msg.request.object.Name]; c != nil && msg.err == nil && msg.response.WaitGone == nil && !msg.request.stage.removes() {
			c.before, c.applied = msg.response.StatusBefore, x.r.counted
		}
	case nameFreed:
		if r := msg.request; r.stage == x.m.stage && r.object.request == requestBlocked && r.attempt == r.group.attempt.number {
			x.r.freed[r.object.Name] = r.group.Unit
		}
	case serverUnreachable:
		x.r.away = true
	case serverReachable:
		x.r.away = false
	}
	if in, ok := msg.(stageStarted); ok {
		x.r.enter(in.stage.Phase)
	}
	effects := x.m.handle(x.now, msg)
	x.r.timeout, x.r.proving = x.r.timeout || x.m.timeouts.expired, x.m.timeouts.proof != nil
	x.perform(effects)
	x.r.quiet()
	if x.r.diagnosing == 0 && (x.m.stage == nil || x.m.stage.inFlight == 0) {
		x.r.idle()
	}
	x.compare()
	x.checkIndexes()
}

func (x *simulation) perform(effects []effect) {
	for _, eff := range effects {
		switch eff := eff.(type) {
		case publish:
			eff.event.Seq, eff.event.Time = x.r.state.Seq+1, x.now
			x.r.event(eff.event)
		case sendRequest:
			x.request(eff.request)
		case startWatch:
			if eff.group.gated != nil {
				x.gates[eff.group.Unit] = eff.group
				for _, o := range eff.group.objects {
					delete(x.r.outside, o.Name)
					x.hear(observed{eff.group, x.outside[o.Name]})
				}
				continue
			}
			x.watched[eff.group.Unit] = eff.group
			p := x.phases[eff.group.stage.run]
			for _, o := range eff.group.objects {
				if p.spec(o.Object).Stale {
					x.report(eff.group, o.Object, event.Ready, 1)
				}
			}
		case startDiagnosis:
			if eff.diagnosis.failure != nil {
				x.r.diagnosing++
			} else if x.diagnoses++; x.diagnoses > 3 {
				continue // otherwise a paused run would never become idle
			}
			x.after(x.s.Diagnosis, func() {
				if eff.diagnosis.failure != nil {
					x.r.diagnosing--
				}
				x.post(diagnosed{eff.diagnosis, Finding{Cause: "why", Requests: 5}})
			})
		case startRefresh:
			x.after(x.s.Diagnosis/2, func() { x.post(refreshed(eff)) })
		case cancelRequests, resetRequests:
			for _, r := range x.hangs {
				x.answer(r, Response{}, errRefused)
			}
			x.hangs = nil
		case replyAdmit:
			eff.admission.done <- eff.err
		case endStage:
			if x.confirms[eff.run] && eff.err == nil {
				x.r.confirmed()
			}
			x.over[eff.run], x.r.stage = eff.err, nil
		case replyTransition:
			eff.reply <- eff.err
		}
	}
}

func (x *simulation) request(r request) {
	p := x.phases[r.stage.run]
	x.r.requested(r.group.Unit, r.object.Object, true)
	o := x.w.attempt(p, p.spec(r.object.Object))
	if o.Hang {
		x.hangs = append(x.hangs, r)
		x.fixLater(r, p, o)
		return
	}
	x.after(o.Request, func() {
		if o.Denied {
			x.answer(r, Response{}, errRefused)
			x.fixLater(r, p, o)
			return
		}
		if x.blocks(p, o) {
			x.block(r, o)
			return
		}
		v := x.w.next()
		out := Response{Change: event.Created, Version: v}
		if !r.stage.removes() {
			x.appliedVersion[o.Name] = v
			if c := x.custom[o.Name]; c != nil {
				out.StatusBefore = c.mark()
				x.report(r.group, r.object.Object, event.Ready, v) // the apply itself
			}
		}
		x.answer(r, out, nil)
		x.after(o.After, func() {
			x.report(r.group, r.object.Object, results[o.Result], x.w.next())
			if o.Restarts > 0 {
				x.after(o.Restarts, func() {
					x.hear(observed{x.watched[r.group.Unit], Observation{Object: r.object.Object, Pods: &Pods{Restarted: x.now, Restart: "container app exited with code 1"}}})
				})
			}
			if x.custom[o.Name] != nil && o.Speaks > 0 {
				x.after(o.Speaks, func() {
					x.write(o.Name)
					x.report(r.group, r.object.Object, results[o.Result], x.w.next())
				})
			}
			switch {
			case o.Result != p.goal():
				x.fixLater(r, p, o)
			case o.Breaks > 0:
				x.breakLater(r, o)
			}
		})
	})
}

// blocks reports whether an older object must go before the object can be applied.
func (x *simulation) blocks(p phaseSpec, o objectSpec) bool {
	if o.Blocked == 0 || p.Kind != event.PhaseApply || x.blocked[o.Name] == gone {
		return false
	}
	return true
}

const gone = -1 // in blocked: the older object is gone

// block responds that an object of the same name is still being deleted.
func (x *simulation) block(r request, o objectSpec) {
	x.r.blocked(r.group.Unit, r.object.Object)
	x.answer(r, Response{WaitGone: func(context.Context) {}}, nil)
	if x.blocked[o.Name]++; o.Blocked > 0 {
		x.after(o.Blocked, func() {
			x.blocked[o.Name] = gone
			x.hear(nameFreed{r})
		})
	}
}

var results = map[string]event.Status{"ready": event.Ready, "failed": event.Failed, "never": event.InProgress, "gone": event.Gone, "deleting": event.Deleting}

// fixLater schedules the object to become ready, or gone in a removal, as if somebody else had fixed it.
func (x *simulation) fixLater(r request, p phaseSpec, o objectSpec) {
	if o.Fixed > 0 {
		x.after(o.Fixed, func() { x.write(o.Name); x.report(r.group, r.object.Object, results[p.goal()], x.w.next()) })
	}
}

// breakLater schedules an object that is ready to break, and to heal.
func (x *simulation) breakLater(r request, o objectSpec) {
	x.after(o.Breaks, func() {
		x.write(o.Name)
		x.report(r.group, r.object.Object, results[o.Broken], x.w.next())
		if o.Heals > 0 {
			x.after(o.Heals, func() { x.write(o.Name); x.report(r.group, r.object.Object, event.Ready, x.w.next()) })
		}
	})
}

func (x *simulation) answer(r request, out Response, err error) {
	x.r.returned(r.object.Object)
	x.hear(answered{r, out, err})
}

func (x *simulation) report(g *group, o plan.Object, s event.Status, version uint64) {
	seen := Observation{Object: o, Status: s, Version: version}
	if c := x.custom[o.Name]; c != nil && !g.stage.removes() {
		seen.AwaitsStatus, seen.StatusWrite = true, c.mark()
	}
	x.actual[o.Name] = seen
	x.hear(observed{x.watched[g.Unit], seen})
}

// restartedLately reports whether a container of the object restarted since its apply and has not run for StableAfter again.
func (x *simulation) restartedLately(name string) bool {
	at := x.restarted[name]
	return at.After(x.answered[name]) && x.now.Sub(at) < StableAfter
}

// notReady says why a unit is not ready, or returns "".
func (x *simulation) notReady(id event.Unit) string {
	for _, o := range x.r.units[id].spec.Objects {
		if seen := x.seen[o.Name]; seen.Status != event.Ready && !x.r.units[id].spec.Leaf || seen.Version < x.appliedVersion[o.Name] {
			return fmt.Sprintf("%s is %s at version %d, applied at %d", o.Name, seen.Status, seen.Version, x.appliedVersion[o.Name])
		}
		if x.restartedLately(o.Name) && !x.r.units[id].spec.Leaf {
			return fmt.Sprintf("a container of %s restarted %s ago (R22c)", o.Name, x.now.Sub(x.restarted[o.Name]))
		}
		if left := x.silence(o.Name, x.seen[o.Name]); left > 0 && !x.r.units[id].spec.Leaf {
			return fmt.Sprintf("the controller of %s has said nothing, and there are %s left (R22a)", o.Name, left)
		}
	}
	return ""
}

// readyNamed reports whether the object of a failure is ready as applied.
func (x *simulation) readyNamed(message string) bool {
	object, _, _ := strings.Cut(message, ": ")
	_, name, _ := strings.Cut(object, "/")
	if o, outside := x.outside[name]; outside {
		return o.Status == event.Ready
	}
	seen := x.actual[name]
	return !x.restartedLately(name) && x.silence(name, seen) <= 0 && seen.Status == event.Ready && x.appliedVersion[name] > 0 && seen.Version >= x.appliedVersion[name]
}

// compare compares the state of the reducer with that of the machine.
func (x *simulation) compare() {
	m, state := x.m, &x.r.state
	if x.r.closed || x.r.diagnosing > 0 { // a failure is published with its cause
		return
	}
	if s := m.steering; state.Run != s.reported || state.RunMessage != s.reportedMessage {
		x.r.fail("the run is %s (%s), in event.State %s (%s)", s.reported, s.reportedMessage, state.Run, state.RunMessage)
	}
	if m.outage.reported == state.AwaySince.IsZero() {
		x.r.fail("R53: the outage is %+v, in event.State %s", m.outage, state.AwaySince)
	}
	for _, u := range m.units.all {
		if g := state.Find(u.Phase, u.Group); g == nil || g.Status != u.status || state.PausesBefore(u.Unit) != (u.breakpoint != noBreakpoint && u.breakpoint != breakpointDisabled) {
			x.r.fail("%v is %s (breakpoint %d), in event.State %+v", u.Unit, u.status, u.breakpoint, g)
		}
	}
	if m.stage == nil || m.windingDown() || m.heldFailure() != nil {
		return
	}
	for _, g := range slices.Concat(m.stage.groups, m.stage.gates) {
		shown := state.Find(g.Phase, g.Group)
		for _, o := range g.objects {
			if p := shown.Find(o.Object); p == nil || p.Status != o.status {
				x.r.fail("%s of %v is %s, in event.State %+v", o.Object, g.Unit, o.status, p)
			}
		}
	}
	if m.stage.Phase.Kind == event.PhaseHooks || len(m.admissions) > 0 {
		return
	}
	startable, next := m.startable(), state.Next()
	if len(startable) > 0 && (next == nil || next.Unit() != startable[0].Unit) || len(startable) == 0 && next != nil && next.Phase == m.stage.Phase.Name {
		x.r.fail("R41: next is %v, in event.State %+v", startable, next)
	}
}

// simulated is the operator of a simulation; it runs in a coroutine.
type simulated struct {
	x     *simulation
	yield func(bool) bool
}

var errStopped = errors.New("the simulation is over")

func (o *simulated) await(done func() bool) {
	for !done() {
		if !o.yield(true) {
			panic(errStopped)
		}
	}
}

func (o *simulated) announce(p phaseSpec) {
	o.x.r.announce(p)
	o.x.post(announced{[]event.Phase{p.phase()}})
}

func (o *simulated) admit(p phaseSpec, g *plan.Group) error {
	w := &admission{unit: event.Unit{Phase: p.Name, Group: g.ID}, done: make(chan error, 1)}
	o.x.post(admitRequested{w})
	o.await(func() bool { return len(w.done) > 0 })
	return <-w.done
}

func (o *simulated) stage(p phaseSpec, def event.Phase) error {
	run := &StageRun{}
	o.x.phases[run] = p
	o.x.post(stageStarted{Stage{Phase: def, Await: p.await, WatchOutside: func(context.Context, *plan.Group, func(Observation)) {}, Lenient: p.Lenient, ObjectTimeout: time.Duration(o.x.s.Readiness) * time.Millisecond,
		FirstStatusTimeout: time.Duration(o.x.s.FirstStatus) * time.Millisecond}, run})
	return o.end(run)
}

func (o *simulated) confirm(last phaseSpec) error {
	run := &StageRun{}
	o.x.phases[run], o.x.confirms[run] = last, true
	o.x.r.enter(last.phase())
	o.x.r.confirming = true
	o.x.post(confirmRequested{run})
	err := o.end(run)
	o.x.r.confirming = false
	return err
}

// end waits for the end of a stage.
func (o *simulated) end(run *StageRun) error {
	left := func() bool { a := o.x.m.steering.ending; return o.x.s.Hasty && a != nil && a.Name == event.Stop }
	o.await(func() bool { _, over := o.x.over[run]; return over || left() })
	if _, over := o.x.over[run]; !over {
		return &StageError{Cause: ErrAborted}
	}
	return o.x.over[run]
}

func (o *simulated) endingCommand() *event.Command { return o.x.m.steering.ending }

func (o *simulated) rollback() error {
	return o.transition(func(m *machine) error { return m.startRollback(event.Operation{Name: "uninstall"}, "") })
}

func (o *simulated) startEditedRevision() error {
	op := event.Operation{Name: "upgrade", Timeout: o.x.m.opts.Operation.Timeout}
	return o.transition(func(m *machine) error { return m.startEditedRevision(op, "", o.x.s.phases()) })
}

func (o *simulated) finish(end End) error {
	return o.transition(func(m *machine) error { return m.finish(end) })
}

func (o *simulated) transition(transition func(*machine) error) error {
	reply := make(chan error, 1)
	o.x.post(transitionRequested{transition, reply})
	o.await(func() bool { return len(reply) > 0 })
	return <-reply
}

func (o *simulated) sleep(ms int) {
	over := ms == 0
	if !over {
		o.x.after(ms, func() { over = true })
	}
	o.await(func() bool { return over })
}

// later is an action with its time; timeline has all of them.
type later struct {
	at    time.Time
	order int
	do    func()
}

type timeline []later

func (t timeline) Len() int { return len(t) }
func (t timeline) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || t[i].at.Equal(t[j].at) && t[i].order < t[j].order
}
func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timeline) Push(x any)   { *t = append(*t, x.(later)) }
func (t *timeline) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
