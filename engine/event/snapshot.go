package event

import (
	"fmt"
	"slices"

	"lockstep/engine/plan"
)

// Snapshot returns a copy of the state of an operation that has ended, for Observe; the original
// stays as the operation left it. In the copy, Message describes a later change to the
// release, "" at first, and Operation.Revision is the first observed revision.
func (s *State) Snapshot() *State {
	snapshot := *s
	snapshot.Message, snapshot.groups, snapshot.Phases = "", map[Unit]*GroupState{}, nil
	snapshot.Operation.Revision = 0
	for _, p := range s.Phases {
		phase := *p
		phase.Groups = nil
		for _, g := range p.Groups {
			copied := g.copy()
			phase.Groups = append(phase.Groups, copied)
			snapshot.groups[g.Unit()] = copied
		}
		snapshot.Phases = append(snapshot.Phases, &phase)
	}
	return &snapshot
}

func (g *GroupState) copy() *GroupState {
	out := *g
	out.index = make(map[plan.Object]*ObjectState, len(g.index))
	copies := make(map[*ObjectState]*ObjectState, len(g.Objects))
	copyAll := func(objects []*ObjectState) (out []*ObjectState) {
		for _, o := range objects {
			object := *o
			copies[o] = &object
			out = append(out, &object)
		}
		return out
	}
	out.Objects, out.Outside = copyAll(g.Objects), copyAll(g.Outside)
	for name, o := range g.index {
		out.index[name] = copies[o]
	}
	return &out
}

// Observe applies an event from a view of the release to a copy made by Snapshot: the current status
// of an object, or a new revision.
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
	case KindObject, KindDiagnosis, KindDrift:
		if g := s.appliedIn(e); g != nil {
			e.Phase = g.Phase
			s.Apply(e)
		}
	}
}

// appliedIn returns the group that last applied the object of an event, or nil.
func (s *State) appliedIn(e Event) *GroupState {
	for _, p := range slices.Backward(s.Phases) {
		g := s.Find(p.Name, e.Group)
		if p.Kind != PhaseApply || g == nil || e.Object == nil {
			continue
		}
		if o := g.Find(*e.Object); o != nil && !o.Sent.IsZero() {
			return g
		}
	}
	return nil
}

// Regressed reports whether an object got worse after the operation ended: it is not ready although
// its group was, or, in a group that was not checked, it is degraded. It is for a Snapshot: Observe updates the objects and
// leaves the statuses of the groups as they were at the end.
func (g *GroupState) Regressed(o *ObjectState) bool {
	return (g.Status == Ready || g.Status == Applied && o.Degraded) && !o.Done() && !o.NotAwaited()
}
