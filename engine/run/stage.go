package run

import (
	"context"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Stage is a phase with the options to run it.
type Stage struct {
	Phase   event.Phase
	Cluster Cluster
	// Await reports whether a group ends only when its objects are ready or, in a removal, gone.
	// Other groups end once the API server has accepted their objects (R21). Nil awaits every group.
	Await func(*plan.Group) bool
	// ObjectTimeout is the time in which an awaited object must become ready after its apply or, in
	// a removal, be gone; 0 for no limit (R25).
	ObjectTimeout time.Duration
	// FirstStatusTimeout is how long an awaited object waits for its controller's first status after its apply; then it
	// counts as ready (R22a). 0 does not wait.
	FirstStatusTimeout time.Duration
	// Settle is how long the containers of a workload without probes must have run before the outcome; 0 does not wait (R22c).
	Settle time.Duration
	// Lenient is for removals: an object that is still being deleted does not fail its group. The
	// group stops waiting for it after ObjectTimeout (goneGrace if no other group waits for the group),
	// when a diagnosis says that waiting will not help, or at the operation's timeout (R30).
	Lenient bool
	// WatchOutside reports the status of the objects that a group waits for (plan.Group.WaitFor), as Cluster.Watch does. Nil
	// starts groups without waiting for them.
	WatchOutside func(ctx context.Context, g *plan.Group, report func(Observation))
	// Holds reports whether the failure of a group holds the run, with Options.HoldOnFailure. Nil means that each does.
	Holds func(*plan.Group) bool
	// Ends reports whether the objects of a group no longer matter once the group is ready, as those of a hook; see
	// Engine.ConfirmReady. Nil means that all matter.
	Ends func(*plan.Group) bool
}

func (s *Stage) removes() bool { return s.Phase.Kind == event.PhaseRemove }

// Failure is a failed group, and the object that made it fail.
type Failure struct {
	Group   string
	Object  plan.Object
	Message string
	// Cause and Evidence are those of an Event.
	Cause    string
	Evidence []string
	// Timeout is the timeout that expired, or nil.
	Timeout *event.Timeout
}

// StageError is the error of a stage that did not succeed.
type StageError struct {
	Failures []Failure
	// Skipped lists the groups that never started, in plan order. Removal is true if
	// the stage removes objects.
	Skipped []string
	Removal bool
	// Cancelled is the number of requests that the run cancelled: at a Stop command, or windDownTime
	// after an abort, an edit or the timeout.
	Cancelled int
	// Cause is or wraps ErrAborted, ErrTimeout or ErrReplaced if one of them ended the stage, or nil.
	Cause error
}

func (s *StageError) Unwrap() error { return s.Cause }

func (s *StageError) Error() string {
	var parts []string
	if s.Cause != nil {
		parts = append(parts, s.Cause.Error())
	}
	for _, f := range s.Failures {
		where := f.Group
		if !strings.HasSuffix(f.Group, ":"+f.Object.String()) { // the group of a hook has its name
			where += ": " + f.Object.String()
		}
		parts = append(parts, where+": "+f.Message)
	}
	if note := s.SkippedNote(); note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, "; ")
}

// SkippedNote names the groups that never started, "" for none.
func (s *StageError) SkippedNote() string {
	switch names := strings.Join(s.Skipped, ", "); {
	case names == "":
		return ""
	case s.Removal:
		return "not removed: " + names
	default:
		return "never started: " + names
	}
}

// stage is a running stage. Observations of its objects count until a rollback or an edited
// revision starts, even after the stage has ended.
type stage struct {
	Stage
	m                 *machine
	run               *StageRun // gets the result
	groups            []*group  // in plan order
	byID              map[string]*group
	gates             []*group    // see group.gated
	candidates        []*group    // not started, and either startable or admitted, in plan order
	endedCount        int         // the first endedCount groups have ended
	appliedCount      int         // all requests of the first appliedCount groups have succeeded
	queue             []request   // waiting for a free slot, or for an earlier request for the same object
	inFlight          int         // requests without an answer
	diagnosing        int         // diagnoses of failures that are running
	cancelled         int         // requests that the run cancelled
	deadlines         []*deadline // the next one first
	schedule          Schedule[waitingObject]
	failures          []*failure // in the order in which the groups failed
	appliedReported   bool       // reportAllApplied was sent
	closed            bool
	confirming        bool // it was ended, and waits again for groups that are no longer ready
	operationTimedOut bool // the operation's timeout has passed, so a lenient removal no longer waits
	epoch             int  // of the machine when the stage started
}

// waitingForAnswers reports whether requests, or diagnoses of failures, are running. Until they
// end, the stage cannot end.
func (s *stage) waitingForAnswers() bool { return s.inFlight > 0 || s.diagnosing > 0 }

