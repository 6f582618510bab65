package status

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

// stream mirrors the objects of one streamKey and reports them to its subscriptions. run owns the mirror, and a source
// feeds it from another goroutine, so that a report holds no lock of the stream or the Hub.
type stream struct {
	hub    *Hub
	key    streamKey
	cancel context.CancelFunc
	source *source
	deltas chan delta
	wake   chan struct{} // a subscription joined or left
	ended  chan struct{} // closed when run has returned
	streamUse
	subscribers
	contents
}

// streamUse is guarded by the Hub's lock.
type streamUse struct {
	users map[*Watcher]bool // open Watchers that have used it
	idle  *time.Timer       // ends the stream once it has no users
	// The problems that limit watching, or "".
	permanentProblem, temporaryProblem string
}

// contents are the mirror and the watched objects in it. Only run uses them.
type contents struct {
	objects map[types.NamespacedName]*unstructured.Unstructured
	watched map[types.NamespacedName][]*watched
	timed   map[*watched]bool // objects with a due time
	waiting map[*watched]bool // missing objects that may exist after all, see outdated
	synced  bool              // objects is a complete list
	version uint64            // of the last complete list
	seen    uint64            // latest version from the server
}

// watched is an object of a subscription.
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
	// put is an existing object, gone the name of a missing one.
	put  *unstructured.Unstructured
	gone types.NamespacedName
	// version is that of a complete list or of a deletion. Without either, nothing has changed up to this version.
	version uint64
	// again means that something outside the mirror has changed, so that all watched objects are computed again.
	again bool
	// looked means that this object alone was read: the watch may be behind.
	looked bool
	// unreadable is the name of an object that cannot be read, why the reason.
	unreadable types.NamespacedName
	why        string
}

func newStream(h *Hub, key streamKey, cancel context.CancelFunc) *stream {
	s := &stream{hub: h, key: key, cancel: cancel,
		deltas: make(chan delta), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		streamUse:   streamUse{users: map[*Watcher]bool{}},
		subscribers: subscribers{subs: map[*subscription]bool{}, wanted: map[types.NamespacedName]int{}},
		contents: contents{
			objects: map[types.NamespacedName]*unstructured.Unstructured{}, watched: map[types.NamespacedName][]*watched{},
			timed: map[*watched]bool{}, waiting: map[*watched]bool{},
		}}
	s.source = newSource(s)
	return s
}

