package view

import (
	"context"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// explainer diagnoses objects that are not ready: at each sign of trouble, and otherwise after a delay, like package run.
type explainer struct {
	mu       sync.Mutex
	objects  map[plan.Object]*diagnosisState
	schedule run.Schedule[*diagnosisState]
	wake     chan struct{} // has a token if a diagnosis may be due
}

// target is an object to diagnose.
type target struct {
	event.Unit
	object plan.Object
}

// diagnosisState is the state of the diagnoses of one object.
type diagnosisState struct {
	target    target
	pace      run.Pace
	notReady  bool
	published run.Finding   // the last published one
	failure   string        // the cause, if waiting will not help
	pods      run.Pods      // what is known of its pods
	diagnosed chan struct{} // closed after the first diagnosis
}

const (
	maxDiagnoses     = 4               // at the same time
	diagnosisDelay   = time.Second     // for objects without a sign of trouble
	diagnosisTimeout = 5 * time.Second // of one diagnosis
)

func newExplainer() explainer {
	return explainer{
		objects: map[plan.Object]*diagnosisState{}, wake: make(chan struct{}, 1),
		schedule: run.Schedule[*diagnosisState]{Limit: maxDiagnoses},
	}
}

// diagnoseNow schedules a diagnosis without delay, because an object shows a sign of trouble.
func (x *explainer) diagnoseNow(t target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(x.get(t), time.Now())
}

// observe records whether an object is ready. failure is why waiting will not help, or "".
func (x *explainer) observe(t target, notReady bool) (failure string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(t)
	before := d.notReady
	d.notReady = notReady
	switch {
	case !notReady:
		d.pace.Cancel()
		d.published, d.failure = run.Finding{}, ""
	case !before:
		x.add(d, time.Now().Add(diagnosisDelay))
	}
	return d.failure
}

// seePods records what is known of the pods of an object, and reports whether the published cause no longer holds.
func (x *explainer) seePods(t target, p run.Pods) (over bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(t)
	d.pods = p
	if over = d.published.Over(p, time.Now()); over {
		d.published, d.failure = run.Finding{}, ""
		x.add(d, time.Now())
	}
	return over
}

func (x *explainer) get(t target) *diagnosisState {
	d := x.objects[t.object]
	if d == nil {
		d = &diagnosisState{diagnosed: make(chan struct{})}
		x.objects[t.object] = d
	}
	d.target = t
	return d
}

// add schedules a diagnosis if the object was last observed as not ready.
func (x *explainer) add(d *diagnosisState, at time.Time) {
	if d.notReady {
		x.schedule.Add(d, &d.pace, at)
		x.wakeUp()
	}
}

func (x *explainer) wakeUp() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// run runs the diagnoses that are due until ctx is done. It calls publish for each new finding.
func (x *explainer) run(ctx context.Context, diagnose func(context.Context, plan.Object) run.Finding, publish func(target, run.Finding)) {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		case <-timer.C:
		}
		due, next := x.start(time.Now())
		for _, t := range due {
			running.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
				defer cancel()
				found := diagnose(ctx, t.object)
				if ctx.Err() != nil {
					found = run.Finding{}
				}
				if x.finish(t, found) {
					publish(t, found)
				}
				x.markDone(t)
			})
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), 0))
		}
	}
}

// markDone records that an object was diagnosed and its finding published.
func (x *explainer) markDone(t target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.get(t).diagnosed:
	default:
		close(x.get(t).diagnosed)
	}
}

// diagnoseAll diagnoses all objects that are not ready without delay. It returns when each has been diagnosed, or
// ctx is done.
func (x *explainer) diagnoseAll(ctx context.Context) {
	x.mu.Lock()
	var waitFor []chan struct{}
	for _, d := range x.objects {
		if d.notReady {
			waitFor = append(waitFor, d.diagnosed)
			x.add(d, time.Now())
		}
	}
	x.mu.Unlock()
	for _, diagnosed := range waitFor {
		select {
		case <-diagnosed:
		case <-ctx.Done():
			return
		}
	}
}

// start returns the diagnoses to start now. next is when another one is due, zero for never.
func (x *explainer) start(now time.Time) (started []target, next time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.schedule.Start(now, func(d *diagnosisState) bool { return d.notReady }) {
		started = append(started, d.target)
	}
	return started, x.schedule.Next()
}

// finish stores a finding, and reports whether it is new.
func (x *explainer) finish(t target, f run.Finding) (isNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(t)
	now := time.Now()
	x.schedule.End(&d.pace, now, f.Requests)
	isNew = d.notReady && f.Cause != "" && f.Cause != d.published.Cause && (d.published.Cause == "" || !f.Symptom) && !f.Over(d.pods, now)
	if isNew {
		d.published = f
	}
	d.failure = ""
	if d.notReady && f.Degraded && !f.Over(d.pods, now) {
		d.failure = f.Cause
	}
	x.add(d, d.pace.NextQuiet(now))
	x.wakeUp() // another diagnosis may start
	return isNew
}
