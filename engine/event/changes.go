package event

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Changes counts objects by what an operation did to them, and the hooks that it started.
type Changes struct{ Created, Configured, Replaced, Unchanged, Deleted, Deleting, Kept, Hooks int }

// earlierChanges are the net changes of the revisions that edits have replaced (R46), or of the pods in which the run was
// before, and the hooks that they started. Its maps are never modified.
type earlierChanges struct {
	objects map[plan.Object]Change
	hooks   map[Unit]bool
}

// Changes counts the changes of the whole run, without those of its rollback. An object with several requests counts
// once, with their net effect: an object that was created, and that a retry or an edited revision left unchanged, counts
// as created; one that was created, and that an edited revision deleted, does not count.
func (s *State) Changes() Changes { return s.countChanges(false, s.earlier) }

// RollbackChanges counts the changes of the rollback.
func (s *State) RollbackChanges() Changes { return s.countChanges(true, earlierChanges{}) }

// Changed returns what the run with its rollback did to which objects, in the order of the plan: created, changed, replaced or deleted
// them. Those of earlier operations and revisions of the run come last. What the rollback has restored is none of them.
func (s *State) Changed() map[Change][]plan.Object {
	left, order := s.netChanges()
	objects := map[Change][]plan.Object{}
	for _, o := range order {
		objects[left[o]] = append(objects[left[o]], o)
	}
	return objects
}

// netChanges returns the net changes of the run with its rollback. A deletion that has not finished is none.
func (s *State) netChanges() (net map[plan.Object]Change, order []plan.Object) {
	net = map[plan.Object]Change{}
	each := func(rollback bool, earlier earlierChanges) {
		s.eachChange(rollback, earlier, func(o plan.Object, c Change, deleting bool) {
			before, known := net[o]
			if !known {
				before = s.undoing[o]
				order = append(order, o)
			}
			switch {
			case deleting:
				net[o] = ""
			case rollback || s.undoing != nil:
				net[o] = before.undoneBy(c)
			default:
				net[o] = before.then(c)
			}
		})
	}
	each(false, s.earlier)
	each(true, earlierChanges{})
	for _, o := range slices.SortedFunc(maps.Keys(s.undoing), plan.Object.Compare) {
		if _, known := net[o]; !known {
			net[o], order = s.undoing[o], append(order, o)
		}
	}
	return net, order
}

// undoneBy returns the net changes that the next operation on a stack's release undoes, nil for none.
func (s *State) undoneBy(next *Operation) map[plan.Object]Change {
	if next == nil || next.Name != "rollback" && next.Name != "uninstall" {
		return nil
	}
	net, _ := s.netChanges()
	return net
}

// undoneBy returns what is left of a change after the request of a rollback for the object.
func (c Change) undoneBy(rollback Change) Change {
	gone := rollback == Deleted || rollback == Absent
	switch {
	case c == Created && gone, c == Configured && (rollback == Configured || rollback == Unchanged):
		return ""
	case c == Deleted && rollback == Created:
		return Replaced
	case c != "" && c != Unchanged && !gone:
		return c
	}
	return c.then(rollback)
}

func (s *State) countChanges(rollback bool, earlier earlierChanges) Changes {
	var c Changes
	s.eachChange(rollback, earlier, func(_ plan.Object, change Change, deleting bool) {
		if deleting {
			c.Deleting++
		} else {
			c.add(change)
		}
	})
	hooks := maps.Clone(earlier.hooks)
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if p.Kind == PhaseHooks && IsRollback(p.Name) == rollback && !g.Started.IsZero() {
				c.Hooks++
				delete(hooks, g.Unit())
			}
		}
	}
	c.Hooks += len(hooks)
	return c
}

// eachChange calls do with the net change of each object of the run or of its rollback, but not of hooks. deleting means
// that its deletion has not finished.
func (s *State) eachChange(rollback bool, earlier earlierChanges, do func(o plan.Object, c Change, deleting bool)) {
	objects := maps.Clone(earlier.objects) // the loop removes the objects of the current plan
	var created *ObjectState               // the new namespace, which the release may contain, too
	for _, p := range s.Phases {
		if IsRollback(p.Name) != rollback || p.Kind == PhaseHooks {
			continue
		}
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if p.Kind == PhaseNamespace {
					created = o
				} else if created != nil && created.Object == o.Object && created.netChange == Created {
					continue
				}
				before := objects[o.Object]
				delete(objects, o.Object)
				deleting := o.netChange == Deleted && o.Status == Deleting
				do(o.Object, before.then(o.netChange), deleting)
			}
		}
	}
	for _, o := range slices.SortedFunc(maps.Keys(objects), plan.Object.Compare) {
		do(o, objects[o], false)
	}
}

// with returns the changes together with those of a revision that an edit replaces.
func (e earlierChanges) with(phases []*PhaseState) earlierChanges {
	all := earlierChanges{objects: map[plan.Object]Change{}, hooks: map[Unit]bool{}}
	maps.Copy(all.objects, e.objects)
	maps.Copy(all.hooks, e.hooks)
	for _, p := range phases {
		for _, g := range p.Groups {
			switch {
			case IsRollback(p.Name):
			case p.Kind != PhaseHooks:
				for _, o := range g.Objects {
					all.objects[o.Object] = all.objects[o.Object].then(o.netChange)
				}
			case !g.Started.IsZero():
				all.hooks[g.Unit()] = true
			}
		}
	}
	return all
}

