package event

import (
	"iter"
	"slices"
	"time"

	"lockstep/engine/plan"
)

// State is the state of an operation after a sequence of events. Only Apply changes it and, in a
// Snapshot, also Observe. The zero value is ready to use.
type State struct {
	Operation Operation
	// Undo is the operation that rolls this one back, nil before its rollback.
	Undo *Operation
	// Status is the operation's: Running, RollingBack, Succeeded, Failed or Aborted; empty
	// before the operation starts.
	Status  Status
	Message string
	// FailedObject is the object that made the operation fail, Cause and Evidence the reason. They
	// are set at the end.
	FailedObject *plan.Object
	Cause        string
	Evidence     []string
	Exit         int
	// Outcome, Code, Unchecked, NoStatus, NotAwaited, Release, Newer and Results are those of the last Event.
	Outcome    string
	Code       string
	Unchecked  int
	NoStatus   int
	NotAwaited int
	Release    string
	Newer      *NewerRevision
	Results    []ReleaseResult
	// Origin is who or what aborted the operation, nil if nobody did.
	Origin *Origin
	// Run is the status of the run: Running, Paused, Held, Replacing or Aborting.
	// RunMessage and RunOrigin say why; for a pause, see Pause.
	Run        Status
	RunMessage string
	RunOrigin  *Origin

	Started, Ended time.Time
	// Now is the time of the last event.
	Now time.Time
	// Seq is the number of the last event.
	Seq uint64

	Phases      []*PhaseState
	Breakpoints map[Unit]bool // true if enabled (R42)
	Approvals   []Approval    // the oldest first (R42a)
	NoReturn    []string      // the reasons of the points of no return that were passed (R33a)
	Warnings    []Event
	// Waiting is the last heartbeat, Answer the last answer to a command.
	Waiting, Answer Event
	// AwaySince is when the API server became unreachable, zero while it is reachable (R53).
	AwaySince time.Time
	Screens   int // that show the run
	Notes     []string
	// Scopes are the states of a stack's releases, by Event.Scope. A release that stays
	// unchanged has none.
	Scopes map[string]*State
	fixTracker

	earlier earlierChanges
	// undoing are the net changes that a stack undoes by a rollback or an uninstall of the release, nil for none.
	undoing map[plan.Object]Change
	edited  bool // an edited revision has started
	// rollbackStopped is set when a command aborts the run during its rollback.
	rollbackStopped bool

	idle    stopwatch // runs while the operation is paused or held
	idledBy struct{ pause, hold bool }
	// before is how long the operation had run when its timeout started again, for an edited revision or the rollback.
	before  time.Duration
	stepped bool      // a step was accepted
	frozen  stopwatch // runs while readiness timeouts are paused: during pauses, holds and outages
	groups  map[Unit]*GroupState
}

// Apply updates the state with an event.
func (s *State) Apply(e Event) {
	if e.Kind == KindManifest {
		return
	}
	if s.Started.IsZero() {
		s.Started = e.Time
	}
	s.Now, s.Seq = e.Time, e.Seq
	if e.Scope != "" {
		release := s.scope(e.Scope)
		e.Scope = ""
		release.Apply(e)
		return
	}
	s.apply(e)
}

// apply updates the state with an event that is not about a release of the stack.
func (s *State) apply(e Event) {
	switch e.Kind {
	case KindOperation:
		s.applyOperation(e)
	case KindPlan:
		if e.Operation != nil && s.Status == "" { // a release of a stack that has not started
			s.Operation = *e.Operation
		}
		for _, p := range e.Phases {
			s.addPhase(p)
		}
	case KindRun:
		s.applyRun(e)
	case KindGroup:
		s.applyGroup(e)
	case KindObject:
		s.applyObject(e)
	case KindDiagnosis:
		if o := s.object(e); o != nil {
			o.applyDiagnosis(e)
		}
	case KindDrift:
		if o := s.object(e); o != nil {
			o.Drift = e.Drift
		}
	case KindLog:
		if o := s.object(e); o != nil {
			o.Log = append(o.Log, e.Lines...)
		}
	case KindBreakpoint:
		s.applyBreakpoint(e)
	case KindApproval:
		if e.Approval != nil && len(Missing([]plan.Approval{e.Approval.Approval}, s.Approvals)) > 0 {
			s.Approvals = append(s.Approvals, *e.Approval)
		}
	case KindNoReturn:
		s.NoReturn = append(s.NoReturn, e.Message)
	case KindWarning:
		s.Warnings = append(s.Warnings, e)
	case KindWaiting:
		s.Waiting = e
		s.object(e).refineCause(e)
	case KindServer:
		s.AwaySince = e.Since
		s.setClocks(e.Time)
	case KindCommand:
		s.Answer = e
		s.stepped = s.stepped || e.Command == Step && e.Status == Accepted
		s.fixedBy(e)
	case KindScreens:
		s.Screens = e.Screens
	case KindNotes:
		s.Notes = e.Lines
	}
}

