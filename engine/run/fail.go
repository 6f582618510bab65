package run

import (
	"errors"
	"slices"
	"strings"

	"lockstep/engine/event"
)

// fail ends a group as failed. diagnose asks why the object is not ready.
//
// Rule R26: what waits for a failed group does not start; what is in flight is finished
func (s *stage) fail(g *group, o *object, message string, diagnose bool) {
	if g.status != event.Running {
		return
	}
	message = oneLine(message)
	obj := o.named()
	s.queue = slices.DeleteFunc(s.queue, func(r request) bool { return r.group == g })
	for _, o := range g.objects {
		if !o.answered {
			o.onlyLater()
		}
	}
	f := &failure{Failure: Failure{Group: g.Group, Object: obj, Message: message}, group: g, reason: message}
	s.failures = append(s.failures, f)
	s.m.setUnit(g.unit, event.Failed, obj.String()+": "+message)
	if diagnose && s.m.opts.Diagnose != nil {
		s.busy.diagnoses++
		s.m.do(startDiagnosis{diagnosis{s, g, o, obj, g.attempt.round, f}})
	}
	s.m.tellRun()
}

// failing reports whether a group has failed, so that nothing further starts.
func (s *stage) failing() bool { return len(s.failures) > 0 }

// heldOn is the failure that the run is held on: the last one that nobody has
// given up; nil where it is not held.
//
// Rule R44: a failure is held until it is accepted, retried or given up
func (m *machine) heldOn() *failure {
	if m.stage == nil || !m.opts.HoldOnFailure || m.over() {
		return nil
	}
	for _, f := range slices.Backward(m.stage.failures) {
		if !f.givenUp {
			return f
		}
	}
	return nil
}

// decide accepts, retries or gives up one failed group, or all.
func (m *machine) decide(name event.CommandName, named event.Unit) string {
	if m.heldOn() == nil {
		return "nothing is held on a failure"
	}
	s := m.stage
	chosen := slices.DeleteFunc(slices.Clone(s.failures), func(f *failure) bool {
		return named.Group != "" && f.Group != named.Group || named.Phase != "" && f.group.Phase != named.Phase
	})
	if len(chosen) == 0 {
		return named.Group + " has not failed"
	}
	if name == event.GiveUp {
		for _, f := range chosen {
			f.givenUp = true
		}
		m.tellRun()
		return ""
	}
	s.failures = slices.DeleteFunc(s.failures, func(f *failure) bool { return slices.Contains(chosen, f) })
	m.tellRun()
	for _, f := range chosen {
		m.setUnit(f.group.unit, event.Running, "")
		if name == event.Retry {
			s.begin(f.group)
		} else {
			s.accept(f.group)
		}
	}
	return ""
}

// accept waits again for a failed group, without applying anything: it is ready
// if the cluster says so now or later, whoever has seen to that.
func (s *stage) accept(g *group) {
	g.attempt.round++
	g.attempt.accepted = true
	for _, o := range g.objects {
		if o.last.Status == event.Failed { // it may have been mended since
			o.last = Observation{}
		}
		if g.await || !o.answered {
			s.setDeadline(g, o)
		}
		s.assess(g, o)
	}
	s.endGroup(g)
}

// diagnosed takes in why an object is not ready.
func (s *stage) diagnosed(d diagnosis, summary string, lines []string) {
	if d.failure == nil {
		s.busy.glances--
		if s.closed || d.round != d.group.attempt.round || d.group.status != event.Running || d.object.settled ||
			summary == "" || summary == d.object.explained {
			return
		}
		d.object.explained = summary
	} else {
		s.busy.diagnoses--
		if summary == "" && len(lines) == 0 {
			return
		}
		if summary != "" && !strings.Contains(d.failure.Message, summary) {
			d.failure.Message += " — " + summary
		}
	}
	s.m.publish(event.Event{Kind: event.KindDiagnosis, Phase: d.group.Phase, Group: d.group.Group, Object: &d.named, Message: summary, Lines: lines})
}

// whySkipped names the failed group that g waits for, directly or not.
func (s *stage) whySkipped(g *group, cause error) string {
	seen := map[string]bool{}
	var find func(ids []string) string
	find = func(ids []string) string {
		for _, id := range ids {
			b := s.by[id]
			if b == nil || seen[id] {
				continue
			}
			seen[id] = true
			if b.status == event.Failed {
				return id
			}
			if up := find(b.def.After); up != "" {
				return up
			}
		}
		return ""
	}
	switch up := find(g.def.After); {
	case up != "":
		return "not started: " + up + " failed"
	case errors.Is(cause, ErrAborted):
		return "not started: the run was aborted"
	case errors.Is(cause, ErrTimeout):
		return "not started: the operation timed out"
	}
	return "not started: the operation failed"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
