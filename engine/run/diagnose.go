package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// An object that is not ready is diagnosed before it fails, so that the user can act in time,
// also while the run is paused: at the first sign of trouble or after a delay without one,
// then less and less often.
const (
	podDelay      = 5 * time.Second  // from the apply to the first diagnosis of an object with pods
	quietDelay    = time.Second      // the same for an object without pods
	quietInterval = 10 * time.Second // between diagnoses without a sign of trouble
	// minGap is the time between the first two diagnoses of an object; each further gap is
	// twice as long, up to maxGap.
	minGap = time.Second
	maxGap = 30 * time.Second
	// maxDiagnoses is the number of objects that are diagnosed at a time.
	maxDiagnoses = 8
	// maxRequests limits the requests that the diagnoses of an object send in requestWindow. The
	// diagnosis of its failure is exempt: with it, an object causes at most 20 per minute.
	maxRequests   = 14
	requestWindow = time.Minute
)

// scheduled is a diagnosis of an object in a round of its group.
type scheduled struct {
	group  *group
	object *object
	round  int
}

// nextDiagnosis returns the time of the next diagnosis, zero for never.
func (m *machine) nextDiagnosis() time.Time {
	if m.opts.Diagnose == nil || m.stage == nil || m.stage.busy.background >= maxDiagnoses || m.steering.abort != nil {
		return time.Time{}
	}
	return m.stage.diagnoseAt
}

// diagnoseLater schedules a diagnosis without a sign of trouble.
func (s *stage) diagnoseLater(g *group, o *object) {
	at := o.since.Add(firstDiagnosis(o.Object))
	if o.pace.count > 0 {
		at = o.pace.NextQuiet(s.m.now)
	}
	s.scheduleDiagnosis(g, o, at)
}

// firstDiagnosis returns the time from the apply of an object to its first diagnosis without a
// sign. Pods give signs, and may be slow to start; a claim, an Ingress or a custom resource
// can be stuck silently from the start.
func firstDiagnosis(o plan.Object) time.Duration {
	switch o.Kind {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob":
		return podDelay
	}
	return quietDelay
}

// scheduleDiagnosis schedules a diagnosis; the earlier of two counts.
func (s *stage) scheduleDiagnosis(g *group, o *object, at time.Time) {
	if !s.mayDiagnose(g, o) {
		return
	}
	at = o.pace.Next(at)
	if o.diagnoseAt.IsZero() {
		s.scheduled = append(s.scheduled, scheduled{g, o, g.attempt.round})
	}
	o.diagnoseAt = earliest(o.diagnoseAt, at)
	s.diagnoseAt = earliest(s.diagnoseAt, at)
}

// mayDiagnose reports whether the group waits for an object that has not failed.
func (s *stage) mayDiagnose(g *group, o *object) bool {
	waiting := o.request == requestBlocked || o.request == requestSucceeded && !s.done(o)
	return g.status == event.Running && waiting && o.status != event.Failed
}

// startDiagnoses starts the diagnoses that are due: first of objects that were never
// diagnosed, then of those that have waited longest.
func (m *machine) startDiagnoses() {
	due := m.nextDiagnosis()
	if due.IsZero() || m.now.Before(due) {
		return
	}
	s := m.stage
	slices.SortStableFunc(s.scheduled, func(a, b scheduled) int {
		return cmp.Or(
			cmp.Compare(min(a.object.pace.count, 1), min(b.object.pace.count, 1)),
			a.object.diagnoseAt.Compare(b.object.diagnoseAt),
		)
	})
	var later []scheduled
	s.diagnoseAt = time.Time{}
	for _, d := range s.scheduled {
		o := d.object
		switch {
		case d.round != d.group.attempt.round: // the new attempt schedules its own
		case !s.mayDiagnose(d.group, o):
			o.diagnoseAt = time.Time{}
		case s.busy.background >= maxDiagnoses || m.now.Before(o.diagnoseAt):
			later = append(later, d)
			s.diagnoseAt = earliest(s.diagnoseAt, o.diagnoseAt)
		default:
			s.busy.background++
			o.diagnoseAt = time.Time{}
			o.pace.Start(m.now)
			m.do(startDiagnosis{diagnosis{stage: s, group: d.group, object: o, actual: o.actual(), round: d.round}})
		}
	}
	s.scheduled = later
}
