package event

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/engine/text"
)

// FixedFailure is a failure whose group became ready after all, because the group was
// re-checked or retried, or the run was edited (R44a).
type FixedFailure struct {
	Root // when the group failed
	Unit // of the group
	// Failed and Ready are when the group failed, and when it became ready.
	Failed, Ready time.Time
	// How is Accept, Retry or Edit. By is Event.By of that command.
	How CommandName
	By  string

	restarted bool // the group is not failed any more
}

// String names the group, the failure, its cause and how it was fixed.
func (m FixedFailure) String() string {
	text := fmt.Sprintf("%s: %s; fixed by %s", m.Unit.Group, m.Root, m.How)
	if m.By != "" {
		text += " from " + m.By
	}
	return text
}

// fixTracker follows failures until they are fixed.
type fixTracker struct {
	open  map[Unit]*FixedFailure
	Fixed []FixedFailure // in the order of Ready
}

func (m *fixTracker) failed(g *GroupState, at time.Time) {
	if m.open == nil {
		m.open = map[Unit]*FixedFailure{}
	}
	m.open[g.Unit()] = &FixedFailure{Root: g.roots()[0], Unit: g.Unit(), Failed: at}
}

// beforeChange is called before a group gets the status of an event.
func (m *fixTracker) beforeChange(g *GroupState, e Event) {
	f := m.open[g.Unit()]
	if f == nil || e.Status == Failed {
		return
	}
	if g.Status == Failed {
		f.Root, f.restarted = g.roots()[0], true // later diagnoses may have refined it
	}
	if e.Status == Ready || e.Status == Applied || e.Status == Gone {
		m.close(f, e.Time)
	}
}

func (m *fixTracker) close(f *FixedFailure, at time.Time) {
	f.Ready = at
	m.Fixed = append(m.Fixed, *f)
	delete(m.open, f.Unit)
}

// command records how failures are fixed, and by whom. The groups are already running, or even ready.
func (m *fixTracker) command(e Event) {
	if e.Status != Accepted || e.Command != Accept && e.Command != Retry && e.Command != Edit {
		return
	}
	note := func(f *FixedFailure) {
		if f.How == "" && (e.Group == "" || f.Unit.Group == e.Group) && (f.restarted || e.Command == Edit) {
			f.How, f.By = e.Command, e.By
		}
	}
	for _, f := range m.open {
		note(f)
	}
	for i := range m.Fixed {
		note(&m.Fixed[i])
	}
}

// replace records that an edited revision replaces the one with these groups.
func (m *fixTracker) replace(groups map[Unit]*GroupState) {
	for u, f := range m.open {
		if g := groups[u]; g != nil && g.Status == Failed {
			f.Root = g.roots()[0]
		}
		f.How = cmp.Or(f.How, Edit)
	}
}

// succeed marks failures as fixed whose groups an edited revision no longer has.
func (m *fixTracker) succeed(at time.Time) {
	open := slices.SortedFunc(maps.Values(m.open), func(a, b *FixedFailure) int {
		return cmp.Or(a.Failed.Compare(b.Failed), cmp.Compare(a.Unit.Group, b.Unit.Group))
	})
	for _, f := range open {
		if f.How == Edit {
			m.close(f, at)
		}
	}
}

// FixedNote returns the text after the outcome, ", after 1 fixed failure", or "".
func (m *fixTracker) FixedNote() string {
	if len(m.Fixed) == 0 {
		return ""
	}
	return ", after " + text.Count(len(m.Fixed), "fixed failure")
}