func (s *State) scope(name string) *State {
	if s.Scopes == nil {
		s.Scopes = map[string]*State{}
	}
	if s.Scopes[name] == nil {
		s.Scopes[name] = &State{}
	}
	return s.Scopes[name]
}

func (s *State) applyOperation(e Event) {
	if s.Status != "" && e.Status == Running && !s.Operation.IsWatch() {
		// An edited revision starts (R46), the run resumes in another pod, or a stack rolls this release back.
		s.fixTracker.replace(s.groups)
		s.edited = s.edited || s.Run == Replacing
		if s.Ended.IsZero() {
			s.earlier = s.earlier.with(s.Phases)
			s.Warnings = slices.DeleteFunc(slices.Clone(s.Warnings), func(w Event) bool { return w.Code == PlanWarning })
		} else { // it is another operation
			s.undoing = s.undoneBy(e.Operation)
			s.earlier, s.NoReturn = earlierChanges{}, nil
		}
		s.Phases, s.groups, s.Breakpoints, s.Approvals, s.Waiting = nil, nil, nil, nil, Event{}
	}
	if s.Status == "" { // the plan of a stack's release comes before its operation starts
		s.Started = e.Time
	}
	if s.Status != "" && (e.Status == Running && s.Run == Replacing || e.Status == RollingBack) {
		s.before = s.Active(e.Time)
	}
	s.Status, s.Message, s.Origin = e.Status, e.Message, e.Origin
	s.FailedObject, s.Cause, s.Evidence = e.Object, e.Cause, e.Evidence
	switch {
	case e.Status == RollingBack:
		s.Undo = e.Operation
	case e.Operation != nil:
		s.Operation, s.Undo = *e.Operation, nil
	}
	if e.Status == Succeeded {
		s.fixTracker.succeed(e.Time)
	}
	if e.Status != Running && e.Status != RollingBack {
		s.Ended, s.AwaySince = e.Time, time.Time{}
	}
	s.setRun(e.Time, Running, "", nil)
	if e.Exit != nil {
		s.Exit, s.Outcome, s.Code, s.Release, s.Unchecked = *e.Exit, e.Outcome, e.Code, e.Release, e.Unchecked
		s.NoStatus, s.NotAwaited, s.Newer, s.Results = e.NoStatus, e.NotAwaited, e.Newer, e.Results
		if n := s.Newer; n != nil && n.Author != "" && n.Revision == s.Operation.Revision { // the run was about to create it
			s.Operation.Revision = 0
		}
	}
}

// Ending returns the status to show for the outcome: Applied if the operation succeeded but
// some groups are unchecked (R21), some controllers have written no status (R22a), or some objects were not waited for (R22b),
// else Status.
func (s *State) Ending() Status { return Ending(s.Status, s.Unchecked+s.NoStatus+s.NotAwaited) }

// Ending returns the status to show for an outcome, see State.Ending; unknown counts what the operation does not know.
func Ending(status Status, unknown int) Status {
	if status == Succeeded && unknown > 0 {
		return Applied
	}
	return status
}

func (s *State) applyRun(e Event) {
	if e.Operation != nil {
		s.Operation.Timeout = e.Operation.Timeout
	}
	s.setRun(e.Time, e.Status, e.Message, e.Origin)
	s.rollbackStopped = s.rollbackStopped || s.Status == RollingBack && e.Status == Aborting
	if s.Answer.Status == Refused { // because of the previous state
		s.Answer = Event{}
	}
}

