package report

import (
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
)

// CriticalPath returns the groups that decided how long the operation took, in
// the order in which they ran: the group that ended last, before it the one of
// its gates that ended last, and so on. A group without gates follows what
// ended last in another phase. The rollback of the operation does not count.
func CriticalPath(s *event.State) []*event.GroupState {
	var path []*event.GroupState
	var last *event.GroupState
	for _, p := range s.Phases {
		if !undoing(p) {
			last = later(last, p.Groups, s.Now)
		}
	}
	seen := map[*event.GroupState]bool{} // groups that take no time may seem to follow each other
	for last != nil && !seen[last] {
		seen[last] = true
		path = append(path, last)
		last = before(s, last)
	}
	slices.Reverse(path)
	return path
}

// undoing reports whether a phase is part of a rollback of the operation.
func undoing(p *event.PhaseState) bool { return strings.Contains(p.Name, "/") }

// before returns the group that g had to wait for longest, or nil.
func before(s *event.State, g *event.GroupState) *event.GroupState {
	var last *event.GroupState
	for _, id := range g.After {
		if b := s.Find(g.Phase, id); b != nil {
			last = later(last, []*event.GroupState{b}, g.Started)
		}
	}
	if last != nil {
		return last
	}
	for _, p := range s.Phases {
		if p.Name != g.Phase {
			last = later(last, p.Groups, g.Started)
		}
	}
	return last
}

// later returns the one of last and groups that ended last, not after limit.
func later(last *event.GroupState, groups []*event.GroupState, limit time.Time) *event.GroupState {
	for _, g := range groups {
		if g.Started.IsZero() || g.Ended.IsZero() || g.Ended.After(limit) {
			continue
		}
		if last == nil || g.Ended.After(last.Ended) {
			last = g
		}
	}
	return last
}

// longestPath is how many groups of a path are named; of longer ones those in
// the middle are counted.
const longestPath = 16

func pathText(s *event.State, path []*event.GroupState, style Style) string {
	var parts []string
	for _, g := range path {
		parts = append(parts, unitName(s, g)+" "+Seconds(g.Ended.Sub(g.Started)))
	}
	if over := len(parts) - longestPath; over > 0 {
		head := parts[: longestPath/2 : longestPath/2]
		parts = append(append(head, "… "+Count(over, "group")+" …"), parts[len(parts)-longestPath/2:]...)
	}
	arrow := " → "
	if style.Theme.ASCII {
		arrow = " -> "
	}
	return strings.Join(parts, arrow)
}
