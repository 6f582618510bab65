package event

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// FixedFailure is a failure whose group became ready after all because it was re-checked, retried or edited, or whose group
// an edit removed. A watch has none: its groups fail and recover without a command.
type FixedFailure struct {
	Root // as last known before the group was started again
	Unit // the group
	// Failed and Ready are when the group failed, and when it became ready. If an edit removed the
	// group, Ready is the end of the operation.
	Failed, Ready time.Time
	// How is Accept, Retry or Edit. By is Event.By of that command.
	How CommandName
	By  string
	// Reason is why that command was given, in the words of who gave it, or "".
	Reason string
	// Again is set if the group failed again after How, so that another command fixed it.
	Again bool

	restarted bool            // whether the group is no longer failed
	earlier   []*FixedFailure // the group's failures before this one, all with Again
}

// Skipped reports whether the group is a hook of a helmfile, which an Accept skips (S11a).
func (f FixedFailure) Skipped() bool {
	return f.How == Accept && f.Root.Group != nil && f.Root.Group.Step != nil
}

// fixTracker follows failures until they are fixed.
type fixTracker struct {
	open  map[Unit]*FixedFailure
	fixed []FixedFailure // in the order of Ready, those of a group in the order of Failed
}

// Fixed returns the failures that were fixed, in the order of Ready, those of a group in the order of Failed. Those of a stack's
// releases have the release in front of the group (S6). The caller must not change the list.
func (s *State) Fixed() []FixedFailure {
	all := slices.Clip(s.fixed) // in order
	for id, release := range s.Scopes {
		for _, f := range release.fixed {
			f.Unit.Group = id + "/" + f.Unit.Group
			all = append(all, f)
		}
	}
	if len(all) > len(s.fixed) {
		slices.SortStableFunc(all, func(a, b FixedFailure) int {
			return cmp.Or(a.Ready.Compare(b.Ready), cmp.Compare(a.Unit.Group, b.Unit.Group))
		})
	}
	return all
}

func (t *fixTracker) failed(g *GroupState, at time.Time) {
	if t.open == nil {
		t.open = map[Unit]*FixedFailure{}
	}
	f := &FixedFailure{Root: g.roots()[0], Unit: g.Unit(), Failed: at}
	if before := t.open[g.Unit()]; before != nil && (before.restarted || before.How != "") {
		before.Again = true
		f.earlier = append(before.earlier, before)
	}
	t.open[g.Unit()] = f
}

// beforeChange is called before a group gets the status of an event.
func (t *fixTracker) beforeChange(g *GroupState, e Event) {
	f := t.open[g.Unit()]
	if f == nil || e.Status == Failed {
		return
	}
	if g.Status == Failed {
		f.Root, f.restarted = g.roots()[0], true // later diagnoses may have refined the cause
	}
	if e.Status == Ready || e.Status == Applied || e.Status == Gone {
		t.close(f, e.Time)
	}
}

func (t *fixTracker) close(f *FixedFailure, at time.Time) {
	for _, f := range append(f.earlier, f) {
		f.Ready, f.earlier = at, nil
		t.fixed = append(t.fixed, *f)
	}
	delete(t.open, f.Unit)
}

// command records how failures are fixed, and by whom. The answer to a command comes after the
// events of its groups, which may already be ready.
func (t *fixTracker) command(e Event) {
	if e.Status != Accepted || e.Command != Accept && e.Command != Retry && e.Command != Edit {
		return
	}
	record := func(f *FixedFailure) {
		if f.How == "" && (e.Group == "" || f.Unit.Group == e.Group) && (f.restarted || e.Command == Edit) {
			f.How, f.By, f.Reason = e.Command, e.By, e.Reason
		}
	}
	for _, f := range t.open {
		record(f)
		for _, earlier := range f.earlier { // it may have failed again before the answer
			record(earlier)
		}
	}
	for i := range t.fixed {
		record(&t.fixed[i])
	}
}

// fixedBy records how failures are fixed by a command, in a stack also those of its releases.
func (s *State) fixedBy(e Event) {
	s.fixTracker.command(e)
	for id, release := range s.Scopes {
		e := e
		if e.Group == id {
			e.Group = ""
		}
		e.Group = strings.TrimPrefix(e.Group, id+"/")
		release.fixTracker.command(e)
	}
}

// replace is called when an edited revision replaces the one with these groups.
func (t *fixTracker) replace(groups map[Unit]*GroupState) {
	for u, f := range t.open {
		if g := groups[u]; g != nil && g.Status == Failed {
			f.Root = g.roots()[0]
		}
		f.How = cmp.Or(f.How, Edit)
	}
}

// succeed closes the failures that an edit fixed by removing their groups.
func (t *fixTracker) succeed(at time.Time) {
	open := slices.SortedFunc(maps.Values(t.open), func(a, b *FixedFailure) int {
		return cmp.Or(a.Failed.Compare(b.Failed), cmp.Compare(a.Unit.Group, b.Unit.Group))
	})
	for _, f := range open {
		if f.How == Edit {
			t.close(f, at)
		}
	}
}
