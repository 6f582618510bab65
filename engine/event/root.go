package event

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Root is a root failure: not caused by another one.
type Root struct {
	Group *GroupState
	// Object is nil where no object of the group is to blame.
	Object *ObjectState
	// Cause says why in one sentence, without the object's name, and Evidence are
	// the lines that it is drawn from, as Event has them.
	Cause    string
	Evidence []string
	// Waited is how long the object was waited for in vain, 0 where it failed
	// before anybody gave it up.
	Waited time.Duration
	// Limit is the flag that set that, where the object is what it was waited for.
	Limit string
}

// Roots returns the current root failures, in order: for each failed group the object that made
// it fail, then other objects in trouble. Skipped and aborted groups are consequences.
func (s *State) Roots() []Root {
	var failed []*GroupState
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if g.Status == Failed {
				failed = append(failed, g)
			}
		}
	}
	slices.SortStableFunc(failed, func(a, b *GroupState) int { return a.Ended.Compare(b.Ended) })
	var roots []Root
	for _, g := range failed {
		roots = append(roots, g.roots()...)
	}
	return roots
}

func (g *GroupState) roots() []Root {
	blamed := g.blamed()
	if blamed == nil {
		return []Root{{Group: g, Cause: g.Message}}
	}
	roots := []Root{g.root(blamed)}
	for _, o := range g.Objects {
		if o != blamed && o.InTrouble() {
			roots = append(roots, g.root(o))
		}
	}
	return roots
}

// InTrouble reports whether an object has failed, or is not ready and it is known
// why.
func (o *ObjectState) InTrouble() bool {
	return o.Status == Failed || !o.Done() && o.Cause != ""
}

// blamed returns the object that a group has failed for, nil if it is none.
func (g *GroupState) blamed() *ObjectState {
	if g.Root != nil {
		return g.index[*g.Root]
	}
	for _, o := range g.Objects { // records from before groups named it
		if strings.HasPrefix(g.Message, o.Object.String()+":") {
			return o
		}
	}
	for _, o := range g.Objects {
		if o.Status == Failed {
			return o
		}
	}
	return nil
}

func (g *GroupState) root(o *ObjectState) Root {
	r := Root{Group: g, Object: o, Cause: o.Cause, Evidence: o.Evidence}
	if g.Root != nil && *g.Root == o.Object && r.Cause == o.Message && g.Cause != "" { // it knows more
		r.Cause, r.Evidence = g.Cause, g.Evidence
	}
	if len(r.Evidence) == 0 { // records from before there was the field
		r.Evidence = o.Diagnosis[:min(len(o.Diagnosis), MostEvidence)]
	}
	why, told := strings.CutPrefix(g.Message, o.Object.String()+": ")
	switch {
	case r.Cause == "" && told:
		r.Cause = why // it says how long it was waited for
	case r.Cause == "":
		r.Cause = o.Message
	case o.Status != Failed && !o.Applied.IsZero():
		r.Waited = g.Ended.Sub(o.Applied)
		if found := limit.FindStringSubmatch(why); told && found != nil {
			r.Limit = found[1]
		}
	}
	return r
}

// limit matches the flag whose time was over, as the message of a group names it.
var limit = regexp.MustCompile(`.*after \S+ \((--readiness-timeout|--timeout)\)`)

// String returns the one sentence that tells of the failure:
// "Deployment/api: container api exited with code 3; gave up after 12s (--readiness-timeout)".
func (r Root) String() string {
	text := r.Cause
	if r.Object != nil {
		text = r.Object.Object.String() + ": " + text
	}
	if r.Waited > 0 {
		text += "; gave up after " + r.Waited.Round(roundTo(r.Waited)).String()
		if r.Limit != "" {
			text += " (" + r.Limit + ")"
		}
	}
	return text
}

func roundTo(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return 100 * time.Millisecond
	}
	return time.Second
}

// Reason returns why an operation has not succeeded and what happened to the release,
// in one sentence: of the first of its roots, where something has failed, and
// otherwise what the record says.
func (s *State) Reason() string {
	roots := s.Roots()
	if len(roots) == 0 || s.Status != Failed {
		return s.Message
	}
	text := roots[0].String()
	switch more := len(roots) - 1; {
	case more == 1:
		text += "; and 1 more failure"
	case more > 1:
		text += fmt.Sprintf("; and %d more failures", more)
	}
	if s.Outcome != "" {
		text += " (" + s.Outcome + ")"
	}
	return text
}

// SameCause reports whether two causes differ in nothing but numbers: how often
// something was tried is no news.
func SameCause(a, b string) bool {
	return counts.ReplaceAllString(a, "") == counts.ReplaceAllString(b, "")
}

var counts = regexp.MustCompile(` \(\d+ (?:restarts?|pods failed|tries)\)|\d+`)
