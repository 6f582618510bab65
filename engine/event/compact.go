package event

import (
	"slices"

	"lockstep/engine/plan"
)

// subject is what an event is about. A later event with the same subject supersedes it.
type subject struct {
	kind    Kind
	unit    Unit
	object  plan.Object
	started bool   // keeps the event that has the start time of a group
	message string // tells warnings and the logs of containers apart
}

func newSubject(e Event) subject {
	s := subject{kind: e.Kind}
	switch e.Kind {
	case KindGroup:
		s.unit, s.started = e.Unit(), e.Status == Running
	case KindObject, KindDiagnosis, KindDrift, KindLog:
		s.unit = e.Unit()
		if e.Kind == KindLog {
			s.message = e.Message
		}
		if e.Object != nil {
			s.object = *e.Object
		}
	case KindBreakpoint:
		s.unit = e.Unit()
	case KindWarning:
		s.message = e.Rule + e.Message
	}
	return s
}

// compact reduces a record to events that produce the same current State: the first event,
// the last announcement of each phase, and the last event about each subject. It drops the times
// of earlier changes, all but the last event of a container's log, and groups that are no longer announced.
func compact(events []Event) []Event {
	last := make(map[subject]int, len(events))
	var phases []Phase
	for n, e := range events {
		about := newSubject(e)
		last[about] = n
		if e.Kind == KindObject && (e.Status == Ready || e.Status == Gone || e.Status == Applying) { // State drops the diagnosis too
			about.kind = KindDiagnosis
			delete(last, about)
		}
		if e.Kind == KindPlan {
			phases = mergePhases(phases, e.Phases)
		}
	}
	var out []Event
	if len(events) > 0 && !isLast(last, newSubject(events[0]), 0) {
		out = append(out, events[0])
	}
	if n, ok := last[subject{kind: KindOperation}]; ok {
		out = append(out, events[n])
	}
	if n, ok := last[subject{kind: KindPlan}]; ok {
		e := events[n]
		e.Phases = phases
		out = append(out, e)
	}
	known := map[Unit]bool{{}: true}
	for g := range Groups(phases) {
		known[g.Unit()] = true
	}
	for n, e := range events {
		if s := newSubject(e); e.Kind != KindOperation && e.Kind != KindPlan && isLast(last, s, n) && known[s.unit] {
			out = append(out, e)
		}
	}
	return out
}

// mergePhases adds announced phases, and replaces those of the same name.
func mergePhases(phases, announced []Phase) []Phase {
	for _, p := range announced {
		i := slices.IndexFunc(phases, func(q Phase) bool { return q.Name == p.Name })
		if i < 0 {
			phases = append(phases, p)
			continue
		}
		if p.Usual == nil {
			p.Usual = phases[i].Usual
		}
		phases[i] = p
	}
	return phases
}

func isLast(last map[subject]int, s subject, n int) bool {
	i, ok := last[s]
	return ok && i == n
}
