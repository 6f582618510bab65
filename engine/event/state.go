package event

import (
	"slices"
	"time"

	"lockstep/engine/plan"
)

// State is the picture of an operation that a sequence of events draws. Apply
// is the only way to change it, and every consumer uses it: the screen, the
// reports, the exit code, the summary. Its zero value is ready to use.
type State struct {
	Operation Operation
	// Status is that of the operation: Running, RollingBack, Succeeded,
	// Failed or Aborted; empty before the first event.
	Status  Status
	Message string
	// Root is the object that made the operation fail, Cause and Evidence are why,
	// once it has ended.
	Root     *plan.Object
	Cause    string
	Evidence []string
	Exit     int
	// Outcome is what has become of the release, in words.
	Outcome string
	// Release is what the record of the release says in the end, as Event has
	// it.
	Release string
	// Run is that of the run: Running, Paused, Held, Replacing or Aborting.
	Run        Status
	RunMessage string

	Started, Ended time.Time
	// Now is the time of the last event.
	Now time.Time
	// Seq is the number of the last event.
	Seq uint64

	Phases      []*PhaseState
	Breakpoints map[Unit]bool // those that there are, and whether they stop (R42)
	Warnings    []Event
	// Waiting is the last heartbeat, Answer the last answer to a command.
	Waiting, Answer Event
	// Away is since when the API server has not answered, zero while it does,
	// and AwayMessage what was told of that (R53).
	Away        time.Time
	AwayMessage string
	Notes       []string

	idle      time.Duration // spent paused or held, before idleSince
	idleSince time.Time     // zero while running
	groups    map[Unit]*GroupState
}

// PhaseState is a phase with the state of its groups, in plan order.
type PhaseState struct {
	Name   string
	Kind   PhaseKind
	Groups []*GroupState
	// Usual is how long groups usually take, as Phase has it.
	Usual map[string]time.Duration
}

// Unit is the unit that the group is.
func (g *GroupState) Unit() Unit { return Unit{g.Phase, g.ID} }

// GroupState is a group and how far it is.
type GroupState struct {
	*plan.Group
	Phase   string
	Status  Status
	Message string
	// Root is the object that made the group fail, Cause and Evidence are why.
	Root           *plan.Object
	Cause          string
	Evidence       []string
	Started, Ended time.Time
	Objects        []*ObjectState
	// Done counts the objects that are ready, or gone in a removal.
	Done  int
	index map[plan.Object]*ObjectState
}

// ObjectState is an object and how far it is.
type ObjectState struct {
	Object  plan.Object
	Status  Status
	Message string
	Change  Change
	// Applied is when its first request was sent, Answered when the API server has
	// answered that, Since when Status began.
	Applied, Answered, Since time.Time
	// Cause and Evidence say why it is not ready, as Event has them, once that is
	// known; Diagnosis is all that was found when it was looked up last.
	Cause     string
	Evidence  []string
	Diagnosis []string
	// Log holds a hook's output.
	Log []string
	// overall is what all requests have come to; see State.Changes.
	overall Change
}

// Done reports whether nothing is left to do for the object.
func (o *ObjectState) Done() bool { return o.Status == Ready || o.Status == Gone }

// Apply draws one event into the picture.
func (s *State) Apply(e Event) {
	if e.Kind == KindManifest {
		return // it tells nothing that happens
	}
	if s.Started.IsZero() {
		s.Started = e.Time
	}
	s.Now, s.Seq = e.Time, e.Seq
	switch e.Kind {
	case KindOperation:
		s.applyOperation(e)
	case KindPlan:
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
			o.Diagnosis = e.Lines
			o.explain(e)
		}
	case KindLog:
		if o := s.object(e); o != nil {
			o.Log = append(o.Log, e.Lines...)
		}
	case KindBreakpoint:
		s.applyBreakpoint(e)
	case KindWarning:
		s.Warnings = append(s.Warnings, e)
	case KindWaiting:
		s.Waiting = e
		s.object(e).renew(e)
	case KindServer:
		s.Away, s.AwayMessage = e.Since, ""
		if e.Status == Away {
			s.AwayMessage = e.Message
		}
	case KindCommand:
		s.Answer = e
	case KindNotes:
		s.Notes = e.Lines
	}
}

