// Package forecast estimates how much longer a run will take, and finds its critical path and its
// bottleneck. It is pure and reads only event.State; reports and the board import it. Its central
// types are Forecast and Step.
package forecast

import (
	"slices"
	"time"

	"lockstep/engine/event"
)

// DurationFunc returns the actual or a hypothetical duration of a group.
type DurationFunc func(*event.GroupState) time.Duration

// Took is the DurationFunc of actual durations, from a group's start to its end, without the time that the release of a
// stack was paused or held.
func Took(g *event.GroupState) time.Duration {
	if g.Started.IsZero() {
		return 0
	}
	return max(g.Ended.Sub(g.Started)-g.Idle, 0)
}

// TotalDuration returns how long an operation would take if each group's duration were took(group), each
// group started when its dependencies ended (R14), and each phase when the previous one ended. It ignores
// the rollback of a failed or aborted operation.
func TotalDuration(s *event.State, took DurationFunc) time.Duration {
	var end time.Duration
	for _, p := range forwardPhases(s) {
		_, end = endTimes(s, p, end, took)
	}
	return end
}

// forwardPhases returns the phases of the operation itself, not those of its rollback (event.IsRollback).
func forwardPhases(s *event.State) []*event.PhaseState {
	return slices.DeleteFunc(slices.Clone(s.Phases), func(p *event.PhaseState) bool { return event.IsRollback(p.Name) })
}

// endTimes returns the end times of a phase's groups by id, and the last of them.
func endTimes(s *event.State, p *event.PhaseState, phaseStart time.Duration, took DurationFunc) (ends map[string]time.Duration, last time.Duration) {
	ends = make(map[string]time.Duration, len(p.Groups))
	var endTime func(g *event.GroupState) time.Duration
	endTime = func(g *event.GroupState) time.Duration {
		if end, known := ends[g.ID]; known {
			return end
		}
		ends[g.ID] = phaseStart // in case of a cycle, which only an invalid record can have
		start := phaseStart
		for _, id := range g.After {
			if dependency := s.Find(p.Name, id); dependency != nil {
				start = max(start, endTime(dependency))
			}
		}
		ends[g.ID] = start + took(g)
		return ends[g.ID]
	}
	last = phaseStart
	for _, g := range p.Groups {
		last = max(last, endTime(g))
	}
	return ends, last
}

// Waits returns how long each unit waited for the cluster: the longest time from the API server's answer for one of its
// objects until that object was ready, gone or failed, or the group ended. In a group that is not checked (R21), only objects
// that became ready, gone or failed count, and only until the group ended.
//
// The result is a lower bound. It leaves out waiting for an object of the same name to be deleted (R30), and waiting during a
// re-check (R44), which sends no requests. If a wave waits until the CRDs of an earlier one are established (R17), the waits add up,
// but only the longest counts.
func Waits(s *event.State) map[event.Unit]time.Duration {
	waits := map[event.Unit]time.Duration{}
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			waits[g.Unit()] = max(waits[g.Unit()], waited(g, o))
		}
	}
	return waits
}

// waited returns how long a group waited for an object in its last attempt.
func waited(g *event.GroupState, o *event.ObjectState) time.Duration {
	end := o.Since
	switch over := o.Done() || o.Status == event.Failed; {
	case o.Answered.IsZero() || o.Answered.Before(g.Started): // not answered in this attempt
		return 0
	case !over && (g.Ended.IsZero() || g.Status == event.Applied):
		return 0
	case !over || !g.Ended.IsZero() && end.After(g.Ended):
		end = g.Ended
	}
	return end.Sub(o.Answered)
}

// Bottleneck returns the group that would have shortened the operation most had it taken no time, and by how much. It
// considers only groups that others depend on and that did not fail. group is nil if none would have shortened it.
func Bottleneck(s *event.State) (group *event.GroupState, saved time.Duration) {
	total := TotalDuration(s, Took)
	for _, p := range forwardPhases(s) {
		dependencies := map[string]bool{}
		for _, g := range p.Groups {
			for _, id := range g.After {
				dependencies[id] = true
			}
		}
		onPath := criticalGroups(s, p)
		for _, g := range p.Groups {
			if !dependencies[g.ID] || !onPath[g] || g.Status == event.Failed || Took(g) <= saved { // a group saves at most the time it took
				continue
			}
			without := TotalDuration(s, func(o *event.GroupState) time.Duration {
				if o == g {
					return 0
				}
				return Took(o)
			})
			if saving := total - without; saving > saved {
				group, saved = g, saving
			}
		}
	}
	return group, saved
}

// criticalGroups returns the groups on a critical path of a phase: each starts when the previous one ends.
func criticalGroups(s *event.State, p *event.PhaseState) map[*event.GroupState]bool {
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
