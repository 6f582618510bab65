// Package forecast computes with the durations of groups: how long a run will still take,
// its critical path, and how much faster it could have been. It is pure and reads only
// event.State; reports and the board import it. Its central types are Forecast and Step.
package forecast

import (
	"slices"
	"time"

	"lockstep/engine/event"
)

// Lengths returns the duration of a group.
type Lengths func(*event.GroupState) time.Duration

// Took returns the actual Lengths: from a group's start to its end.
func Took(g *event.GroupState) time.Duration {
	if g.Started.IsZero() || g.Ended.Before(g.Started) {
		return 0
	}
	return g.Ended.Sub(g.Started)
}

// Length returns the duration of an operation if each group takes its Length and starts when its gates open (R14),
// and each phase starts when the previous one ends. A rollback does not count.
func Length(s *event.State, took Lengths) time.Duration {
	var end time.Duration
	for _, p := range forward(s) {
		_, end = endTimes(s, p, end, took)
	}
	return end
}

// forward returns the phases that are not part of a rollback.
func forward(s *event.State) []*event.PhaseState {
	return slices.DeleteFunc(slices.Clone(s.Phases), func(p *event.PhaseState) bool { return event.IsRollback(p.Name) })
}

// endTimes returns the end times of a phase's groups by id, and the last of them, if the
// phase starts at begin.
func endTimes(s *event.State, p *event.PhaseState, begin time.Duration, took Lengths) (ends map[string]time.Duration, last time.Duration) {
	ends = make(map[string]time.Duration, len(p.Groups))
	var endTime func(g *event.GroupState) time.Duration
	endTime = func(g *event.GroupState) time.Duration {
		if end, known := ends[g.ID]; known {
			return end
		}
		ends[g.ID] = begin // ends a cycle, which only a forged record can have
		start := begin
		for _, id := range g.After {
			if gate := s.Find(p.Name, id); gate != nil {
				start = max(start, endTime(gate))
			}
		}
		ends[g.ID] = start + took(g)
		return ends[g.ID]
	}
	last = begin
	for _, g := range p.Groups {
		last = max(last, endTime(g))
	}
	return ends, last
}

// Waits returns how long each unit waited for the cluster: the longest time from the API
// server's answer for one of its objects until that object was ready or gone. The rest of its
// time went into requests. Objects that are not checked (R21) do not count. With several
// waves (R17) this is the longest wait, not the sum, so it is a lower bound.
func Waits(s *event.State) map[event.Unit]time.Duration {
	waits := map[event.Unit]time.Duration{}
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			waits[g.Unit()] = max(waits[g.Unit()], waited(g, o))
		}
	}
	return waits
}

// waited returns how long a group waited for an object.
func waited(g *event.GroupState, o *event.ObjectState) time.Duration {
	end := o.Since
	switch over := o.Done() || o.Status == event.Failed; {
	case o.Answered.IsZero() || o.Answered.Before(g.Started): // in an earlier attempt
		return 0
	case !over && (g.Ended.IsZero() || g.Status == event.Applied):
		return 0
	case !over || !g.Ended.IsZero() && end.After(g.Ended):
		end = g.Ended
	}
	return end.Sub(o.Answered)
}

// Bottleneck returns the gate that delayed the operation most, and the time that it would
// have saved if it were instant. It is nil if no gate delayed the operation.
func Bottleneck(s *event.State) (gate *event.GroupState, saved time.Duration) {
	all := Length(s, Took)
	for _, p := range forward(s) {
		gates := map[string]bool{}
		for _, g := range p.Groups {
			for _, id := range g.After {
				gates[id] = true
			}
		}
		critical := critical(s, p)
		for _, g := range p.Groups {
			if !gates[g.ID] || !critical[g] || g.Status == event.Failed || Took(g) <= saved { // it cannot save more than it took
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

// critical returns the groups of a critical path of a phase: each starts when the previous one ends.
func critical(s *event.State, p *event.PhaseState) map[*event.GroupState]bool {
	ends, end := endTimes(s, p, 0, Took)
	path := map[*event.GroupState]bool{}
	at := slices.IndexFunc(p.Groups, func(g *event.GroupState) bool { return ends[g.ID] == end })
	for at >= 0 {
		last := p.Groups[at]
		path[last] = true
		at = slices.IndexFunc(p.Groups, func(g *event.GroupState) bool {
			return slices.Contains(last.After, g.ID) && ends[g.ID] == ends[last.ID]-Took(last) && !path[g]
		})
	}
	return path
}
