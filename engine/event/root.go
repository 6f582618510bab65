package event

import (
	"cmp"
	"slices"
	"time"
)

// Root is a failure that no other failure caused.
type Root struct {
	Group *GroupState // nil in a FirstRoot of no group
	// Object is nil if the failure is not about an object.
	Object *ObjectState
	// Cause and Evidence are the reason, see Event.
	Cause    string
	Evidence []string
	// Timeout is the timeout that the object exceeded, or nil. If the group failed because of another object, Waited is how
	// long the run had waited for this one, else 0.
	Timeout *Timeout
	Waited  time.Duration
}

// Roots returns the current root failures in order, the vaguest last: for each failed group the object that
// made it fail, then other objects in trouble. Skipped and aborted groups are consequences.
func (s *State) Roots() []Root {
	var failed []*GroupState
	for g := range s.GroupStates() {
		if g.Status == Failed {
			failed = append(failed, g)
		}
	}
	slices.SortStableFunc(failed, func(a, b *GroupState) int {
		return cmp.Or(a.Vagueness()-b.Vagueness(), a.Ended.Compare(b.Ended))
	})
	var roots []Root
	for _, g := range failed {
		roots = append(roots, g.roots()...)
	}
	return roots
}

// Blamed returns the first of Roots, or while no group has failed, the object in trouble that was diagnosed last. Without one it is the
// zero Root.
func (s *State) Blamed() (last Root) {
	if roots := s.Roots(); len(roots) > 0 {
		return roots[0]
	}
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			if o.InTrouble() && (last.Object == nil || o.causeAt.After(last.Object.causeAt)) {
				last = g.root(o)
			}
		}
	}
	return last
}

// FirstRoot returns the first of Roots. Without one, it is the failure of the operation itself, without a group, or the zero Root if
// that has not failed.
func (s *State) FirstRoot() Root {
	if roots := s.Roots(); len(roots) > 0 {
		return roots[0]
	}
	if s.Status == Succeeded {
		return Root{}
	}
	r := Root{Cause: s.Cause, Evidence: s.Evidence}
	if s.FailedObject != nil {
		r.Object = &ObjectState{Object: *s.FailedObject}
	}
	return r
}

// Vagueness is that of the timeout at which the group failed.
func (g *GroupState) Vagueness() int {
	o := g.findFailedObject()
	if o == nil {
		return 0
	}
	applied := o.Status != Waiting && o.Status != Applying
	return g.Timeout.Vagueness(applied, o.Cause != "" && !o.OnlyState || !applied && o.Message != "")
}

func (g *GroupState) roots() []Root {
	failed := g.findFailedObject()
	if failed == nil {
		return []Root{{Group: g, Cause: g.Message}}
	}
	roots := []Root{g.root(failed)}
	for _, o := range slices.Concat(g.Objects, g.Outside) {
		if o != failed && o.InTrouble() && !o.NotAwaited() {
			roots = append(roots, g.root(o))
		}
	}
	return roots
}

// InTrouble reports whether an object has failed, or is not ready and the cause is known.
func (o *ObjectState) InTrouble() bool {
	return o.Status == Failed || !o.Done() && o.Cause != ""
}

// findFailedObject returns the object that made a group fail, or nil.
func (g *GroupState) findFailedObject() *ObjectState {
	if g.FailedObject != nil {
		return g.index[*g.FailedObject]
	}
	i := slices.IndexFunc(g.Objects, func(o *ObjectState) bool { return o.Status == Failed }) // an old record
	if i < 0 {
		return nil
	}
	return g.Objects[i]
}

func (g *GroupState) root(o *ObjectState) Root {
	r := Root{Group: g, Object: o, Cause: o.Cause, Evidence: o.Evidence}
	blamed := g.FailedObject != nil && g.index[*g.FailedObject] == o
	if blamed && (r.Cause == "" || r.Cause == o.Message || o.OnlyState) && g.Cause != "" { // the group's cause is more specific
		r.Cause, r.Evidence = g.Cause, g.Evidence
	}
	if len(r.Evidence) == 0 { // an old record
		r.Evidence = o.Diagnosis[:min(len(o.Diagnosis), MaxEvidence)]
	}
	r.Cause = cmp.Or(r.Cause, o.Message)
	switch {
	case blamed && g.Timeout != nil: // even if the object is Failed, such as a hook that was deleted afterwards by its policy
		r.Timeout = g.Timeout
	case o.Status != Failed && !o.Sent.IsZero():
		r.Waited = g.Ended.Sub(o.Sent)
	}
	return r
}
