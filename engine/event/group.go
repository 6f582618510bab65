package event

import (
	"slices"
	"time"

	"lockstep/engine/plan"
)

// PhaseState is a phase with the states of its groups, in plan order.
type PhaseState struct {
	Name   string
	Kind   PhaseKind
	Groups []*GroupState
	// Usual is how long each group took last time, see Phase.
	Usual map[string]time.Duration
}

// GroupState is a group with its progress.
type GroupState struct {
	*plan.Group
	Phase   string
	Status  Status
	Message string
	Code    string // see Event.Code
	// FailedObject is the object that made the group fail, Cause and Evidence the reason.
	FailedObject   *plan.Object
	Cause          string
	Evidence       []string
	Limit          Limit    // the timeout that made it fail, or ""
	Timeout        *Timeout // more about it, nil in old records
	Skip           *Skip    // why it is skipped or aborted, or nil
	Started, Ended time.Time
	// Idle is how long, between Started and Ended, a release of a stack was paused or held. A group of a release continues
	// during a pause, so it is never idle.
	Idle    time.Duration
	Objects []*ObjectState
	// Outside are the objects from outside the release, for which the group waits before it starts (R22d). Until the run looks
	// at them, they have the status Waiting.
	Outside []*ObjectState
	// Done counts the Objects that are ready or gone.
	Done       int
	idleBefore time.Duration                // what the release's stopwatch read at Started
	index      map[plan.Object]*ObjectState // by the name in the plan, and by the generated one
}

// Unit returns the group as a unit.
func (g *GroupState) Unit() Unit { return Unit{g.Phase, g.ID} }

// ObjectState is an object with its progress.
type ObjectState struct {
	Object  plan.Object
	Status  Status
	Message string
	Change  Change
	// ReadyBy is the rule by which it counts as ready, NotAwaited whatever its status is, "" if it is not ready or in old
	// records.
	ReadyBy Judge
	// Progress counts its pods, see Event.Progress.
	Progress Progress
	// Note says how far it got, if its own spec keeps it from getting further, see Event.Note.
	Note string
	// Until is when it counts as ready if nothing happens, zero if that is unknown.
	Until time.Time
	// Sent is when the last apply request was sent or, if no request was reported, the time of the first event. Answered is
	// when the API server answered the request, Since when Status last changed; in a watch, Since is zero if Status is older than
	// the watch and the object does not say since when.
	Sent, Answered, Since time.Time
	// Cause and Evidence are why it is not ready, if known. Diagnosis has all lines of the last diagnosis, and Details its facts,
	// nil in old records.
	Cause     string
	Evidence  []string
	Diagnosis []string
	Details   *Details
	// Tally and OnlyState are those of the cause, see Event.
	Tally     Tally
	OnlyState bool
	// Degraded means that waiting alone will not make it ready, DegradedSince is when that was diagnosed or it failed.
	Degraded      bool
	DegradedSince time.Time
	// Drift has the fields that others have changed since it was applied.
	Drift []Drift
	// Log is a hook's output.
	Log []string
	// netChange is the net effect of all requests of the current revision, see NetChange.
	netChange Change
	// causeAt is when Cause was found.
	causeAt time.Time
	// frozen is what State.frozen read when the timeout of the object started.
	frozen time.Duration
}

// Started is a status that no event has, see ObjectState.Shown.
const Started = Status("started")

// Shown is the status to show: instead of Ready, Started for a Job that counts because it has started (R22), and Applied for
// an object whose controller has written no status (R22a).
func (o *ObjectState) Shown() Status {
	switch {
	case o.Status != Ready:
	case o.ReadyBy == ByStart:
		return Started
	case o.ReadyBy == ByNoStatus:
		return Applied
	}
	return o.Status
}

// Shown is the status to show: InProgress instead of Running, and Started or Applied instead of Ready if that is what an
// object of the group shows.
func (g *GroupState) Shown() Status {
	if g.Status == Running {
		return InProgress
	}
	for _, less := range []Status{Started, Applied} {
		if g.Status == Ready && slices.ContainsFunc(g.Objects, func(o *ObjectState) bool { return o.Status == Ready && o.Shown() == less }) {
			return less
		}
	}
	return g.Status
}

// NotAwaited reports whether the run does not wait for the object, so that its problems are not those of its group (R22b).
func (o *ObjectState) NotAwaited() bool { return o.ReadyBy == NotAwaited }

// Done reports whether the object is ready or gone.
func (o *ObjectState) Done() bool { return o.Status == Ready || o.Status == Gone }