type group struct {
	*unit
	def                 *plan.Group
	stage               *stage
	position            int         // in plan order
	cohort              *cohort     // of the current attempt
	ranks               []plan.Rank // of its waves
	await               bool        // see Stage.Await
	watched             bool
	changed             bool     // a request of it has changed an object (R33a)
	refreshing          bool     // an object whose deadline has passed is being read
	pendingDependencies int      // groups that it still waits for
	dependents          []*group // groups that wait for it
	gated               *group   // if it is a gate, the group that waits for its objects, see addGate
	objects             []*object
	byObject            map[plan.Object]*object
	attempt             attempt
}

type attempt struct {
	number     int  // 0 before the first
	round      int  // counts attempts and re-checks
	rechecking bool // it waits for its objects without applying them
	wave       int  // the next wave to queue
	queued     int  // number of objects whose requests were queued
	pending    int  // objects of the current wave that are queued, in flight or blocked
	unsettled  int  // objects that are not settled
	notDone    int  // objects that are not done
}

type object struct {
	plan.Object
	wait       plan.Wait    // how the run waits for it
	request    requestState // of this attempt's request
	inFlight   bool         // a request of any attempt is in flight
	retryError string       // why that request is being retried, or empty
	settled    bool         // the group no longer waits for it
	done       bool         // ready or, in a removal, gone or kept
	notAwaited bool         // settled although it is still being deleted
	unchanged  bool         // this attempt's request changed nothing
	// version is the resourceVersion that the last apply returned; older observations do not
	// count. If no attempt has applied the object, it is the highest version that was seen before
	// this attempt; only observations with a higher one count.
	version uint64
	// statusBefore is Response.StatusBefore of the last apply that changed something.
	statusBefore string
	// statusDeadline is the end of the wait for a status of its controller, nil for none; statusOverdue is set when it has
	// passed (R22a).
	statusDeadline *deadline
	statusOverdue  bool
	applied        bool      // an earlier attempt applied it
	fresh          bool      // last has a higher version than version, or an unknown one
	name           string    // generated by the API server, or empty
	since          time.Time // when the run started to wait for it
	deadline       *deadline // the end of its readiness timeout, nil for none
	last           Observation
	status         event.Status
	message        string
	readyBy        event.Judge // if it is ready, see Observation.ReadyBy
	note           string      // Observation.Note or appliedNote, if it is ready
	appliedNote    string      // Response.Note
	// finalizers are those that the run waits for: of the object, or of the previous one of its name.
	finalizers []string
	stays
	pace  Pace    // of its diagnoses
	found Finding // the best finding in this attempt
}

// requestState is the state of the request that applies or deletes an object in this attempt.
type requestState uint8

const (
	requestNotSucceeded requestState = iota // not sent, in flight, refused or cancelled
	requestBlocked                          // an object of the same name is still being deleted
	requestSucceeded
)

type failure struct {
	Failure
	group      *group
	object     *object
	reason     string     // why the engine failed the group: the state of the object, or the error of its request
	reasonKind reasonKind // how much of the cause the reason explains
	state      failureState
}

// reasonKind is how much of a failure's cause its reason explains.
type reasonKind uint8

const (
	causeUnknown reasonKind = iota // the reason is only the object's state: diagnose it
	causePartial                   // the reason is part of the cause, to which a diagnosis may add
	causeKnown                     // the reason is the whole cause: no diagnosis is needed
)

// failureState is the progress of a failure. It never goes back.
type failureState uint8

const (
	failureDiagnosing failureState = iota // the cause is not known yet
	failureReported                       // published; with HoldOnFailure the run is held (R44)
	failureGivenUp                        // the group stays failed
)

// deadline is the end of an object's readiness timeout or, with firstStatus, of the wait for its first status. It is
// outdated once it is not that of the object; see dropStale.
type deadline struct {
	group  *group
	object *object
	// at is in active time of the readiness clock. It may be 0 or negative, because an outage sets that clock back.
	at          time.Duration
	firstStatus bool
	proof       *proof // not nil if it is the end of the operation's timeout
}

func (d *deadline) outdated() bool { return d != d.object.deadline && d != d.object.statusDeadline }

func (m *machine) startStage(def Stage, run *StageRun) {
	s := &stage{Stage: def, m: m, run: run, byID: make(map[string]*group, len(def.Phase.Groups)), epoch: m.epoch,
		schedule: Schedule[waitingObject]{Limit: maxDiagnoses}}
	for _, g := range def.Phase.Groups {
		s.add(g)
	}
	for _, g := range s.groups {
		first := s.addGate(g)
		for _, id := range g.def.After {
			if dependency := s.byID[id]; dependency != nil {
				dependency.dependents = append(dependency.dependents, first)
				first.pendingDependencies++
			}
		}
		if g.pendingDependencies == 0 || g.status == event.Running { // Running: admitted
			s.candidates = append(s.candidates, g)
		}
	}
	m.stage = s
	m.noteRemoved(s)
	m.restartHeartbeat()
}

