package event

import (
	"fmt"
	"slices"

	"lockstep/engine/plan"
)

// After returns a copy of a state that has ended, for Observe. The state itself stays as it
// ended (R34b). In the copy Message is what became of the release since, "" at first, and
// Operation.Revision the revision that was observed first.
func (s *State) After() *State {
	now := *s
	now.Message, now.groups, now.Phases = "", map[Unit]*GroupState{}, nil
	now.Operation.Revision = 0
	for _, p := range s.Phases {
		phase := *p
		phase.Groups = nil
		for _, g := range p.Groups {
			copied := g.copy()
			phase.Groups = append(phase.Groups, copied)
			now.groups[g.Unit()] = copied
		}
		now.Phases = append(now.Phases, &phase)
	}
	return &now
}

func (g *GroupState) copy() *GroupState {
	now := *g
	now.Objects, now.index = nil, make(map[plan.Object]*ObjectState, len(g.index))
	copies := make(map[*ObjectState]*ObjectState, len(g.Objects))
	for _, o := range g.Objects {
		object := *o
		copies[o] = &object
		now.Objects = append(now.Objects, &object)
	}
	for name, o := range g.index {
		now.index[name] = copies[o]
	}
	return &now
}

// Observe applies an event of a view of the release to a copy made by After: how its
// objects are now, and whether there is another revision.
func (s *State) Observe(e Event) {
	switch e.Kind {
	case KindOperation:
		switch {
		case e.Status == Succeeded:
			s.Message = e.Message
		case e.Operation == nil:
		case s.Operation.Revision == 0:
			s.Operation.Revision = e.Operation.Revision
		case e.Operation.Revision != s.Operation.Revision:
			s.Message = fmt.Sprintf("revision %d, %s", e.Operation.Revision, e.Message)
		}
	case KindObject, KindDiagnosis:
		if g := s.appliedIn(e); g != nil {
			e.Phase = g.Phase
			s.Apply(e)
		}
	}
}

// appliedIn returns the group in which the object of an event was applied last, or nil.
func (s *State) appliedIn(e Event) *GroupState {
	for _, p := range slices.Backward(s.Phases) {
		g := s.Find(p.Name, e.Group)
		if p.Kind != PhaseApply || g == nil || e.Object == nil {
			continue
		}
		if o := g.Find(*e.Object); o != nil && !o.Applied.IsZero() {
			return g
		}
	}
	return nil
}

// Worse returns an object that was ready when the operation ended, and is not any more. Only
// a copy made by After has any.
func (g *GroupState) Worse(o *ObjectState) bool {
	return (g.Status == Ready || g.Status == Applied && o.Degraded) && !o.Done()
}