func (s *State) applyOperation(e Event) {
	if s.Status != "" && e.Status == Running && !s.Operation.Watches() { // an edited revision begins (R46)
		s.Phases, s.groups, s.Breakpoints, s.Waiting = nil, nil, nil, Event{}
	}
	s.Status, s.Message = e.Status, e.Message
	s.Root, s.Cause, s.Evidence = e.Object, e.Cause, e.Evidence
	if e.Operation != nil && e.Status != RollingBack {
		s.Operation = *e.Operation
	}
	switch e.Status {
	case Running, RollingBack:
		s.setRun(e.Time, Running, "")
	default:
		s.setRun(e.Time, Running, "")
		s.Ended, s.Away, s.AwayMessage = e.Time, time.Time{}, ""
	}
	if e.Exit != nil {
		s.Exit, s.Outcome, s.Release = *e.Exit, e.Outcome, e.Release
	}
}

// applyRun also forgets a refusal: it was about the state that has ended.
func (s *State) applyRun(e Event) {
	s.setRun(e.Time, e.Status, e.Message)
	if s.Answer.Status == Refused {
		s.Answer = Event{}
	}
}

func (s *State) setRun(at time.Time, run Status, message string) {
	if !s.idleSince.IsZero() {
		s.idle += at.Sub(s.idleSince)
		s.idleSince = time.Time{}
	}
	if run == Paused || run == Held {
		s.idleSince = at
	}
	s.Run, s.RunMessage = run, message
}

func (s *State) applyBreakpoint(e Event) {
	if s.Breakpoints == nil {
		s.Breakpoints = map[Unit]bool{}
	}
	if e.Status == Cleared {
		delete(s.Breakpoints, e.Unit())
	} else {
		s.Breakpoints[e.Unit()] = e.Status == Set
	}
}

// Breaks reports whether there is a breakpoint on a unit, be it disabled.
func (s *State) Breaks(u Unit) bool {
	_, ok := s.Breakpoints[u]
	_, old := s.Breakpoints[Unit{Group: u.Group}]
	return ok || old
}

// Stops reports whether a breakpoint stops before a unit. Records from before
// breakpoints had phases name the group alone.
func (s *State) Stops(u Unit) bool { return s.Breakpoints[u] || s.Breakpoints[Unit{Group: u.Group}] }

// Active is how long the operation has run at the given time, without the
// time it was paused or held (R25).
func (s *State) Active(now time.Time) time.Duration {
	if s.Started.IsZero() {
		return 0
	}
	if !s.Ended.IsZero() {
		now = s.Ended
	}
	d := now.Sub(s.Started) - s.idle
	if !s.idleSince.IsZero() {
		d -= now.Sub(s.idleSince)
	}
	return max(d, 0)
}

// addPhase adds a phase, or replaces the one of its name where that has not
// begun; of one that has, only groups that are new are added.
func (s *State) addPhase(p Phase) {
	i := slices.IndexFunc(s.Phases, func(q *PhaseState) bool { return q.Name == p.Name })
	if i < 0 {
		s.Phases = append(s.Phases, &PhaseState{Name: p.Name, Kind: p.Kind})
		i = len(s.Phases) - 1
	}
	old := s.Phases[i]
	if s.groups == nil {
		s.groups = map[Unit]*GroupState{}
	}
	var groups []*GroupState
	for _, g := range p.Groups {
		gs := s.groups[Unit{p.Name, g.ID}]
		if gs == nil || gs.Status == Waiting {
			gs = newGroupState(p.Name, g)
		}
		groups = append(groups, gs)
		s.groups[Unit{p.Name, g.ID}] = gs
	}
	old.Groups = groups
	if p.Usual != nil {
		old.Usual = p.Usual
	}
}

func newGroupState(phase string, g *plan.Group) *GroupState {
	gs := &GroupState{Group: g, Phase: phase, Status: Waiting, index: make(map[plan.Object]*ObjectState, len(g.Objects))}
	for _, o := range g.Objects {
		gs.add(o)
	}
	return gs
}

func (g *GroupState) add(o plan.Object) *ObjectState {
	os := &ObjectState{Object: o, Status: Waiting}
	g.Objects = append(g.Objects, os)
	g.index[o] = os
	return os
}

// Reached counts the objects that are as far as the group's status says: all of
// a group that is applied and not waited for (R21), else those that are done.
func (g *GroupState) Reached() int {
	if g.Status == Applied {
		return len(g.Objects)
	}
	return g.Done
}

// Groups are those of all phases, in the order of the plan.
func (s *State) Groups() (all []*plan.Group) {
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			all = append(all, g.Group)
		}
	}
	return all
}

