package screen

import (
	"lockstep/engine/event"
	"lockstep/ui/board/graph"
)

// Failing returns the failed groups of the current phases, the selected one first.
func (s *Screen) Failing() []*graph.Node {
	var out []*graph.Node
	for _, n := range s.Graph.Nodes {
		switch {
		case n.Status != event.Failed || s.Back(n) != s.RollingBack():
		case s.IsSelected(n):
			out = append([]*graph.Node{n}, out...)
		default:
			out = append(out, n)
		}
	}
	return out
}

// RootOf returns the root cause of a group's failure.
func (s *Screen) RootOf(n *graph.Node) event.Root {
	for _, r := range s.State.Roots() {
		if r.Group == n.GroupState {
			return r
		}
	}
	return event.Root{Group: n.GroupState, Cause: n.Message}
}

// FailedCommand returns a command about the selected group if that failed, else about all failed
// groups.
func (s *Screen) FailedCommand(name event.CommandName) event.Command {
	c := event.Command{Name: name}
	if n := s.Group(); n != nil && n.Status == event.Failed {
		c.Phase, c.Group = n.Phase, n.ID
	}
	return c
}
