package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// A look is a diagnosis of an object that is not ready and has not failed, so that the
// cause is known in time to act, paused or not. It runs at the first sign of trouble, or
// after a while without one, and at further signs less and less often.
const (
	lookAfter = 5 * time.Second  // from an object's apply, where it has pods
	lookMute  = time.Second      // where it has none
	lookAgain = 10 * time.Second // without a sign
	// firstGap is the time between the first two looks at an object; each further gap is
	// twice as long, up to lastGap.
	firstGap = time.Second
	lastGap  = 30 * time.Second
	// looksAt is how many objects are diagnosed at a time.
	looksAt = 8
	// mostRequests is how many requests the looks at an object may send in spentTime: at
	// most 20 a minute, with the diagnosis of its failure.
	mostRequests = 14
	spentTime    = time.Minute
)

// look is a scheduled diagnosis.
type look struct {
	group  *group
	object *object
	round  int
}

// nextDiagnosis is the time of the next diagnosis, zero for never.
func (m *machine) nextDiagnosis() time.Time {
	if m.opts.Diagnose == nil || m.stage == nil || m.stage.busy.looks >= looksAt || m.steering.abort != nil {
		return time.Time{}
	}
	return m.stage.lookDue
}

// diagnoseNow schedules a diagnosis as soon as the pace allows.
func (s *stage) diagnoseNow(g *group, o *object) { s.scheduleDiagnosis(g, o, s.m.now) }

// diagnoseLater schedules a diagnosis without a sign of trouble.
func (s *stage) diagnoseLater(g *group, o *object) {
	at := o.since.Add(firstDiagnosis(o.Object))
	if o.pace.looks > 0 {
		at = o.pace.Later(s.m.now)
	}
	s.scheduleDiagnosis(g, o, at)
}

// firstDiagnosis is how long after its apply an object is diagnosed without a sign. Pods
// give signs, and may need a while to start; a claim, an Ingress or a custom resource can
// be stuck silently from the start.
func firstDiagnosis(o plan.Object) time.Duration {
	switch o.Kind {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob":
		return lookAfter
	}
	return lookMute
}

// scheduleDiagnosis schedules a look; the earlier of two counts.
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

// mayDiagnose reports whether an object is waited for, or has no status yet.
func (s *stage) mayDiagnose(g *group, o *object) bool {
	return g.status == event.Running && (o.reply == replyTaken && !s.done(o) || o.reply == replyBlocked) && o.status != event.Failed
}

// look starts the diagnoses that are due: first of objects without any finding, then of
// those that waited longest.
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
