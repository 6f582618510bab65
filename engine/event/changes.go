package event

import (
	"fmt"
	"strings"
)

// Changes counts what the requests of an operation have done to objects, and the
// hooks that it has run.
type Changes struct{ Created, Configured, Unchanged, Deleted, Kept, Hooks int }

// Changes counts those of the revision under way or, with back, of its rollback. An
// object that was sent several times counts for what all of that has come to: what
// was created and is as it was at a retry has been created.
func (s *State) Changes(back bool) Changes {
	var c Changes
	for _, p := range s.Phases {
		if strings.HasPrefix(p.Name, RollbackPrefix) != back {
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
				c.add(o.overall)
			}
		}
	}
	return c
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

// String says what is not 0: "3 created, 1 changed, 2 hooks".
func (c Changes) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Created, "created"}, {c.Configured, "changed"}, {c.Unchanged, "unchanged"}, {c.Deleted, "deleted"}, {c.Kept, "kept"}, {c.Hooks, "hooks"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	text := strings.Join(parts, ", ")
	if c.Hooks == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	return text
}

// took takes over what a request has done, and reports whether it is the first answer.
func (o *ObjectState) took(e Event) (first bool) {
	if e.Change == "" {
		return false
	}
	o.Change = e.Change
	if o.overall == "" || o.overall == Unchanged {
		o.overall = e.Change
	}
	if first = o.Answered.IsZero(); first {
		o.Answered = e.Time
	}
	return first
}
