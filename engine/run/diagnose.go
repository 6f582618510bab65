package run

import (
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// An object that is not ready is diagnosed before it fails, so that the user can act in time: at
// the first sign of trouble or after a delay without one, then less and less often. Diagnoses
// continue while the run is paused.
const (
	delayWithPods    = 5 * time.Second  // from the apply to the first diagnosis of an object with pods
	delayWithoutPods = time.Second      // the same for an object without pods
	quietInterval    = 10 * time.Second // between diagnoses without a sign of trouble
	// minGap is the minimum time between the first two diagnoses of an object; it doubles after each diagnosis,
	// up to maxGap.
	minGap = time.Second
	maxGap = 30 * time.Second
	// maxDiagnoses is the maximum number of waiting objects that are diagnosed at the same time.
	maxDiagnoses = 8
	// maxDiagnosisRequests limits, approximately, the requests that the diagnoses of one object send in requestWindow.
	// The diagnosis of its failure is exempt; including it, the total is about 20 per minute.
	maxDiagnosisRequests = 14
	requestWindow        = time.Minute
)

// waitingObject is an object that its group waits for.
type waitingObject struct {
	group  *group
	object *object
}

// nextDiagnosis returns the time of the next diagnosis, zero for never.
func (m *machine) nextDiagnosis() time.Time {
	if m.opts.Diagnose == nil || m.stage == nil || m.steering.ending != nil {
		return time.Time{}
	}
	return m.stage.schedule.Next()
}

// diagnoseLater schedules the next diagnosis of an object that shows no sign of trouble.
func (s *stage) diagnoseLater(g *group, o *object) {
	at := o.since.Add(firstDiagnosis(o.Object))
	if o.pace.count > 0 {
		at = o.pace.NextQuiet(s.m.now)
	}
	s.scheduleDiagnosis(g, o, at)
}

// firstDiagnosis returns the time from the apply of an object to its first diagnosis without a
// sign of trouble. Pods may be slow to start, and show when they have a problem; a claim, an
// Ingress or a custom resource can be stuck without a sign.
func firstDiagnosis(o plan.Object) time.Duration {
	switch o.Kind {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob":
		return delayWithPods
	}
	return delayWithoutPods
}

func (s *stage) scheduleDiagnosis(g *group, o *object, at time.Time) {
	if s.mayDiagnose(g, o) {
		s.schedule.Add(waitingObject{g, o}, &o.pace, at)
	}
}

// mayDiagnose reports whether the group waits for an object that has not failed.
func (s *stage) mayDiagnose(g *group, o *object) bool {
	waiting := o.request == requestBlocked || o.request == requestSucceeded && !s.done(o)
	return g.status == event.Running && waiting && o.status != event.Failed
}

// startDiagnoses starts the diagnoses that are due.
func (m *machine) startDiagnoses() {
	if m.nextDiagnosis().IsZero() {
		return
	}
	s := m.stage
	for _, w := range s.schedule.Start(m.now, func(w waitingObject) bool { return s.mayDiagnose(w.group, w.object) }) {
		g, o := w.group, w.object
		m.emit(startDiagnosis{diagnosis{stage: s, group: g, object: o, actual: o.actual(), round: g.attempt.round}})
	}
}
