package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
)

// A glance is a diagnosis of what is not ready for a while, before it has failed,
// so that the reason is known while there is time to act on it, paused or not.
const (
	glanceAfter = 5 * time.Second  // from an object's apply
	glanceEvery = 10 * time.Second // again
	glanceAt    = 3                // objects at a time, the oldest
)

// nextGlance is when something may be looked into, the zero time for never. It is
// asked after every message, so it goes by glanceDue and not by the objects.
func (m *machine) nextGlance() time.Time {
	if m.opts.Diagnose == nil || m.stage == nil || m.stage.busy.glances > 0 || m.steering.abort != nil {
		return time.Time{}
	}
	return m.timeouts.glanceDue
}

// expectGlance sees to it that an object is looked into in its time.
func (m *machine) expectGlance(o *object) {
	t := &m.timeouts
	due := o.since.Add(glanceAfter)
	if again := t.glanced.Add(glanceEvery); again.After(due) {
		due = again
	}
	if t.glanceDue.IsZero() || due.Before(t.glanceDue) {
		t.glanceDue = due
	}
}

// glance asks why the objects that have been waited for longest are not ready.
func (m *machine) glance() {
	due := m.nextGlance()
	if due.IsZero() || m.now.Before(due) {
		return
	}
	s := m.stage
	unready := s.unready()
	for _, d := range unready[:min(glanceAt, len(unready))] {
		if m.now.Sub(d.object.since) >= glanceAfter {
			s.busy.glances++
			m.do(startDiagnosis{d})
			m.timeouts.glanced = m.now
		}
	}
	m.timeouts.glanceDue = time.Time{}
	if len(unready) > 0 {
		m.expectGlance(unready[0].object)
	}
}

// unready are the objects that are waited for or whose status is still to come,
// the oldest first.
func (s *stage) unready() []diagnosis {
	var out []diagnosis
	for _, g := range s.groups {
		if g.status != event.Running {
			continue
		}
		for _, o := range g.objects {
			if o.answered && !s.done(o) && o.status != event.Failed {
				out = append(out, diagnosis{stage: s, group: g, object: o, named: o.named(), round: g.attempt.round})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b diagnosis) int {
		return cmp.Compare(a.object.since.UnixNano(), b.object.since.UnixNano())
	})
	return out
}