// addPhase adds a phase, or replaces the groups of the existing one. Groups that are announced again keep their state if
// they have started.
func (s *State) addPhase(p Phase) {
	i := slices.IndexFunc(s.Phases, func(q *PhaseState) bool { return q.Name == p.Name })
	if i < 0 {
		i = len(s.Phases)
		s.Phases = append(s.Phases, &PhaseState{Name: p.Name, Kind: p.Kind})
	}
	phase := s.Phases[i]
	if s.groups == nil {
		s.groups = map[Unit]*GroupState{}
	}
	phase.Groups = nil
	for _, g := range p.Groups {
		gs := s.Find(p.Name, g.ID)
		if gs == nil || gs.Status == Waiting {
			gs = newGroupState(p.Name, g)
		}
		phase.Groups = append(phase.Groups, gs)
		s.groups[gs.Unit()] = gs
	}
	if p.Usual != nil {
		phase.Usual = p.Usual
	}
}

func newGroupState(phase string, g *plan.Group) *GroupState {
	gs := &GroupState{Group: g, Phase: phase, Status: Waiting, index: make(map[plan.Object]*ObjectState, len(g.Objects))}
	for _, o := range g.Objects {
		gs.add(&gs.Objects, o)
	}
	for _, o := range g.WaitFor {
		gs.add(&gs.Outside, o)
	}
	return gs
}

// add adds the state of an object to one of the group's lists.
func (g *GroupState) add(to *[]*ObjectState, o plan.Object) *ObjectState {
	os := &ObjectState{Object: o, Status: Waiting}
	*to = append(*to, os)
	g.index[o] = os
	return os
}

// Missing returns the objects outside the release that keep the group from starting: its dependencies are ready.
func (g *GroupState) Missing() (missing []*ObjectState) {
	for _, o := range g.Outside {
		if o.Status != Waiting && o.Status != Ready && g.Started.IsZero() {
			missing = append(missing, o)
		}
	}
	return missing
}

// Reached counts the objects that reached the group's goal: all objects of a group that is
// applied and not checked (R21), else those that are done.
func (g *GroupState) Reached() int {
	if g.Status == Applied {
		return len(g.Objects)
	}
	return g.Done
}

// Find returns the state of an object of the group, or nil.
func (g *GroupState) Find(o plan.Object) *ObjectState { return g.index[o] }

func (s *State) applyGroup(e Event) {
	g := s.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	s.fixTracker.beforeChange(g, e)
	if e.Status == Running && (g.Started.IsZero() || g.Status.Over()) {
		if s.Run == Paused && g.Started.IsZero() && s.AwaitsApproval() == nil { // a step: the reason for the pause is obsolete
			s.RunMessage, s.RunOrigin = "", nil
		}
		g.Started, g.Ended, g.idleBefore = e.Time, time.Time{}, s.idleOf(e)
		if !s.Ended.IsZero() && !s.Operation.IsWatch() { // a stack waits for its release again
			s.Status, s.Ended = Running, time.Time{}
		}
		frozen := s.frozen.read(e.Time)
		for _, o := range g.Objects { // a re-check starts their timeouts again
			o.frozen = frozen
		}
	}
	if e.Status == Waiting && g.Status == Failed { // it waits for objects outside the release again
		g.Ended = time.Time{}
		for _, o := range g.Outside {
			o.Sent, o.frozen = e.Time, s.frozen.read(e.Time)
		}
	}
	if e.Status.Over() && !g.Status.Over() {
		g.Ended, g.Idle = e.Time, s.idleOf(e)-g.idleBefore
	}
	if e.Status == Skipped { // also if the run ended before the first request
		g.Started = time.Time{}
	}
	g.Status, g.Message, g.Code = e.Status, e.Message, e.Code
	g.FailedObject, g.Cause, g.Evidence, g.Limit, g.Timeout, g.Skip = e.Object, e.Cause, e.Evidence, e.Limit, e.Timeout, e.Skip
	if e.Status == Running { // the object is no longer ready, but it has not failed
		g.FailedObject = nil
	}
	s.object(e).refineCause(e)
	if e.Status == Failed && !s.Operation.IsWatch() {
		s.fixTracker.failed(g, e.Time)
	}
}

// idleOf returns how long the release that a stack's group is has been paused or held, 0 for a group of a release.
func (s *State) idleOf(e Event) time.Duration {
	if release := s.Scopes[e.Group]; release != nil {
		return release.idle.read(e.Time)
	}
	return 0
}

