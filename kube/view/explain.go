package view

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// explainer tells why objects are not ready: at the first sign of trouble and at
// further ones, as the run of an operation does, and where there are none, after a
// while.
type explainer struct {
	mu      sync.Mutex
	objects map[plan.Object]*looks
	wake    chan struct{} // holds a token where something has become due
}

// unwell is an object of a unit that is not ready.
type unwell struct {
	event.Unit
	object plan.Object
}

// looks are those at one object.
type looks struct {
	of   unwell
	pace run.Pace
	bad  bool
	due  time.Time // zero for never
	busy bool
	told string
	why  string // what it fails of, where waiting alone does not mend it
	// once is closed when a look has been told of.
	once chan struct{}
}

const (
	// explainAt is how many objects are looked into at a time, patience how long is
	// waited for a sign.
	explainAt = 4
	patience  = time.Second
	// lookTime is how long a look may take.
	lookTime = 5 * time.Second
)

func newExplainer() explainer {
	return explainer{objects: map[plan.Object]*looks{}, wake: make(chan struct{}, 1)}
}

// sign takes in that something is wrong with an object.
func (x *explainer) sign(of unwell) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.at(of)
	x.plan(l, time.Now())
}

// saw takes in what an object looks like, and returns what it is known to fail of.
func (x *explainer) saw(of unwell, bad bool) (why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.at(of)
	was := l.bad
	l.bad = bad
	switch {
	case !bad:
		l.due, l.told, l.why = time.Time{}, "", ""
	case !was:
		x.plan(l, time.Now().Add(patience))
	}
	return l.why
}

func (x *explainer) at(of unwell) *looks {
	l := x.objects[of.object]
	if l == nil {
		l = &looks{once: make(chan struct{})}
		x.objects[of.object] = l
	}
	l.of = of
	return l
}

// plan plans a look; of two the first counts.
func (x *explainer) plan(l *looks, at time.Time) {
	at = l.pace.Next(at)
	if !l.bad || !l.due.IsZero() && !at.Before(l.due) {
		return
	}
	l.due = at
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// run looks into what is due until ctx ends.
func (x *explainer) run(ctx context.Context, diagnose func(context.Context, plan.Object) run.Finding, tell func(unwell, run.Finding)) {
	var under sync.WaitGroup
	defer under.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		case <-timer.C:
		}
		due, next := x.take(time.Now())
		for _, of := range due {
			under.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, lookTime)
				defer cancel()
				found := diagnose(ctx, of.object)
				if ctx.Err() != nil {
					found = run.Finding{}
				}
				if x.found(of, found) {
					tell(of, found)
				}
				x.looked(of)
			})
		}
		timer.Reset(max(time.Until(next), 0))
	}
}

// looked takes in that what a look has found has been told.
func (x *explainer) looked(of unwell) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.at(of).once:
	default:
		close(x.at(of).once)
	}
}

// settle looks without waiting for a sign into what is not ready now, and returns when
// each of that has been looked into once, or ctx ends.
func (x *explainer) settle(ctx context.Context) {
	x.mu.Lock()
	var looks []chan struct{}
	for _, l := range x.objects {
		if l.bad {
			looks = append(looks, l.once)
			x.plan(l, time.Now())
		}
	}
	x.mu.Unlock()
	for _, once := range looks {
		select {
		case <-once:
		case <-ctx.Done():
			return
		}
	}
}

// take begins the looks that are due, as far as may be, the ones that have waited
// longest first, and says when the next one is.
func (x *explainer) take(now time.Time) (begun []unwell, next time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next = now.Add(time.Hour)
	busy := 0
	var due []*looks
	for _, l := range x.objects {
		switch {
		case l.busy:
			busy++
		case l.due.IsZero():
		case l.due.After(now):
			next = earlier(next, l.due)
		default:
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b *looks) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return a.of.object.Compare(b.of.object)
	})
	for _, l := range due[:min(len(due), max(explainAt-busy, 0))] { // the others when one of these is over
		l.busy, l.due = true, time.Time{}
		l.pace.Begin(now)
		begun = append(begun, l.of)
	}
	return begun, next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// found takes in what a look has found, and reports whether that is news.
func (x *explainer) found(of unwell, f run.Finding) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.at(of)
	now := time.Now()
	l.busy = false
	l.pace.Spend(now, f.Requests)
	news := l.bad && f.Cause != "" && f.Cause != l.told && (l.told == "" || !f.Symptom)
	if news {
		l.told = f.Cause
	}
	l.why = ""
	if l.bad && f.Fails {
		l.why = f.Cause
	}
	if l.due.IsZero() || l.due.After(now) {
		x.plan(l, l.pace.Later(now))
	}
	select { // there is a free place
	case x.wake <- struct{}{}:
	default:
	}
	return news
}
