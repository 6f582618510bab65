package event

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/text"
)

// Changes counts objects by what an operation did to them, and the hooks that it started.
type Changes struct{ Created, Configured, Unchanged, Deleted, Deleting, Kept, Hooks int }

// Changes counts the changes of the current revision, without those of its rollback. An object
// with several requests counts once, with their net effect: an object that was created, and that a
// retry left unchanged, counts as created.
func (s *State) Changes() Changes { return s.countChanges(false) }

// RollbackChanges counts the changes of the rollback of the current revision.
func (s *State) RollbackChanges() Changes { return s.countChanges(true) }

func (s *State) countChanges(rollback bool) Changes {
	var c Changes
	for _, p := range s.Phases {
		if IsRollback(p.Name) != rollback {
			continue
		}
		for _, g := range p.Groups {
			if p.Kind == PhaseHooks {
				if !g.Started.IsZero() {
					c.Hooks++
				}
				continue
			}
			for _, o := range g.Objects {
				if o.netChange == Deleted && o.Status == Deleting {
					c.Deleting++
					continue
				}
				c.add(o.netChange)
			}
		}
	}
	return c
}

// HasRollback reports whether the operation started to roll back.
func (s *State) HasRollback() bool {
	return slices.ContainsFunc(s.Phases, func(p *PhaseState) bool { return IsRollback(p.Name) })
}

// RollbackFailed reports whether the rollback did not succeed: the release was left failed, or a group of the rollback.
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

func (c *Changes) add(change Change) {
	switch change {
	case Created:
		c.Created++
	case Configured:
		c.Configured++
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
	}{{c.Created, "created"}, {c.Configured, "changed"}, {c.Unchanged, "unchanged"}, {c.Deleted, "deleted"}, {c.Deleting, "still being deleted"}, {c.Kept, "kept"}} {
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

// NetChange returns what the run did to the object so far, "" for nothing: Created, even if a later attempt changed it.
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