// noteRemoved records which objects a stage removes, and that it brings others.
func (m *machine) noteRemoved(s *stage) {
	if m.removed == nil {
		m.removed = map[plan.Object]bool{}
	}
	for _, g := range s.groups {
		for _, o := range g.objects {
			if s.removes() {
				m.removed[o.Object] = true
			} else {
				delete(m.removed, o.Object)
			}
		}
	}
}

func (s *stage) add(def *plan.Group) {
	u, _ := s.m.units.getOrAdd(event.Unit{Phase: s.Phase.Name, Group: def.ID})
	if u.status != event.Running && u.status != event.AtBreakpoint { // Running: admitted; AtBreakpoint: restored
		u.status = event.Waiting
		u.reached = u.reachedBefore
	}
	g := &group{
		unit: u, def: def, stage: s, position: len(s.groups), ranks: def.Ranks(s.removes()),
		await:    s.Await == nil || s.Await(def),
		byObject: make(map[plan.Object]*object, len(def.Objects)),
	}
	for _, o := range def.Objects {
		obj := &object{Object: o, status: event.Waiting}
		g.objects = append(g.objects, obj)
		g.byObject[o] = obj
	}
	for _, w := range def.Waits {
		if obj := g.byObject[w.Object]; obj != nil && !s.removes() {
			obj.wait = w.Wait
		}
	}
	u.notAwaited = 0
	for _, o := range g.objects {
		if o.wait.Never {
			u.notAwaited++
		}
	}
	u.unchecked = !g.await && s.Phase.Kind == event.PhaseApply
	s.groups = append(s.groups, g)
	s.byID[def.ID] = g
}

// succeeded reports whether groups that wait for this one may start.
func (g *group) succeeded() bool {
	return g.status == event.Ready || g.status == event.Applied || g.status == event.Gone
}

func (s *stage) running() (n int) {
	for _, g := range s.groups {
		if g.status == event.Running {
			n++
		}
	}
	return n
}

func (s *stage) allEnded() bool {
	for s.endedCount < len(s.groups) && s.groups[s.endedCount].status.Over() {
		s.endedCount++
	}
	return s.endedCount == len(s.groups)
}

// reportApplied sends reportAllApplied once every request of the stage has succeeded.
func (s *stage) reportApplied() {
	if s.appliedReported || s.inFlight > 0 || len(s.queue) > 0 {
		return
	}
	for ; s.appliedCount < len(s.groups); s.appliedCount++ {
		if !s.groups[s.appliedCount].isApplied() {
			return
		}
	}
	s.appliedReported = true
	s.m.emit(reportAllApplied{s.run})
}

// isApplied reports whether every request of the current attempt has succeeded.
func (g *group) isApplied() bool {
	return g.attempt.number > 0 && g.attempt.queued == len(g.objects) &&
		!slices.ContainsFunc(g.objects, func(o *object) bool { return o.request != requestSucceeded })
}

func (s *stage) close(cause error) {
	s.closed = true
	s.closeGates()
	s.m.stage = nil
	if len(s.failures) > 0 && s.m.firstFailure == nil {
		s.m.firstFailure = &s.failures[0].Failure
	}
	err := &StageError{Cause: cause, Cancelled: s.cancelled, Removal: s.removes()}
	for _, f := range s.failures {
		err.Failures = append(err.Failures, f.Failure)
	}
	cache := map[*group]blame{}
	for _, g := range s.groups {
		switch {
		case g.status == event.Running: // only a cause ends a stage with running groups
			s.m.skipUnit(g.unit, event.Aborted, s.m.skipBy(cause))
		case !g.status.Over():
			err.Skipped = append(err.Skipped, g.Group)
			s.m.skipUnit(g.unit, event.Skipped, s.whySkipped(g, s.blame(g, cache), cause))
		}
	}
	switch ok := cause == nil && len(err.Failures) == 0 && len(err.Skipped) == 0; {
	case !ok:
		s.m.confirmable = nil
		s.m.emit(endStage{s.run, err})
	case s.confirming:
		s.m.confirm(s.run)
	default:
		if s.Phase.Kind == event.PhaseApply {
			s.m.confirmable = append(s.m.confirmable, s)
		}
		s.m.emit(endStage{s.run, nil})
	}
}
