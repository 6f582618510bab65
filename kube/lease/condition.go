package lease

import "time"

// condition is what a run knows of the Lease that it took.
type condition int

const (
	// held: it was renewed, and nobody else can have it before its duration is over.
	held condition = iota
	// forbidden: the user has no rights on Leases any more. As where there never were any, the records of
	// the release alone tell of somebody else (R51).
	forbidden
	// moot: the namespace is being deleted, or is gone, so nobody can hold anything in it.
	moot
	// unknown: it is gone or could not be renewed in time, so that somebody else may be at work.
	unknown
	// lost: somebody else has the release.
	lost
)

// hold is a condition with its proof.
type hold struct {
	condition condition
	proved    time.Time  // when the request was sent whose answer says so
	lost      *LostError // who has the release, where it is lost
}

// mootTime is how long writes go after a namespace was seen to be going: once it is made again, somebody
// else may begin in it.
const mootTime = 3 * time.Second

// at is the condition now: what was proved too long ago is unknown.
func (h hold) at(duration time.Duration) condition {
	switch h.condition {
	case held, forbidden:
		if !within(h.proved, duration) {
			return unknown
		}
	case moot:
		if !within(h.proved, mootTime) {
			return unknown
		}
	}
	return h.condition
}

// within reports whether less than d has passed since a time. The wall clock
// counts as well: the other one stands still while the machine sleeps.
func within(since time.Time, d time.Duration) bool {
	return time.Since(since) < d && time.Now().Round(0).Sub(since.Round(0)) < d
}
