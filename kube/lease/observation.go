package lease

import (
	"sync"
	"time"
)

// condition is what a run knows about its Lease.
type condition int

const (
	// held: renewed; unless somebody deletes it, no other run can take it before its duration is over.
	held condition = iota
	// unavailable: the run can no longer use Leases: permission was revoked, or the cluster does not serve them. The
	// release records, and the Lease if it is still readable, show whether another run has started (R51).
	unavailable
	// namespaceGone: the namespace is being deleted or is gone, so nobody can hold a Lease in it.
	namespaceGone
	// unknown: deleted, or not renewed in time; another run may be writing.
	unknown
	// lost: another run took the lock or changed the release, or may have.
	lost
	// released: Release was called.
	released
)

// observation is the condition of a run's own Lease at one time.
type observation struct {
	condition condition
	// at is when the request behind the observation was sent. For unknown, it is still the time of the last held or
	// unavailable observation.
	at      time.Time
	lostErr *LostError // if the condition is lost
}

// namespaceGoneGrace is how long writes are allowed after the namespace was seen to be gone: another run may
// start as soon as it exists again.
const namespaceGoneGrace = 3 * time.Second

// conditionAt returns the condition at a later time. Observations expire.
func (o observation) conditionAt(now time.Time, duration time.Duration) condition {
	switch o.condition {
	case held, unavailable:
		if !within(o.at, now, duration) {
			return unknown
		}
	case namespaceGone:
		if !within(o.at, now, namespaceGoneGrace) {
			return unknown
		}
	}
	return o.condition
}

// within reports whether less than d has passed from since to now, by the wall clock and, if since has a monotonic reading,
// by the monotonic clock. It takes both: the monotonic clock stops while the machine is suspended, and the wall clock can
// be set back.
func within(since, now time.Time, d time.Duration) bool {
	return now.Sub(since) < d && now.Round(0).Sub(since.Round(0)) < d
}

// latestObservation holds the latest observation. Acquire, renewals and Release set it; Guard waits for it to change.
type latestObservation struct {
	mu      sync.Mutex
	value   observation
	changed chan struct{} // closed when value changes
}

func (l *latestObservation) set(o observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = o
	close(l.changed)
	l.changed = make(chan struct{})
}

// get returns the latest observation, and a channel that is closed when it changes.
func (l *latestObservation) get() (observation, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.changed
}

// lastCondition returns the condition as last observed, even if it has expired.
func (l *latestObservation) lastCondition() condition {
	o, _ := l.get()
	return o.condition
}