// Find returns the group of a phase, or nil.
func (s *State) Find(phase, id string) *GroupState { return s.groups[Unit{phase, id}] }

// Find returns the state of an object of the group, or nil.
func (g *GroupState) Find(o plan.Object) *ObjectState { return g.index[o] }

func (s *State) applyGroup(e Event) {
	g := s.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	if e.Status == Running && (g.Started.IsZero() || g.Status.Over()) {
		g.Started, g.Ended = e.Time, time.Time{}
	}
	if e.Status.Over() && !g.Status.Over() {
		g.Ended = e.Time
	}
	g.Status, g.Message = e.Status, e.Message
	g.Root, g.Cause, g.Evidence = e.Object, e.Cause, e.Evidence
	s.object(e).renew(e)
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
	if o == nil { // an object that the plan did not foresee
		o = g.add(*e.Object)
	}
	if o.Done() {
		g.Done--
	}
	if o.Status != e.Status {
		o.Since = e.Time
	}
	switch e.Status {
	case Applying: // again, after a retry: what was found out is about the last attempt
		o.Applied, o.Answered, o.Cause, o.Evidence, o.Diagnosis = e.Time, time.Time{}, "", nil, nil
	case Ready, Gone:
		o.Cause, o.Evidence, o.Diagnosis = "", nil, nil
	case Failed:
		o.explain(e)
	}
	o.Status, o.Message = e.Status, e.Message
	o.took(e)
	if o.Applied.IsZero() {
		o.Applied = e.Time
	}
	if o.Done() {
		g.Done++
	}
}

// explain takes over a cause, where the event has one. Records from before there
// was the field have it as the message of a diagnosis.
func (o *ObjectState) explain(e Event) {
	cause := e.Cause
	if cause == "" && e.Kind == KindDiagnosis && o.Cause == "" {
		cause = e.Message
	}
	if cause != "" {
		o.Cause, o.Evidence = cause, e.Evidence
	}
}

// renew takes over what an event that is not about the object alone knows of its
// cause by now: how often it was tried, more evidence. What a group fails of is what
// is known best, whatever was known before.
func (o *ObjectState) renew(e Event) {
	if o != nil && !o.Done() && len(e.Evidence) > 0 && (SameCause(o.Cause, e.Cause) || e.Kind == KindGroup && o.Cause != "") {
		o.Cause, o.Evidence = e.Cause, e.Evidence
	}
}

// rename gives an object of the plan the name that the API server has made for
// it. Under the one it had in the plan it is found as ever.
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

// Next is the unit that a step without a name lets go: the first in plan order,
// of the phase that the operation has come to, whose gates are open (R41). It is
// nil where none is open yet, and while a failure or an abort lets nothing start.
func (s *State) Next() *GroupState {
	p := s.present()
	if p == nil || !s.Ended.IsZero() || s.Run == Held || s.Run == Replacing || s.Run == Aborting {
		return nil
	}
	var next *GroupState
	for _, g := range p.Groups {
		switch {
		case g.Status == Failed:
			return nil
		case next == nil && (g.Status == Waiting || g.Status == Held) && s.open(p, g):
			next = g
		}
	}
	return next
}

// present is the phase that the operation has come to: the last that has begun,
// or the one after it where that is over.
func (s *State) present() *PhaseState {
	begun := 0
	for n, p := range s.Phases {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return g.Status != Waiting }) {
			begun = n
		}
	}
	for _, p := range s.Phases[min(begun, len(s.Phases)):] {
		if slices.ContainsFunc(p.Groups, func(g *GroupState) bool { return !g.Status.Over() }) {
			return p
		}
	}
	return nil
}

// open reports whether all that a group waits for is there.
func (s *State) open(p *PhaseState, g *GroupState) bool {
	return !slices.ContainsFunc(g.After, func(id string) bool {
		gate := s.Find(p.Name, id)
		return gate != nil && gate.Status != Ready && gate.Status != Applied && gate.Status != Gone
	})
}

// Counts says how many objects of all phases there are and in what state.
type Counts struct{ Total, Done, Active, Failed, Waiting int }

// Count adds up the objects of all phases.
func (s *State) Count() Counts {
	var c Counts
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			c.Total += len(g.Objects)
			for _, o := range g.Objects {
				switch o.Status {
				case Ready, Gone:
					c.Done++
				case Waiting:
					c.Waiting++
				case Failed:
					c.Failed++
				default:
					c.Active++
				}
			}
		}
	}
	return c
}