func (s *State) setRun(at time.Time, run Status, message string, origin *Origin) {
	s.Run, s.RunMessage, s.RunOrigin = run, message, origin
	s.setClocks(at)
}

func (s *State) setClocks(at time.Time) {
	paused := s.Run == Paused || s.Run == Held
	run, _ := s.RunStatus() // a stack is paused while a release is held
	s.idledBy.pause = s.idledBy.pause || run == Paused
	s.idledBy.hold = s.idledBy.hold || run == Held
	s.idle.set(paused, at)
	s.frozen.set(paused || !s.AwaySince.IsZero(), at)
}

// TimeLeft returns how long an object of the chart may still be in progress before
// --readiness-timeout fails its group (R25). ok is false if nothing limits it.
func (s *State) TimeLeft(g *GroupState, o *ObjectState, now time.Time) (left time.Duration, ok bool) {
	limit := s.Operation.ReadinessTimeout
	wait := g.WaitOf(o.Object)
	if limit > 0 && wait.Timeout > 0 {
		limit = wait.Timeout
	}
	inChart := s.PhaseKind(g.Phase) == PhaseApply
	timeoutRuns := s.Ended.IsZero() && s.Run != Aborting && !s.frozen.running()
	outside := g.Status == Waiting && o.Status == InProgress && slices.Contains(g.Outside, o)
	waiting := g.Status == Running && o.Status == InProgress && !o.Answered.IsZero() || outside
	if limit <= 0 || wait.Never || !inChart || !timeoutRuns || !waiting {
		return 0, false
	}
	since := o.Answered
	switch {
	case outside:
		since = o.Sent
	case g.Started.After(since): // a re-check
		since = g.Started
	}
	return max(limit-(now.Sub(since)-(s.frozen.read(now)-o.frozen)), 0), true
}

// Groups returns the groups of all phases, in plan order.
func (s *State) Groups() (all []*plan.Group) {
	for g := range s.GroupStates() {
		all = append(all, g.Group)
	}
	return all
}

// GroupStates yields the groups of all phases, in plan order.
func (s *State) GroupStates() iter.Seq[*GroupState] {
	return func(yield func(*GroupState) bool) {
		for _, p := range s.Phases {
			for _, g := range p.Groups {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// AnyGroupStarted reports whether a group of any phase has started.
func (s *State) AnyGroupStarted() bool {
	for g := range s.GroupStates() {
		if !g.Started.IsZero() {
			return true
		}
	}
	return false
}

// Find returns the group of a phase, or nil.
func (s *State) Find(phase, id string) *GroupState { return s.groups[Unit{phase, id}] }

// PhaseKind returns the kind of a phase, "" if there is no such phase.
func (s *State) PhaseKind(name string) PhaseKind {
	for _, p := range s.Phases {
		if p.Name == name {
			return p.Kind
		}
	}
	return ""
}

// FailedGroups counts the failed groups of all phases.
func (s *State) FailedGroups() (n int) {
	for g := range s.GroupStates() {
		if g.Status == Failed {
			n++
		}
	}
	return n
}

// Counts has the numbers of objects: of all, and of those that are ready or gone.
type Counts struct{ Total, Done int }

// StackCounts count the releases and the hooks of a stack.
type StackCounts struct{ Releases, Hooks Counts }

// CountStack counts the releases and the hooks of a stack by their status.
func (s *State) CountStack() (n StackCounts) {
	for g := range s.GroupStates() {
		c := &n.Releases
		if g.Step != nil {
			c = &n.Hooks
		}
		for _, o := range g.Objects {
			c.add(o)
		}
	}
	return n
}

// GroupNoun returns what the groups are called: "release" in a stack without hooks, else "group".
func (s *State) GroupNoun() string {
	if s.CountStack().Hooks.Total > 0 {
		return "group"
	}
	return s.Operation.GroupNoun()
}

// Count counts the objects of all phases.
func (s *State) Count() Counts {
	var c Counts
	var created plan.Object // see NewNamespace
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if p.Kind == PhaseNamespace {
					created = o.Object
				} else if o.Object == created {
					continue
				}
				c.add(o)
			}
		}
	}
	return c
}

func (c *Counts) add(o *ObjectState) {
	c.Total++
	if o.Done() {
		c.Done++
	}
}
