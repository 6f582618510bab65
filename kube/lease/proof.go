package lease

import (
	"sync"
	"time"
)

// condition is what a run knows about its Lease.
type condition int

const (
	// held: renewed, so nobody else can take it before its duration is over.
	held condition = iota
	// forbidden: the user no longer has rights on Leases; only the release records show other runs (R51).
	forbidden
	// namespaceGone: the namespace is being deleted or is gone, so nobody can hold a Lease in it.
	namespaceGone
	// unknown: deleted, or not renewed in time; another run may be writing.
	unknown
	// lost: another run has the release.
	lost
)

// proof is a condition and the time at which it was proved.
type proof struct {
	condition condition
	at        time.Time  // when the request that proved it was sent
	lost      *LostError // who has the release, if it is lost
}

// namespaceGoneGrace is how long writes are allowed after the namespace was seen to be gone: another run may
// start as soon as it exists again.
const namespaceGoneGrace = 3 * time.Second

// now is the current condition: proofs expire.
func (p proof) now(duration time.Duration) condition {
	switch p.condition {
	case held, forbidden:
		if !within(p.at, duration) {
			return unknown
		}
	case namespaceGone:
		if !within(p.at, namespaceGoneGrace) {
			return unknown
		}
	}
	return p.condition
}

// within reports whether less than d has passed since a time, by both clocks, because the
// monotonic clock stops while the machine is suspended.
func within(since time.Time, d time.Duration) bool {
	return time.Since(since) < d && time.Now().Round(0).Sub(since.Round(0)) < d
}

// sharedProof is the latest proof, shared by the renewals and the writes that wait for them.
type sharedProof struct {
	mu      sync.Mutex
	latest  proof
	changed chan struct{} // closed when latest changes
}

func (s *sharedProof) set(p proof) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = p
	close(s.changed)
	s.changed = make(chan struct{})
}

// get returns the latest proof, and a channel that is closed when it changes.
func (s *sharedProof) get() (proof, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.changed
}

func (s *sharedProof) condition() condition {
	p, _ := s.get()
	return p.condition
}
