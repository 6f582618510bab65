package view

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// explainer diagnoses objects that are not ready: at each sign of trouble, or after a delay
// without one, like package run.
type explainer struct {
	mu      sync.Mutex
	objects map[plan.Object]*diagnoses
	wake    chan struct{} // has a token if a diagnosis may be due
}

// target is an object to diagnose.
type target struct {
	event.Unit
	object plan.Object
}

// diagnoses is the state of the diagnoses of one object.
type diagnoses struct {
	target    target
	pace      run.Pace
	notReady  bool
	due       time.Time // zero for never
	running   bool
	published string        // cause
	failure   string        // cause, if waiting does not help
	once      chan struct{} // closed after the first diagnosis
}

const (
	maxDiagnoses = 4               // at the same time
	signDelay    = time.Second     // without a sign of trouble
	diagnoseTime = 5 * time.Second // of one diagnosis
)

func newExplainer() explainer {
	return explainer{objects: map[plan.Object]*diagnoses{}, wake: make(chan struct{}, 1)}
}

// sign schedules a diagnosis because something is wrong with an object.
func (x *explainer) sign(t target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.schedule(x.get(t), time.Now())
}

// observe records whether an object is ready, and returns why it fails, if that is known.
func (x *explainer) observe(t target, notReady bool) (failure string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(t)
	before := d.notReady
	d.notReady = notReady
	switch {
	case !notReady:
		d.due, d.published, d.failure = time.Time{}, "", ""
	case !before:
		x.schedule(d, time.Now().Add(signDelay))
	}
	return d.failure
}

func (x *explainer) get(t target) *diagnoses {
	d := x.objects[t.object]
	if d == nil {
		d = &diagnoses{once: make(chan struct{})}
		x.objects[t.object] = d
	}
	d.target = t
	return d
}

// schedule schedules a diagnosis, unless there is an earlier one.
func (x *explainer) schedule(d *diagnoses, at time.Time) {
	at = d.pace.Next(at)
	if !d.notReady || !d.due.IsZero() && !at.Before(d.due) {
		return
	}
	d.due = at
	x.wakeUp()
}

func (x *explainer) wakeUp() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// run diagnoses objects when they are due, until ctx ends. It calls publish for each new
// finding.
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
				ctx, cancel := context.WithTimeout(ctx, diagnoseTime)
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
		timer.Reset(max(time.Until(next), 0))
	}
}

// markDone records that a finding was published.
func (x *explainer) markDone(t target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.get(t).once:
	default:
		close(x.get(t).once)
	}
}

// diagnoseAll diagnoses all objects that are not ready without delay. It returns when each was
// diagnosed at least once, or when ctx is done.
func (x *explainer) diagnoseAll(ctx context.Context) {
	x.mu.Lock()
	var waitFor []chan struct{}
	for _, d := range x.objects {
		if d.notReady {
			waitFor = append(waitFor, d.once)
			x.schedule(d, time.Now())
		}
	}
	x.mu.Unlock()
	for _, once := range waitFor {
		select {
		case <-once:
		case <-ctx.Done():
			return
		}
	}
}

// start starts the diagnoses that are due, longest overdue first, as far as the limit
// allows. next is when the next one is due.
func (x *explainer) start(now time.Time) (started []target, next time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next = now.Add(time.Hour)
	running := 0
	var due []*diagnoses
	for _, d := range x.objects {
		switch {
		case d.running:
			running++
		case d.due.IsZero():
		case !d.due.After(now):
			due = append(due, d)
		case d.due.Before(next):
			next = d.due
		}
	}
	slices.SortFunc(due, func(a, b *diagnoses) int {
		return cmp.Or(a.due.Compare(b.due), a.target.object.Compare(b.target.object))
	})
	for _, d := range due[:min(len(due), max(maxDiagnoses-running, 0))] {
		d.running, d.due = true, time.Time{}
		d.pace.Start(now)
		started = append(started, d.target)
	}
	return started, next
}

// finish stores a finding, and reports whether it is new.
func (x *explainer) finish(t target, f run.Finding) (isNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.get(t)
	now := time.Now()
	d.running = false
	d.pace.AddCost(now, f.Requests)
	isNew = d.notReady && f.Cause != "" && f.Cause != d.published && (d.published == "" || !f.Symptom)
	if isNew {
		d.published = f.Cause
	}
	d.failure = ""
	if d.notReady && f.Fails {
		d.failure = f.Cause
	}
	if d.due.IsZero() || d.due.After(now) {
		x.schedule(d, d.pace.NextQuiet(now))
	}
	x.wakeUp() // another diagnosis may start
	return isNew
}
