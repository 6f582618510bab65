package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// FixedFailure is a failure that was mended: its group became ready after all, because the
// failure was accepted or retried, or the run was edited (R44a).
type FixedFailure struct {
	Root // as it was then
	Unit // the group
	// Failed and Ready are when the group failed and when it was ready after all.
	Failed, Ready time.Time
	// How is Accept, Retry or Edit. By is Event.By of that command.
	How CommandName
	By  string

	left bool // the group is not failed any more
}

// String says what failed, why, and how it was mended.
func (m FixedFailure) String() string {
	text := fmt.Sprintf("%s: %s; fixed by %s", m.Unit.Group, m.Root, m.How)
	if m.By != "" {
		text += " from " + m.By
	}
	return text
}

// fixTracker follows failures until they are mended.
type fixTracker struct {
	open  map[Unit]*FixedFailure
	Fixed []FixedFailure // in the order in which they were
}

// failed notes the failure of a group.
func (m *fixTracker) failed(g *GroupState, at time.Time) {
	if m.open == nil {
		m.open = map[Unit]*FixedFailure{}
	}
	m.open[g.Unit()] = &FixedFailure{Root: g.roots()[0], Unit: g.Unit(), Failed: at}
}

// beforeChange notes that a group is about to have another status.
func (m *fixTracker) beforeChange(g *GroupState, e Event) {
	f := m.open[g.Unit()]
	if f == nil || e.Status == Failed {
		return
	}
	if g.Status == Failed {
		f.Root, f.left = g.roots()[0], true // more may be known by now
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

// command notes who had failures mended, and how. The groups are running by then, or
// even ready.
func (m *fixTracker) command(e Event) {
	if e.Status != Accepted || e.Command != Accept && e.Command != Retry && e.Command != Edit {
		return
	}
	note := func(f *FixedFailure) {
		if f.How == "" && (e.Group == "" || f.Unit.Group == e.Group) && (f.left || e.Command == Edit) {
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

// replace notes that an edited revision begins instead of the one with these groups.
func (m *fixTracker) replace(groups map[Unit]*GroupState) {
	for u, f := range m.open {
		if g := groups[u]; g != nil && g.Status == Failed {
			f.Root = g.roots()[0]
		}
		f.How = cmp.Or(f.How, Edit)
	}
}

// succeed mends what an edited revision no longer has.
func (m *fixTracker) succeed(at time.Time) {
	var left []*FixedFailure
	for _, f := range m.open {
		if f.How == Edit {
			left = append(left, f)
		}
	}
	slices.SortFunc(left, func(a, b *FixedFailure) int {
		return cmp.Or(a.Failed.Compare(b.Failed), cmp.Compare(a.Unit.Group, b.Unit.Group))
	})
	for _, f := range left {
		m.close(f, at)
	}
}

// FixedNote returns what follows the word for the outcome: ", after 1 fixed failure",
// or "".
func (m *fixTracker) FixedNote() string {
	switch n := len(m.Fixed); n {
	case 0:
		return ""
	case 1:
		return ", after 1 fixed failure"
	default:
		return fmt.Sprintf(", after %d fixed failures", n)
	}
}
