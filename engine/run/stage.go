package run

import (
	"fmt"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Stage is one phase and what it is done with.
type Stage struct {
	Phase   event.Phase
	Cluster Cluster
	// Await tells which groups are over only when their objects are ready, or
	// in a removal gone; the others are over once the API server has answered
	// (R21). Nil awaits every group.
	Await func(*plan.Group) bool
	// Readiness is how long an awaited object may take to become ready from its
	// apply, or in a removal to go, in active time; 0 for no limit of its own (R25).
	Readiness time.Duration
	// Lenient removals never fail because an object is still being deleted: the
	// groups behind it wait until its time is over, and then continue (R30). A group
	// that no other waits for has only a moment.
	Lenient bool
}

// removes reports whether the stage takes objects away.
func (s *Stage) removes() bool { return s.Phase.Kind == event.PhaseRemove }

// Failure is a group that failed, and the object that made it fail.
type Failure struct {
	Group   string
	Object  plan.Object
	Message string
	// Cause and Evidence are those of an Event.
	Cause    string
	Evidence []string
}

// StageError is why a stage did not do all it should.
type StageError struct {
	Failures []Failure
	// Skipped lists the groups that never started, in plan order.
	Skipped []string
	// Cause is ErrAborted or ErrTimeout where that ended the stage, or nil.
	Cause error
}

func (s *StageError) Unwrap() error { return s.Cause }

func (s *StageError) Error() string {
	var parts []string
	if s.Cause != nil {
		parts = append(parts, s.Cause.Error())
	}
	for _, f := range s.Failures {
		parts = append(parts, fmt.Sprintf("%s: %s: %s", f.Group, f.Object, f.Message))
	}
	if len(s.Skipped) > 0 {
		parts = append(parts, "never started: "+strings.Join(s.Skipped, ", "))
	}
	return strings.Join(parts, "; ")
}

// stage is a stage under way. What is seen of its objects counts until a rollback
// begins, also after it is over.
type stage struct {
	Stage
	m         *machine
	run       *StageRun // whom to tell
	groups    []*group  // in plan order
	by        map[string]*group
	open      []*group  // those that have not begun and could, or are to, in plan order
	ended     int       // the groups before this one are over
	applied   int       // of the groups before this one every request has been queued
	queue     []request // that wait for a free place, or for an older one of their object
	busy      inFlight
	deadlines []deadline // the next one first: an outage sets their clock back
	looks     []look     // that are to be taken, in no order
	lookDue   time.Time  // of the first of them, zero for none
	failures  []*failure // of groups that are failed, in the order in which they failed
	reported  bool       // that every request was answered
	closed    bool
	hurried   bool // the operation's time is over, so that a lenient removal waits for nothing
	era       int  // of the machine, when it began
}

// inFlight counts what is to come back.
type inFlight struct {
	requests int
	// diagnoses are those that the end of the stage waits for; looks are the
	// others.
	diagnoses, looks int
}

// some reports whether anything is running that the stage waits for.
func (f inFlight) some() bool { return f.requests > 0 || f.diagnoses > 0 }

// group is a group of a stage: a unit, and how far it is.
type group struct {
	*unit
	def     *plan.Group
	stage   *stage
	place   int         // in plan order
	seats   []seat      // the last is that of this attempt
	ranks   []plan.Rank // of its waves
	await   bool
	watched bool
	left    int      // gates that are not open
	after   []*group // groups that wait for this one
	objects []*object
	index   map[plan.Object]*object
	attempt attempt
}

// attempt is how far a group is since it was last begun.
type attempt struct {
	number   int // 0 before the first
	round    int // counts attempts and what was accepted
	accepted bool
	wave     int // this one and those after it have not been sent
	sent     int // objects before this one have been sent
	pending  int // requests without an answer, of this attempt
	open     int // objects that are not settled
	undone   int // objects that have not come to all they should
}

// object is an object of a group.
type object struct {
	plan.Object
	reply    reply // of the API server, to this attempt's request
	flying   bool  // a request is running, of whatever attempt
	released bool  // it is still being deleted, and nothing waits for it any more
	settled  bool  // nothing is left to wait for
	done     bool  // it has come to all it should
	// unchanged means that this attempt's request has changed nothing.
	unchanged bool
	// version is what an observation has to have, at least, to count: that of
	// the apply, or as long as there was none more than what was seen before.
	version uint64
	fresh   bool   // last has more than version, or none
	name    string // that the API server made, if it did
	since   time.Time
	last    Observation
	status  event.Status
	message string
	pace    Pace      // of the looks at it, of this attempt
	lookDue time.Time // when it is to be looked into, zero for never
	found   Finding   // what this attempt's object was found to suffer from, the best that is known
}

// reply is what the API server has said to the request for an object.
type reply uint8

const (
	noReply      reply = iota
	replyBlocked       // an object of the same name has to go before it can be applied
	replyTaken
)

// failure is a group that is failed and what became of that.
type failure struct {
	Failure
	group   *group
	symptom string    // what the object looks like, in words that stand for themselves
	gaveUp  string    // after which time, where that has made it fail
	says    certainty // the symptom
	known   *Finding  // what the object was found to suffer from
	state   failureState
}

// certainty is how much a symptom says about why its group has failed.
type certainty uint8

const (
	causeUnknown certainty = iota // nothing: the cause has to be found
	causePartial                  // it is the cause, and there may be more to it
	causeKnown                    // it is the cause
)

// failureState is how far a failure has come; none goes back.
type failureState uint8

const (
	failureUntold  failureState = iota // it is not known why yet
	failureTold                        // it is held on where failures are (R44)
	failureGivenUp                     // it stays as it is
)

type deadline struct {
	group  *group
	object *object
	round  int
	at     time.Duration // active time
}

// enter makes a stage that of the run.
func (m *machine) enter(def Stage, run *StageRun) {
	s := &stage{Stage: def, m: m, run: run, by: make(map[string]*group, len(def.Phase.Groups)), era: m.era}
	for _, g := range def.Phase.Groups {
		s.add(g)
	}
	for _, g := range s.groups {
		for _, id := range g.def.After {
			if before := s.by[id]; before != nil {
				before.after = append(before.after, g)
				g.left++
			}
		}
		if g.left == 0 || g.status == event.Running { // else Admit has let it go
			s.open = append(s.open, g)
		}
	}
	m.stage = s
	m.timeouts.heartbeat = m.clock.active(m.now) + m.opts.Heartbeat
}

func (s *stage) add(def *plan.Group) {
	u, _ := s.m.units.add(event.Unit{Phase: s.Phase.Name, Group: def.ID})
	if u.status != event.Running { // else Admit has let it go
		u.status, u.reached = event.Waiting, false
	}
	g := &group{
		unit: u, def: def, stage: s, place: len(s.groups), ranks: def.Ranks(s.removes()), await: s.Await == nil || s.Await(def),
		index: make(map[plan.Object]*object, len(def.Objects)),
	}
	for _, o := range def.Objects {
		or := &object{Object: o, status: event.Waiting}
		g.objects = append(g.objects, or)
		g.index[o] = or
	}
	u.unchecked = !g.await && s.Phase.Kind == event.PhaseApply
	s.groups, s.by[def.ID] = append(s.groups, g), g
}

// active reports whether a group is running.
func (s *stage) active() bool {
	for _, g := range s.groups {
		if g.status == event.Running {
			return true
		}
	}
	return false
}

func (s *stage) allOver() bool {
	for s.ended < len(s.groups) && s.groups[s.ended].status.Over() {
		s.ended++
	}
	return s.ended == len(s.groups)
}

// reportApplied tells once that every request of the stage was answered.
func (s *stage) reportApplied() {
	if s.reported || s.busy.requests > 0 || len(s.queue) > 0 {
		return
	}
	for ; s.applied < len(s.groups); s.applied++ {
		if g := s.groups[s.applied]; g.attempt.number == 0 || g.attempt.sent < len(g.objects) {
			return
		}
	}
	s.reported = true
	s.m.do(allApplied{s.run})
}

// close ends the stage.
func (s *stage) close(cause error) {
	s.closed, s.m.stage = true, nil
	if len(s.failures) > 0 && s.m.root == nil {
		s.m.root = &s.failures[0].Failure
	}
	err := &StageError{Cause: cause}
	for _, f := range s.failures {
		err.Failures = append(err.Failures, f.Failure)
	}
	blamed := map[*group]blame{}
	for _, g := range s.groups {
		switch {
		case g.status == event.Running:
			s.m.setUnit(g.unit, event.Aborted, causeText(cause))
		case !g.status.Over():
			err.Skipped = append(err.Skipped, g.Group)
			s.m.setUnit(g.unit, event.Skipped, g.whySkipped(s.blame(g, blamed), cause))
		}
	}
	if cause == nil && len(err.Failures) == 0 && len(err.Skipped) == 0 {
		s.m.do(stageOver{s.run, nil})
		return
	}
	s.m.do(stageOver{s.run, err})
}

func causeText(cause error) string {
	if cause == nil {
		return ""
	}
	return cause.Error()
}
