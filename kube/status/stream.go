package status

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

// stream mirrors the objects of one streamKey and reports them to its
// subscriptions. One goroutine, run, owns the mirror; a source in another one
// feeds it. So no lock is held during a report.
type stream struct {
	hub    *Hub
	key    streamKey
	cancel context.CancelFunc
	source *source
	deltas chan delta
	wake   chan struct{} // a subscription joined or left
	ended  chan struct{} // closed when run has returned

	// These belong to the Hub and its lock.
	users   map[*Watcher]bool // Watchers that used it and are not closed
	idle    *time.Timer       // ends the stream once it has no users
	limit   string            // permanent limit on watching, "" for none
	trouble string            // current limit, "" for none

	mu           sync.Mutex
	came, leaves []*subscription // joined and left, not yet handled by run
	subs         map[*subscription]bool
	wanted       map[types.NamespacedName]int // subscriptions by object

	// The rest belongs to run.
	objects map[types.NamespacedName]*unstructured.Unstructured
	watched map[types.NamespacedName][]*watched
	timed   map[*watched]bool // those with a due time
	waiting map[*watched]bool // objects not seen yet, before a complete list
	synced  bool              // objects is a complete list
	version uint64            // of the last complete list
	seen    uint64            // latest version reported by the server
}

// subscription is the part of one call of Watch that concerns one stream.
type subscription struct {
	watcher *Watcher
	ctx     context.Context
	report  reporter
	first   bool // the stream has been started for it, so that nothing it has seen is older
	objects []*watched
}

// watched is an object that a subscription is about.
type watched struct {
	sub    *subscription
	target Target
	last   run.Observation // the last report; Status is "" before the first
	due    time.Time       // when to compute again; zero for never
}

// delta is a change that a source reports.
type delta struct {
	// complete means that list replaces all objects.
	complete bool
	list     []*unstructured.Unstructured
	// put is an object that exists, gone the name of one that does not.
	put  *unstructured.Unstructured
	gone types.NamespacedName
	// version goes with complete and gone; alone it means that nothing else has
	// happened until then.
	version uint64
	// unseen is the name of an object that cannot be read, why the reason.
	unseen types.NamespacedName
	why    string
}

func newStream(h *Hub, key streamKey, cancel context.CancelFunc) *stream {
	s := &stream{hub: h, key: key, cancel: cancel,
		deltas: make(chan delta), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		users: map[*Watcher]bool{}, subs: map[*subscription]bool{},
		wanted:  map[types.NamespacedName]int{},
		objects: map[types.NamespacedName]*unstructured.Unstructured{},
		watched: map[types.NamespacedName][]*watched{},
		timed:   map[*watched]bool{}, waiting: map[*watched]bool{}}
	s.source = newSource(s)
	return s
}

// id returns what an object is known by: its name, and its namespace where the stream is
// of several.
func (s *stream) id(namespace, name string) types.NamespacedName {
	if !s.key.wide {
		namespace = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (s *stream) idOf(u *unstructured.Unstructured) types.NamespacedName {
	return s.id(u.GetNamespace(), u.GetName())
}

func (s *stream) idOfTarget(o *watched) types.NamespacedName {
	return s.id(o.target.Object.Namespace, o.target.Object.Name)
}

// use notes who watches something by the stream, and returns what limits that, for
// one who does not know yet. The caller holds the Hub's lock.
func (s *stream) use(w *Watcher) (limits []string) {
	if s.users[w] {
		return nil
	}
	if s.users[w] = true; s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	for _, text := range []string{s.limit, s.trouble} {
		if text != "" {
			limits = append(limits, text)
		}
	}
	return limits
}

// notice tells all users what limits watching, for good or at present.
func (s *stream) notice(text string, forGood bool) {
	s.hub.mu.Lock()
	if forGood {
		s.limit = text
	} else {
		s.trouble = text
	}
	users := slices.Collect(maps.Keys(s.users))
	s.hub.mu.Unlock()
	for _, w := range users {
		w.notice(text)
	}
}

// recovered notes that nothing limits watching any more that was told.
func (s *stream) recovered() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.trouble = ""
}

// join adds a subscription; run reports the present state to it.
func (s *stream) join(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[sub] = true
	s.came = append(s.came, sub)
	for _, o := range sub.objects {
		s.wanted[s.idOfTarget(o)]++
	}
	nudge(s.wake)
	nudge(s.source.wake)
}

// leave removes a subscription and returns how many are left.
func (s *stream) leave(sub *subscription) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
	s.leaves = append(s.leaves, sub)
	for _, o := range sub.objects {
		id := s.idOfTarget(o)
		if s.wanted[id]--; s.wanted[id] == 0 {
			delete(s.wanted, id)
		}
	}
	nudge(s.wake)
	return len(s.subs)
}