// then returns the net effect of a change and of a later one, in another revision of the run.
func (c Change) then(later Change) Change {
	deleted := later == Deleted || later == Absent
	lasting := c == Configured || c == Replaced || c == Deleted
	switch {
	case c == Created && deleted:
		return ""
	case c == Created, later == "", c == Replaced && !deleted, lasting && (later == Unchanged || later == Kept || later == Absent):
		return c
	}
	return later
}

// Edited reports whether an edit replaced a revision of the run. The groups are only those of the last one.
func (s *State) Edited() bool { return s.edited }

// HasRollback reports whether the phases of a rollback were announced.
func (s *State) HasRollback() bool {
	return slices.ContainsFunc(s.Phases, func(p *PhaseState) bool { return IsRollback(p.Name) })
}

// RollbackFailed reports whether the rollback did not succeed: the release is marked failed, or one of the rollback's groups
// failed, was aborted or was skipped.
func (s *State) RollbackFailed() bool {
	if s.HasRollback() && s.Release == "failed" {
		return true
	}
	for g := range s.GroupStates() {
		if IsRollback(g.Phase) && (g.Status == Failed || g.Status == Aborted || g.Status == Skipped) {
			return true
		}
	}
	return false
}

// RollbackStopped reports whether a command stopped the rollback before it ended.
func (s *State) RollbackStopped() bool { return s.rollbackStopped && s.RollbackFailed() }

func (c *Changes) add(change Change) {
	switch change {
	case Created:
		c.Created++
	case Configured:
		c.Configured++
	case Replaced:
		c.Replaced++
	case Unchanged:
		c.Unchanged++
	case Deleted:
		c.Deleted++
	case Kept:
		c.Kept++
	}
}

// String lists the counts that are not 0: "3 created, 1 changed, 2 hooks".
func (c Changes) String() string { return c.list("", "") }

// Sentence is String with nouns and verbs: "3 objects created, 1 changed, 2 hooks started".
func (c Changes) Sentence() string { return c.list("object", " started") }

// Releases is String for a stack, whose objects are releases: "3 installed, 1 upgraded".
func (c Changes) Releases() string {
	words := strings.NewReplacer("created", "installed",
		"unchanged", "unchanged", // or else the next pair would match in it
		"changed", "upgraded", "deleted", "uninstalled")
	return words.Replace(c.String())
}

// list adds the noun, if not empty, to the first count of objects, and the suffix to the count of hooks.
func (c Changes) list(noun, hooksSuffix string) string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Created, "created"}, {c.Configured, "changed"}, {c.Replaced, "replaced"}, {c.Unchanged, "unchanged"}, {c.Deleted, "deleted"}, {c.Deleting, "still being deleted"}, {c.Kept, "kept"}} {
		switch {
		case p.n == 0:
		case noun != "" && parts == nil:
			parts = append(parts, text.Count(p.n, noun)+" "+p.word)
		default:
			parts = append(parts, fmt.Sprint(p.n, " ", p.word))
		}
	}
	if c.Hooks > 0 {
		parts = append(parts, text.Count(c.Hooks, "hook")+hooksSuffix)
	}
	return strings.Join(parts, ", ")
}

// NetChange returns the net effect of the requests of the current revision, or "" if there were none. A created object
// stays Created even if a retry changes it.
func (o *ObjectState) NetChange() Change { return o.netChange }

// applyChange stores the change of a request, and reports whether the event is the first answer to it.
func (o *ObjectState) applyChange(e Event) (first bool) {
	if e.Change == "" {
		return false
	}
	o.Change = e.Change
	if o.netChange == "" || o.netChange == Unchanged {
		o.netChange = e.Change
	}
	if first = o.Answered.IsZero(); first {
		o.Answered = e.Time
	}
	return first
}

// Drift is a field that somebody has changed or removed since its object was applied.
type Drift struct {
	Field string `json:"field"` // spec.template.spec.containers[web].image
	// Gone is set if the cluster lacks the field.
	Gone bool `json:"gone,omitempty"`
	// Manager is the field manager that has changed it, and At when that last wrote. They are empty if the managed fields do not
	// tell.
	Manager string    `json:"manager,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// Drifted yields the objects that others have changed, in the order of the plan. In a stack, the key is the release's ID.
func (s *State) Drifted() iter.Seq2[string, *ObjectState] {
	return func(yield func(string, *ObjectState) bool) {
		for g := range s.GroupStates() {
			if release := s.Scopes[g.ID]; release != nil {
				for _, o := range release.Drifted() {
					if !yield(g.ID, o) {
						return
					}
				}
			}
			for _, o := range g.Objects {
				if len(o.Drift) > 0 && !yield("", o) {
					return
				}
			}
		}
	}
}

// HasDrift reports whether others have changed an object.
func (s *State) HasDrift() bool {
	for range s.Drifted() {
		return true
	}
	return false
}
