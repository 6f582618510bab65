package run

import (
	"fmt"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// awaitsStatus reports whether the status that was last observed says nothing about the object as applied, because its
// controller has not written it since (R22a).
func (o *object) awaitsStatus() bool {
	return o.last.AwaitsStatus && (o.last.StatusWrite == "" || o.last.StatusWrite == o.statusBefore)
}

// judge returns the rule by which the object counts as ready.
func (o *object) judge() event.Judge {
	if o.awaitsStatus() && !o.last.SilenceConfirms {
		return event.ByNoStatus
	}
	if o.hasSettled {
		return event.BySettling
	}
	return o.last.ReadyBy
}

// evaluateSilent derives the status of an object whose controller has written no status since the apply. Once the wait for
// it has passed, an object that is ready by its old status, or has none, counts as ready; a failure from before the apply
// never counts.
func (s *stage) evaluateSilent(g *group, o *object) {
	limit := s.firstStatusTimeout()
	if limit == 0 && !o.statusOverdue {
		s.setStatusOverdue(o)
	}
	if o.statusOverdue && o.last.Status == event.Ready {
		message := o.last.Message
		if !o.last.SilenceConfirms {
			message = wroteNothing(limit)
		}
		s.setReady(g, o, message)
		return
	}
	if s.setObject(g, o, event.InProgress, "its controller has written no status since the apply", ""); o.statusOverdue || o.statusDeadline != nil {
		return
	}
	if g.status == event.Running && (g.await || g.attempt.rechecking) {
		o.statusDeadline = s.addDeadline(deadline{group: g, object: o, at: s.m.readinessClock.active(s.m.now) + limit, firstStatus: true})
	}
}

// firstStatusTimeout returns Stage.FirstStatusTimeout, at most ObjectTimeout: a silent controller is no failure.
func (s *stage) firstStatusTimeout() time.Duration {
	if s.ObjectTimeout > 0 {
		return min(s.FirstStatusTimeout, s.ObjectTimeout)
	}
	return s.FirstStatusTimeout
}

// stopAwaitingStatus ends the wait for a status of the object's controller.
func (s *stage) stopAwaitingStatus(g *group, o *object) {
	o.statusDeadline = nil
	if !o.awaitsStatus() {
		return
	}
	s.setStatusOverdue(o)
	s.assess(g, o)
}

// setStatusOverdue records that an object counts although its controller has written no status, and warns once for each kind.
func (s *stage) setStatusOverdue(o *object) {
	o.statusOverdue = true
	kind := o.GroupKind()
	if o.last.Status != event.Ready || o.last.SilenceConfirms || s.m.silentKinds[kind] {
		return
	}
	if s.m.silentKinds == nil {
		s.m.silentKinds = map[plan.GroupKind]bool{}
	}
	s.m.silentKinds[kind] = true
	obj := o.actual()
	s.m.publish(event.WarningEvent(plan.Warning{Rule: "R22a", Object: &obj, Message: fmt.Sprintf(
		"%s counts as applied: %s (--first-status-timeout); %s", obj, wroteNothing(s.firstStatusTimeout()), plan.ReadinessAdvice(obj))}))
}

func wroteNothing(limit time.Duration) string {
	if limit == 0 {
		return "its controller has written no status, and the run does not wait for one"
	}
	return fmt.Sprintf("its controller wrote no status within %s", limit)
}

// countReadyBy returns the number of objects that are ready by a rule, of those that the run waits for.
func (m *machine) countReadyBy(rule event.Judge) (n int) {
	for _, s := range m.confirmable {
		for _, g := range s.groups {
			for _, o := range g.objects {
				if o.readyBy == rule {
					n++
				}
			}
		}
	}
	return n
}