// subscriptions returns those that have joined and not left.
func (s *stream) subscriptions() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.subs))
}

// names lists the objects with a subscription, in no order.
func (s *stream) names() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.wanted))
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *stream) run(ctx context.Context) {
	defer close(s.ended)
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
			id := s.idOfTarget(o)
			s.watched[id] = append(s.watched[id], o)
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
	delete(s.waiting, o)
	id := s.idOfTarget(o)
	list := s.watched[id]
	for i, have := range list {
		if have == o {
			s.watched[id] = append(list[:i:i], list[i+1:]...)
		}
	}
	if len(s.watched[id]) == 0 {
		delete(s.watched, id)
	}
}

// take applies a delta to the mirror and looks at the objects that changed.
func (s *stream) take(d delta) {
	s.seen = max(s.seen, d.version)
	switch {
	case d.complete:
		s.objects = make(map[types.NamespacedName]*unstructured.Unstructured, len(d.list))
		for _, u := range d.list {
			s.objects[s.idOf(u)] = u
		}
		s.synced, s.version = true, d.version
		for _, list := range s.watched {
			for _, o := range list {
				s.look(o)
			}
		}
	case d.put != nil:
		s.seen = max(s.seen, versionOf(d.put.GetResourceVersion()))
		s.objects[s.idOf(d.put)] = d.put
		for _, o := range s.watched[s.idOf(d.put)] {
			s.look(o)
		}
	case d.gone.Name != "":
		delete(s.objects, d.gone)
		for _, o := range s.watched[d.gone] {
			s.missing(o, d.version)
		}
	case d.unseen.Name != "":
		for _, o := range s.watched[d.unseen] {
			o.tell(run.Observation{Status: event.InProgress, Message: d.why})
		}
	}
	for o := range s.waiting {
		s.look(o)
	}
}

// look computes the status of an object and reports it if it is new.
func (s *stream) look(o *watched) {
	delete(s.waiting, o)
	u, now := s.objects[s.idOfTarget(o)], time.Now()
	if u == nil {
		switch {
		case !s.synced:
		case s.outdated(o, now):
			s.waiting[o], s.timed[o] = true, true
		default:
			s.missing(o, s.version)
		}
		return
	}
	r := Compute(u, o.target.Rule, now)
	if r.Recheck > 0 {
		o.due = now.Add(r.Recheck)
		s.timed[o] = true
	} else {
		delete(s.timed, o)
	}
	o.sub.watcher.doubts(o.target.Object, r.Doubts)
	o.tell(r.Observation)
}

// bookmarksWithin is how long it takes at the most until the API server tells how far a
// watch has come that nothing happens in. It does so about every minute.
const bookmarksWithin = 90 * time.Second

// outdated reports whether an object may be missing only since what was seen is older
// than what is known of it.
func (s *stream) outdated(o *watched, now time.Time) bool {
	if o.sub.first || s.version == 0 || s.seen >= o.target.Existed {
		return false
	}
	if !s.timed[o] {
		o.due = now.Add(bookmarksWithin)
	}
	return now.Before(o.due)
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
	o.sub.watcher.report(func() { o.sub.report(seen) })
}
