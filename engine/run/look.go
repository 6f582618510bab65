package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// A look is a diagnosis of what is not ready, before it has failed, so that the
// reason is known while there is time to act on it, paused or not. It is taken at
// the first sign of trouble, or after a while where there is none; again at further
// signs, less and less often.
const (
	lookAfter = 5 * time.Second  // from an object's apply, where it has pods
	lookMute  = time.Second      // where it has none
	lookAgain = 10 * time.Second // without a sign
	// firstGap is the time between the first two looks at an object; each further
	// one is twice as long, up to lastGap.
	firstGap = time.Second
	lastGap  = 30 * time.Second
	// looksAt is how many objects are looked into at a time.
	looksAt = 8
	// mostRequests is how many requests the looks at an object may take in spentTime,
	// so that with the diagnosis of its failure they are not more than 20 a minute.
	mostRequests = 14
	spentTime    = time.Minute
)

// look is an object that is to be looked into.
type look struct {
	group  *group
	object *object
	round  int
}

// nextDiagnosis is when something may be looked into, the zero time for never.
func (m *machine) nextDiagnosis() time.Time {
	if m.opts.Diagnose == nil || m.stage == nil || m.stage.busy.looks >= looksAt || m.steering.abort != nil {
		return time.Time{}
	}
	return m.stage.lookDue
}

// diagnoseNow sees to it that an object is looked into as soon as it may be.
func (s *stage) diagnoseNow(g *group, o *object) { s.scheduleDiagnosis(g, o, s.m.now) }

// diagnoseLater sees to it that an object is looked into though there is no sign.
func (s *stage) diagnoseLater(g *group, o *object) {
	at := o.since.Add(firstDiagnosis(o.Object))
	if o.pace.looks > 0 {
		at = o.pace.Later(s.m.now)
	}
	s.scheduleDiagnosis(g, o, at)
}

// firstDiagnosis is how long after its apply an object is looked into though there is no
// sign. What has pods gives signs by them, and may need a while to start; a claim, an
// Ingress or a custom resource can be stuck in silence from the beginning.
func firstDiagnosis(o plan.Object) time.Duration {
	switch o.Kind {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob":
		return lookAfter
	}
	return lookMute
}

// scheduleDiagnosis plans a look; of two at an object the first counts.
func (s *stage) scheduleDiagnosis(g *group, o *object, at time.Time) {
	if !s.mayDiagnose(g, o) {
		return
	}
	at = o.pace.Next(at)
	if o.lookDue.IsZero() {
		s.looks = append(s.looks, look{g, o, g.attempt.round})
	}
	o.lookDue = sooner(o.lookDue, at)
	s.lookDue = sooner(s.lookDue, at)
}

// mayDiagnose reports whether an object is waited for, or its status still to come.
func (s *stage) mayDiagnose(g *group, o *object) bool {
	return g.status == event.Running && (o.reply == replyTaken && !s.done(o) || o.reply == replyBlocked) && o.status != event.Failed
}

// look asks why objects are not ready whose time for that has come: first those of
// which nothing is known yet, and of these the ones that have waited longest.
func (m *machine) look() {
	due := m.nextDiagnosis()
	if due.IsZero() || m.now.Before(due) {
		return
	}
	s := m.stage
	slices.SortStableFunc(s.looks, func(a, b look) int {
		return cmp.Or(cmp.Compare(min(a.object.pace.looks, 1), min(b.object.pace.looks, 1)), a.object.lookDue.Compare(b.object.lookDue))
	})
	var left []look
	s.lookDue = time.Time{}
	for _, l := range s.looks {
		o := l.object
		switch {
		case l.round != l.group.attempt.round: // another one is planned, or will be
		case !s.mayDiagnose(l.group, o):
			o.lookDue = time.Time{}
		case s.busy.looks >= looksAt || m.now.Before(o.lookDue):
			left = append(left, l)
			s.lookDue = sooner(s.lookDue, o.lookDue)
		default:
			s.busy.looks++
			o.lookDue = time.Time{}
			o.pace.Begin(m.now)
			m.do(startDiagnosis{diagnosis{stage: s, group: l.group, object: o, named: o.named(), round: l.round}})
		}
	}
	s.looks = left
}
