package status

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

// stream mirrors the objects of one streamKey and reports them to its
// subscriptions. One goroutine, run, owns the mirror; a source in another one
// feeds it. So no lock is held during a report.
type stream struct {
	w      *Watcher
	key    streamKey
	cancel context.CancelFunc
	source *source
	deltas chan delta
	wake   chan struct{} // a subscription has joined or left

	mu           sync.Mutex
	came, leaves []*subscription // joined and left, not yet handled by run
	wanted       map[string]int  // how many subscriptions each name has
	subs         int

	// The rest belongs to run.
	objects map[string]*unstructured.Unstructured // by name
	watched map[string][]*watched                 // by name
	timed   map[*watched]bool                     // those with a due time
	synced  bool                                  // objects is a complete list
	version uint64                                // of the last complete list
}

// subscription is the part of one call of Watch that concerns one stream.
type subscription struct {
	ctx     context.Context
	report  func(run.Observation)
	objects []*watched
}

// watched is an object that a subscription is about.
type watched struct {
	sub    *subscription
	target Target
	last   run.Observation // the last report; Status is "" before the first
	due    time.Time       // when to compute again; zero for never
}

func (o *watched) name() string { return o.target.Object.Name }

// delta is a change that a source reports.
type delta struct {
	// complete means that list replaces all objects.
	complete bool
	list     []*unstructured.Unstructured
	// put is an object that exists, gone the name of one that does not.
	put  *unstructured.Unstructured
	gone string
	// version goes with complete and gone.
	version uint64
	// unseen is the name of an object that cannot be read, why the reason.
	unseen, why string
}

func newStream(w *Watcher, key streamKey, cancel context.CancelFunc) *stream {
	s := &stream{w: w, key: key, cancel: cancel,
		deltas: make(chan delta), wake: make(chan struct{}, 1),
		wanted:  map[string]int{},
		objects: map[string]*unstructured.Unstructured{},
		watched: map[string][]*watched{},
		timed:   map[*watched]bool{}}
	s.source = newSource(s)
	return s
}

// join adds a subscription; run reports the present state to it.
func (s *stream) join(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs++
	s.came = append(s.came, sub)
	for _, o := range sub.objects {
		s.wanted[o.name()]++
	}
	nudge(s.wake)
	nudge(s.source.wake)
}

// leave removes a subscription and returns how many are left.
func (s *stream) leave(sub *subscription) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs--
	s.leaves = append(s.leaves, sub)
	for _, o := range sub.objects {
		if s.wanted[o.name()]--; s.wanted[o.name()] == 0 {
			delete(s.wanted, o.name())
		}
	}
	nudge(s.wake)
	return s.subs
}

// names lists the objects with a subscription, in no order.
func (s *stream) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.wanted))
	for n := range s.wanted {
		names = append(names, n)
	}
	return names
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *stream) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.deltas:
			s.take(d)
		case <-s.wake:
			s.welcome()
		case now := <-timer.C:
			for o := range s.timed {
				if !o.due.After(now) {
					s.look(o)
				}
			}
		}
		s.arm(timer)
	}
}

// arm sets the timer for the object that is due next.
func (s *stream) arm(timer *time.Timer) {
	timer.Stop()
	var next time.Time
	for o := range s.timed {
		if next.IsZero() || o.due.Before(next) {
			next = o.due
		}
	}
	if !next.IsZero() {
		timer.Reset(time.Until(next))
	}
}

// welcome handles subscriptions that have joined or left.
func (s *stream) welcome() {
	s.mu.Lock()
	came, leaves := s.came, s.leaves
	s.came, s.leaves = nil, nil
	s.mu.Unlock()
	for _, sub := range came {
		for _, o := range sub.objects {
			s.watched[o.name()] = append(s.watched[o.name()], o)
			s.look(o)
		}
	}
	for _, sub := range leaves {
		for _, o := range sub.objects {
			s.forget(o)
		}
	}
}

func (s *stream) forget(o *watched) {
	delete(s.timed, o)
	list := s.watched[o.name()]
	for i, have := range list {
		if have == o {
			s.watched[o.name()] = append(list[:i:i], list[i+1:]...)
		}
	}
	if len(s.watched[o.name()]) == 0 {
		delete(s.watched, o.name())
	}
}

// take applies a delta to the mirror and looks at the objects that changed.
func (s *stream) take(d delta) {
	switch {
	case d.complete:
		s.objects = make(map[string]*unstructured.Unstructured, len(d.list))
		for _, u := range d.list {
			s.objects[u.GetName()] = u
		}
		s.synced, s.version = true, d.version
		for _, list := range s.watched {
			for _, o := range list {
				s.look(o)
			}
		}
	case d.put != nil:
		s.objects[d.put.GetName()] = d.put
		for _, o := range s.watched[d.put.GetName()] {
			s.look(o)
		}
	case d.gone != "":
		delete(s.objects, d.gone)
		for _, o := range s.watched[d.gone] {
			s.missing(o, d.version)
		}
	case d.unseen != "":
		for _, o := range s.watched[d.unseen] {
			o.tell(run.Observation{Status: event.InProgress, Message: d.why})
		}
	}
}

// look computes the status of an object and reports it if it is new.
func (s *stream) look(o *watched) {
	u := s.objects[o.name()]
	if u == nil {
		if s.synced {
			s.missing(o, s.version)
		}
		return
	}
	now := time.Now()
	r := Compute(u, o.target.Rule, now)
	if r.Recheck > 0 {
		o.due = now.Add(r.Recheck)
		s.timed[o] = true
	} else {
		delete(s.timed, o)
	}
	s.w.doubts(o.target.Object, r.Doubts)
	o.tell(r.Observation)
}

func (s *stream) missing(o *watched, version uint64) {
	delete(s.timed, o)
	o.tell(run.Observation{Status: event.Gone, Version: version})
}

// tell reports an observation unless it equals the last one.
func (o *watched) tell(seen run.Observation) {
	seen.Object = o.target.Object
	if seen == o.last || o.sub.ctx.Err() != nil {
		return
	}
	o.last = seen
	o.sub.report(seen)
}
