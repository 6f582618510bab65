// Package forecast reckons with how long groups take: how long a run would have
// taken if they had taken something else, and how long one still takes if they
// take what they usually do. It is pure: what is known comes from events.
package forecast

import (
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
)

// Lengths are how long groups take.
type Lengths func(*event.GroupState) time.Duration

// Took are the lengths that a record tells: from a group's first request until it
// was over.
func Took(g *event.GroupState) time.Duration {
	if g.Started.IsZero() || g.Ended.Before(g.Started) {
		return 0
	}
	return g.Ended.Sub(g.Started)
}

// Length is how long an operation takes whose groups take certain times, where
// each starts the moment that all it waits for is there (R14), and a phase when
// the one before it is over. A rollback of the operation does not count.
func Length(s *event.State, took Lengths) time.Duration {
	var end time.Duration
	for _, p := range s.Phases {
		if !strings.HasPrefix(p.Name, event.RollbackPrefix) {
			_, end = ends(s, p, end, took)
		}
	}
	return end
}

// ends are when the groups of a phase end that begins at a certain time, by their
// ids, and when the last of them does.
func ends(s *event.State, p *event.PhaseState, begin time.Duration, took Lengths) (ends map[string]time.Duration, last time.Duration) {
	ends = make(map[string]time.Duration, len(p.Groups))
	var endOf func(g *event.GroupState) time.Duration
	endOf = func(g *event.GroupState) time.Duration {
		if end, known := ends[g.ID]; known {
			return end
		}
		ends[g.ID] = begin // a circle, which only a record made by hand can have, ends here
		start := begin
		for _, id := range g.After {
			if gate := s.Find(p.Name, id); gate != nil {
				start = max(start, endOf(gate))
			}
		}
		ends[g.ID] = start + took(g)
		return ends[g.ID]
	}
	last = begin
	for _, g := range p.Groups {
		last = max(last, endOf(g))
	}
	return ends, last
}

// Waits are how long each unit waited for the cluster alone: the longest time
// from the API server's answer for one of its objects until that was ready, or
// gone. What a unit took beyond that it spent on requests, and on waiting for its
// turn to send them; a machine and an API server without limits would need none of
// it. What is not waited for (R21) does not count. Where a group sends its objects
// in several waves (R17), this is the longest of their waits and not the sum, so
// that the truth is between this and what the unit took.
func Waits(s *event.State) map[event.Unit]time.Duration {
	waits := map[event.Unit]time.Duration{}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				waits[g.Unit()] = max(waits[g.Unit()], waited(g, o))
			}
		}
	}
	return waits
}

// waited is how long a group waited for one of its objects, as far as it did.
func waited(g *event.GroupState, o *event.ObjectState) time.Duration {
	end := o.Since
	switch over := o.Done() || o.Status == event.Failed; {
	case o.Answered.IsZero() || o.Answered.Before(g.Started): // not in the last try
		return 0
	case !over && (g.Ended.IsZero() || g.Status == event.Applied):
		return 0
	case !over || !g.Ended.IsZero() && end.After(g.Ended):
		end = g.Ended
	}
	return end.Sub(o.Answered)
}

// Costliest is the group that other groups wait for whose time made the operation
// longest, and by how much: what would have been saved if it had been ready at
// once. It is nil where nothing waits for anything that cost time and came to be
// ready.
func Costliest(s *event.State) (gate *event.GroupState, saved time.Duration) {
	all := Length(s, Took)
	for _, p := range s.Phases {
		if strings.HasPrefix(p.Name, event.RollbackPrefix) {
			continue
		}
		gates := map[string]bool{}
		for _, g := range p.Groups {
			for _, id := range g.After {
				gates[id] = true
			}
		}
		critical := critical(s, p)
		for _, g := range p.Groups {
			if !gates[g.ID] || !critical[g] || g.Status == event.Failed || Took(g) <= saved { // it saves no more than it took
				continue
			}
			without := Length(s, func(o *event.GroupState) time.Duration {
				if o == g {
					return 0
				}
				return Took(o)
			})
			if less := all - without; less > saved {
				gate, saved = g, less
			}
		}
	}
	return gate, saved
}

// critical are groups that follow each other without a gap and make a phase as long
// as it is: without any other it is as long as ever.
func critical(s *event.State, p *event.PhaseState) map[*event.GroupState]bool {
	ends, end := ends(s, p, 0, Took)
	path := map[*event.GroupState]bool{}
	var last *event.GroupState
	if i := slices.IndexFunc(p.Groups, func(g *event.GroupState) bool { return ends[g.ID] == end }); i >= 0 {
		last = p.Groups[i]
	}
	for last != nil {
		path[last] = true
		start := ends[last.ID] - Took(last)
		var before *event.GroupState
		for _, id := range last.After {
			if gate := s.Find(p.Name, id); gate != nil && ends[gate.ID] == start && !path[gate] {
				before = gate
			}
		}
		last = before
	}
	return path
}
