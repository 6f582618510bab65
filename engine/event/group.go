package event

import (
	"slices"
	"time"

	"lockstep/engine/plan"
)

// PhaseState is a phase with the state of its groups, in plan order.
type PhaseState struct {
	Name   string
	Kind   PhaseKind
	Groups []*GroupState
	// Usual is how long groups usually take, as Phase has it.
	Usual map[string]time.Duration
}

// Unit returns the unit that the group is.
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
	// Degraded says that waiting alone will not make it ready.
	Degraded bool
	// Log holds a hook's output.
	Log []string
	// overall is what all requests have come to; see State.Changes.
	overall Change
	// frozen is State.frozen at the time of Answered.
	frozen time.Duration
}

// Done reports whether nothing is left to do for the object.
func (o *ObjectState) Done() bool { return o.Status == Ready || o.Status == Gone }

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

// Find returns the state of an object of the group, or nil.
func (g *GroupState) Find(o plan.Object) *ObjectState { return g.index[o] }

func (s *State) applyGroup(e Event) {
	g := s.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	s.fixTracker.beforeChange(g, e)
	if e.Status == Running && (g.Started.IsZero() || g.Status.Over()) {
		g.Started, g.Ended = e.Time, time.Time{}
	}
	if e.Status.Over() && !g.Status.Over() {
		g.Ended = e.Time
	}
	g.Status, g.Message = e.Status, e.Message
	g.Root, g.Cause, g.Evidence = e.Object, e.Cause, e.Evidence
	s.object(e).renew(e)
	if e.Status == Failed {
		s.fixTracker.failed(g, e.Time)
	}
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
		if o.Status != Applying {
			o.Applied, o.Answered = e.Time, time.Time{}
			o.forget()
		}
	case Ready, Gone:
		o.forget()
	case Failed:
		o.explain(e)
	}
	o.Status, o.Message = e.Status, e.Message
	if o.took(e) {
		o.frozen = s.frozen.read(e.Time)
	}
	if o.Applied.IsZero() {
		o.Applied = e.Time
	}
	if o.Done() {
		g.Done++
	}
}

// forget drops what was found out about an object.
func (o *ObjectState) forget() {
	o.Cause, o.Evidence, o.Diagnosis, o.Degraded = "", nil, nil, false
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