// id returns the key of an object: its name, and its namespace if the stream covers several.
func (s *stream) id(namespace, name string) types.NamespacedName {
	if !s.key.wide {
		namespace = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (s *stream) objectID(u *unstructured.Unstructured) types.NamespacedName {
	return s.id(u.GetNamespace(), u.GetName())
}

func (s *stream) targetID(t Target) types.NamespacedName {
	return s.id(t.Object.Namespace, t.Object.Name)
}

// addUser adds a Watcher to the users of the stream. It returns the problems that limit watching, unless the Watcher
// already knows them. The caller holds the Hub's lock.
func (s *stream) addUser(w *Watcher) (problems []string) {
	if s.users[w] {
		return nil
	}
	if s.users[w] = true; s.idle != nil {
		s.idle.Stop()
	}
	return slices.DeleteFunc([]string{s.permanentProblem, s.temporaryProblem}, func(text string) bool { return text == "" })
}

// notice tells all users about a permanent or temporary problem that limits watching.
func (s *stream) notice(text string, permanent bool) {
	s.hub.mu.Lock()
	if permanent {
		s.permanentProblem = text
	} else {
		s.temporaryProblem = text
	}
	users := slices.Collect(maps.Keys(s.users))
	s.hub.mu.Unlock()
	for _, w := range users {
		w.notice(text)
	}
}

// recovered removes the temporary problem.
func (s *stream) recovered() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.temporaryProblem = ""
}

// signal puts a token into a channel of capacity 1, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run handles deltas, subscriptions and due objects until ctx is done.
func (s *stream) run(ctx context.Context) {
	defer close(s.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.deltas:
			s.apply(d)
		case <-s.wake:
			s.handleSubscriptions()
		case now := <-timer.C:
			for o := range s.timed {
				if !o.due.After(now) {
					s.refresh(o)
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

// handleSubscriptions starts to report to subscriptions that have joined, and forgets those that have left.
func (s *stream) handleSubscriptions() {
	s.mu.Lock()
	joining, leaving := s.joining, s.leaving
	s.joining, s.leaving = nil, nil
	s.mu.Unlock()
	for _, sub := range joining {
		for _, o := range sub.objects {
			id := s.targetID(o.target)
			s.watched[id] = append(s.watched[id], o)
			s.refresh(o)
		}
	}
	for _, sub := range leaving {
		for _, o := range sub.objects {
			s.forget(o)
		}
	}
}

func (s *stream) forget(o *watched) {
	delete(s.timed, o)
	delete(s.waiting, o)
	id := s.targetID(o.target)
	s.watched[id] = slices.DeleteFunc(s.watched[id], func(other *watched) bool { return other == o })
	if len(s.watched[id]) == 0 {
		delete(s.watched, id)
	}
}

// apply applies a delta to the mirror and refreshes the objects that changed.
func (s *stream) apply(d delta) {
	if !d.looked {
		s.seen = max(s.seen, d.version)
	}
	switch {
	case d.complete:
		s.objects = make(map[types.NamespacedName]*unstructured.Unstructured, len(d.list))
		for _, u := range d.list {
			s.objects[s.objectID(u)] = u
		}
		s.synced, s.version = true, d.version
		for _, list := range s.watched {
			for _, o := range list {
				s.refresh(o)
			}
		}
	case d.put != nil:
		id, version := s.objectID(d.put), ParseVersion(d.put.GetResourceVersion())
		if !d.looked {
			s.seen = max(s.seen, version)
		}
		if s.isOld(id, version) {
			return
		}
		s.objects[id] = d.put
		for _, o := range s.watched[id] {
			s.refresh(o)
		}
	case s.isOld(d.gone, d.version):
		return
	case d.gone.Name != "":
		delete(s.objects, d.gone)
		for _, o := range s.watched[d.gone] {
			s.reportGone(o, d.version)
		}
	case d.again:
		for _, list := range s.watched {
			for _, o := range list {
				s.refresh(o)
			}
		}
	case d.unreadable.Name != "":
		for _, o := range s.watched[d.unreadable] {
			o.report(run.Observation{Status: event.InProgress, Message: d.why})
		}
	}
	for o := range s.waiting {
		s.refresh(o)
	}
}

// isOld reports whether the mirror has a newer state of an object: a look was ahead of the watch, or behind it.
func (s *stream) isOld(id types.NamespacedName, version uint64) bool {
	known := s.objects[id]
	return known != nil && version > 0 && version < ParseVersion(known.GetResourceVersion())
}

// refresh computes the status of an object and reports it if it has changed.
func (s *stream) refresh(o *watched) {
	u, now := s.objects[s.targetID(o.target)], time.Now()
	if u == nil {
		switch {
		case !s.synced:
		case s.outdated(o, now):
			s.waiting[o], s.timed[o] = true, true
		default:
			s.reportGone(o, s.version)
		}
		return
	}
	delete(s.waiting, o)
	rule := o.target.Rule
	rule.LateBinding = s.hub.bindsLate(u, s.recompute)
	r := Compute(u, rule, now)
	if r.Recheck > 0 {
		o.due = now.Add(r.Recheck)
		s.timed[o] = true
	} else {
		delete(s.timed, o)
	}
	o.sub.watcher.reportDoubts(o.target.Object, r.Doubts)
	o.sub.watcher.reportUnreadable(o.target.Object, r.Unreadable)
	if o.target.Judge != nil {
		o.target.Judge(u, &r.Observation)
	}
	o.report(r.Observation)
}

// recompute makes run compute all watched objects again.
func (s *stream) recompute() {
	select {
	case s.deltas <- delta{again: true}:
	case <-s.ended:
	}
}

// maxBookmarkDelay is the longest time until the API server sends a bookmark in a watch without events. It sends one about
// every minute.
const maxBookmarkDelay = 90 * time.Second

// outdated reports whether an object may be missing only because the mirror is older than Target.Existed. The first call
// makes the object due after maxBookmarkDelay; from then on the answer is no.
func (s *stream) outdated(o *watched, now time.Time) bool {
	if o.sub.first || s.version == 0 || s.seen >= o.target.Existed {
		return false
	}
	if !s.timed[o] {
		o.due = now.Add(maxBookmarkDelay)
	}
	return now.Before(o.due)
}

// reportGone reports that an object does not exist.
func (s *stream) reportGone(o *watched, version uint64) {
	delete(s.timed, o)
	delete(s.waiting, o)
	o.report(run.Observation{Status: event.Gone, Version: version})
}

// report reports an observation unless it equals the last one.
func (o *watched) report(ob run.Observation) {
	ob.Object = o.target.Object
	if ob.Equal(o.last) || o.sub.ctx.Err() != nil {
		return
	}
	o.last = ob
	o.sub.watcher.report(func() { o.sub.report(ob) })
}