func (s *State) applyObject(e Event) {
	g := s.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return
	}
	o := g.index[*e.Object]
	if o == nil && e.Planned != "" {
		o = g.rename(e)
	}
	if o == nil && e.Outside {
		o = g.add(&g.Outside, *e.Object)
	}
	if o == nil { // not in the plan
		o = g.add(&g.Objects, *e.Object)
	}
	if o.Done() && !e.Outside {
		g.Done--
	}
	if e.Outside && o.Status == Ready && len(g.Missing()) == 0 { // the group could start: it waits again
		o.Sent = time.Time{}
	}
	notReady := e.Status == InProgress || e.Status == Failed
	switch {
	case !e.Since.IsZero():
		o.Since = e.Since
	case o.Status == e.Status:
	case s.Operation.IsWatch() && notReady && (o.Sent.IsZero() || o.Since.IsZero() && !o.Done()): // it was not ready before
	default:
		o.Since = e.Time
	}
	switch e.Status {
	case Applying: // after a retry, the last diagnosis is obsolete
		if o.Status != Applying {
			o.Sent, o.Answered = e.Time, time.Time{}
			o.clearDiagnosis()
		}
	case Ready, Gone:
		o.clearDiagnosis()
	case Failed:
		o.explain(e)
		if o.DegradedSince.IsZero() {
			o.DegradedSince = e.Time
		}
	}
	o.Status, o.Message, o.Progress, o.ReadyBy, o.Note, o.Until = e.Status, e.Message, e.Progress, e.ReadyBy, e.Note, e.Until
	if o.applyChange(e) {
		o.frozen = s.frozen.read(e.Time)
	}
	if o.Sent.IsZero() {
		o.Sent = e.Time
		if e.Outside {
			o.frozen = s.frozen.read(e.Time)
		}
	}
	if o.Done() && !e.Outside {
		g.Done++
	}
}

func (o *ObjectState) applyDiagnosis(e Event) {
	o.Diagnosis, o.Details = e.Lines, e.Details
	o.setDegraded(e.Status == Degraded, e.Time)
	if e.Cause == "" && e.Message == "" {
		o.clearDiagnosis()
	}
	o.explain(e)
}

func (o *ObjectState) clearDiagnosis() {
	o.Cause, o.Evidence, o.Diagnosis, o.Details, o.Tally, o.OnlyState = "", nil, nil, nil, Tally{}, false
	o.setDegraded(false, time.Time{})
}

func (o *ObjectState) setDegraded(degraded bool, at time.Time) {
	o.Degraded = degraded
	switch {
	case !degraded:
		o.DegradedSince = time.Time{}
	case o.DegradedSince.IsZero():
		o.DegradedSince = at
	}
}

// explain stores the cause in an event, if any. Old records have it in the message of a
// diagnosis.
func (o *ObjectState) explain(e Event) {
	cause := e.Cause
	if cause == "" && e.Kind == KindDiagnosis && o.Cause == "" {
		cause = e.Message
	}
	if cause != "" {
		o.setCause(cause, e)
	}
}

func (o *ObjectState) setCause(cause string, e Event) {
	if o.Cause != cause || e.Kind != KindWaiting { // a heartbeat repeats the cause
		o.causeAt = e.Time
	}
	o.Cause, o.Evidence, o.Tally, o.OnlyState = cause, e.Evidence, e.Tally, e.OnlyState
}

// refineCause replaces a known cause by the newest one, if that has evidence.
func (o *ObjectState) refineCause(e Event) {
	if o != nil && !o.Done() && len(e.Evidence) > 0 && o.Cause != "" {
		o.setCause(e.Cause, e)
	}
}

// rename gives an object of the plan the name that the API server generated. It can still
// be found by its name in the plan.
func (g *GroupState) rename(e Event) *ObjectState {
	planned := *e.Object
	planned.Name = e.Planned
	o := g.index[planned]
	if o != nil {
		o.Object = *e.Object
		g.index[*e.Object] = o
	}
	return o
}

func (s *State) object(e Event) *ObjectState {
	g := s.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return nil
	}
	return g.index[*e.Object]
}

// Skip says why a group was not started, or did not run to its end. A group that is skipped or aborted has one.
type Skip struct {
	By SkipCause `json:"by"`
	// Group is the failed group, with SkippedByFailure; it is empty if the operation failed for another reason. Why is the
	// reason for the dependency on it, if that was inferred.
	Group string `json:"group,omitempty"`
	Why   string `json:"why,omitempty"`
	// Timeout is the timeout that expired, with SkippedByTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Unsent means that the group was admitted, but ended before its first request.
	Unsent bool `json:"unsent,omitempty"`
}

// SkipCause is what kept a group from starting, or interrupted it.
type SkipCause string

const (
	SkippedByFailure  SkipCause = "failure"  // a group failed, or the operation
	SkippedByAbort    SkipCause = "abort"    // a command or a signal (R43)
	SkippedByTimeout  SkipCause = "timeout"  // --timeout
	SkippedByEdit     SkipCause = "edit"     // an edited revision replaced this one (R46)
	SkippedByRollback SkipCause = "rollback" // a rollback started, although no group had failed
	SkippedAsDone     SkipCause = "done"     // the operation succeeded: there was nothing to do
)
