package run

import (
	"cmp"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
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

// mayDiagnose reports whether an object that has not failed its group is not ready in a group that waits for it, or that was ready
// before.
func (s *stage) mayDiagnose(g *group, o *object) bool {
	waiting := o.request == requestBlocked || o.request == requestSucceeded && !s.done(o)
	return g.awaited() && waiting && (o.status != event.Failed || g.status == event.Ready)
}

// awaited reports whether the objects of a group should be ready: the run waits for them, or they were ready and may not stay so.
func (g *group) awaited() bool { return g.status == event.Running || g.status == event.Ready }

// startDiagnoses starts the diagnoses that are due.
func (m *machine) startDiagnoses() {
	if m.nextDiagnosis().IsZero() {
		return
	}
	s := m.stage
	for _, w := range s.schedule.Start(m.now, func(w waitingObject) bool { return s.mayDiagnose(w.group, w.object) }) {
		g, o := w.group, w.object
		m.emit(startDiagnosis{diagnosis{stage: s, group: g, object: o, actual: o.actual(), round: g.attempt.round, blocked: o.request == requestBlocked}})
	}
}

// Pace limits the diagnoses of one object. The gaps between them grow, and the next one is delayed until the total stays
// within maxDiagnosisRequests per requestWindow, assuming that it costs as much as the last one. The zero value is ready to use.
type Pace struct {
	count int // diagnoses since the last reset
	costs []cost
	due   time.Time // time of the next diagnosis, zero for none
}

type cost struct {
	at       time.Time
	requests int
}

// next returns the first time, not before earliest, at which another diagnosis may start.
func (p *Pace) next(earliest time.Time) time.Time {
	if n := len(p.costs); n > 0 {
		if next := p.costs[n-1].at.Add(gap(max(p.count, 1))); next.After(earliest) {
			earliest = next
		}
	}
	return p.withinBudget(earliest)
}

// Cancel cancels the next diagnosis.
func (p *Pace) Cancel() { p.due = time.Time{} }

// NextQuiet returns when to diagnose again if there is no sign of trouble.
func (p *Pace) NextQuiet(now time.Time) time.Time { return now.Add(max(quietInterval, gap(p.count))) }

// start records the start of a diagnosis.
func (p *Pace) start(now time.Time) {
	p.due = time.Time{}
	p.count++
	p.costs = append(p.costs, cost{at: now})
}

// addCost records the cost of the last diagnosis.
func (p *Pace) addCost(now time.Time, requests int) {
	p.costs = slices.DeleteFunc(p.costs, func(x cost) bool { return now.Sub(x.at) > requestWindow })
	if n := len(p.costs); n > 0 {
		p.costs[n-1].requests += requests
	}
}

// reset restarts for a new attempt or re-check and cancels the next diagnosis. Earlier requests do not count: the user asked for
// another try, and must hear why it fails as soon as the first time.
func (p *Pace) reset() { *p = Pace{} }

func gap(count int) time.Duration { return min(minGap<<min(count-1, 10), maxGap) }

// withinBudget returns the first time, not before earliest, at which another diagnosis stays within
// maxDiagnosisRequests if it costs as much as the last one.
func (p *Pace) withinBudget(earliest time.Time) time.Time {
	sum := 0
	for i, x := range slices.Backward(p.costs) {
		if i == len(p.costs)-1 {
			sum = x.requests
		}
		if sum += x.requests; sum > maxDiagnosisRequests {
			if free := x.at.Add(requestWindow); free.After(earliest) {
				return free
			}
			break
		}
	}
	return earliest
}

// Schedule decides when to diagnose objects that are not ready. T identifies an object.
type Schedule[T any] struct {
	Limit   int // maximum number of diagnoses at the same time
	waiting []scheduled[T]
	next    time.Time // when the first one is due, zero for never
	running int
}

type scheduled[T any] struct {
	object T
	pace   *Pace
}

// Add schedules a diagnosis. If one is already scheduled, the earlier time counts.
func (s *Schedule[T]) Add(object T, pace *Pace, at time.Time) {
	at = pace.next(at)
	if pace.due.IsZero() {
		s.waiting = append(s.waiting, scheduled[T]{object, pace})
	}
	pace.due = earliest(pace.due, at)
	s.next = earliest(s.next, at)
}

// Next returns when to call Start, or zero if nothing can start before the next Add or End.
func (s *Schedule[T]) Next() time.Time {
	if s.running >= s.Limit {
		return time.Time{}
	}
	return s.next
}

// Start returns the objects whose diagnoses are due: first those that were never diagnosed, then
// those that have waited longest. It drops diagnoses that are no longer needed. The caller
// diagnoses each returned object and calls End.
func (s *Schedule[T]) Start(now time.Time, needed func(T) bool) (started []T) {
	if next := s.Next(); next.IsZero() || now.Before(next) {
		return nil
	}
	slices.SortStableFunc(s.waiting, func(a, b scheduled[T]) int {
		return cmp.Or(cmp.Compare(min(a.pace.count, 1), min(b.pace.count, 1)), a.pace.due.Compare(b.pace.due))
	})
	var later []scheduled[T]
	s.next = time.Time{}
	for _, w := range s.waiting {
		switch {
		case w.pace.due.IsZero(): // cancelled
		case !needed(w.object):
			w.pace.Cancel()
		case s.running >= s.Limit || now.Before(w.pace.due):
			later = append(later, w)
			s.next = earliest(s.next, w.pace.due)
		default:
			s.running++
			w.pace.start(now)
			started = append(started, w.object)
		}
	}
	s.waiting = later
	return started
}

// End records the end of a diagnosis, and the number of requests that it sent.
func (s *Schedule[T]) End(pace *Pace, now time.Time, requests int) {
	s.running--
	pace.addCost(now, requests)
}

func (m *machine) restartHeartbeat() {
	m.timeouts.nextHeartbeat = m.clock.active(m.now) + m.opts.Heartbeat
}

// publishHeartbeat publishes which object the run has waited for longest.
func (m *machine) publishHeartbeat(s *stage) {
	var oldest *object
	var group *group
	waiting := 0
	for _, g := range s.waiting() {
		for _, o := range g.objects {
			retried := o.inFlight && o.retryError != ""
			if !retried && o.request != requestBlocked && (o.request != requestSucceeded || s.done(o)) {
				continue
			}
			if oldest == nil || o.since.Before(oldest.since) {
				oldest, group = o, g
			}
			waiting++
		}
	}
	if oldest == nil {
		return
	}
	w := event.Wait{State: oldest.message, For: m.now.Sub(oldest.since), More: waiting - 1, Goal: s.goal(group)}
	known := ""
	if !oldest.found.Symptom {
		known = oldest.found.Cause
	}
	message := phrase.Heartbeat(oldest.status, known, w)
	if known != "" && oldest.request == requestBlocked { // it says what the message says
		message = phrase.Waiting(known, w)
	}
	obj := oldest.actual()
	m.publish(event.Event{
		Kind: event.KindWaiting, Phase: group.Phase, Group: group.Group, Object: &obj, Status: oldest.status,
		Message: message, Wait: &w, Cause: oldest.found.Cause, Tally: oldest.found.Tally, OnlyState: oldest.found.OnlyState, Evidence: oldest.found.Evidence, Outside: group.gated != nil,
	})
}
