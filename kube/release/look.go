package release

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// look is when a list of the records was requested, and when its answer arrived. stale is set if somebody else has had time
// to write since, see Waited.
type look struct {
	began, ended time.Time
	stale        bool
	now          func() time.Time // the clock
	running      sync.Mutex       // held during a look before a write
}

// maxLookAge is how old the last look may be when a write is sent, and freshLook how old if the run has waited since: groups
// that become ready within milliseconds share a look.
const (
	maxLookAge = time.Second
	freshLook  = 100 * time.Millisecond
)

// since returns how long ago a time was: the longer of what the monotonic and the wall clock say, because the first one may
// stop while the machine is suspended, and the second one may be set back.
func (l *Ledger) since(t time.Time) time.Duration {
	now := l.last.now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// Snapshots are the states of release records.
type Snapshots []snapshot

// Records lists the records of the release of a ledger, without their content.
type Records func(context.Context) (Snapshots, error)

// Look reads the state of all records. It returns a *lease.LostError if somebody else has changed them.
func (l *Ledger) Look(ctx context.Context, list Records) error {
	for {
		before, began := l.countWrites(), l.last.now()
		all, err := list(ctx)
		if err != nil {
			return fmt.Errorf("read the release records: %w", err)
		}
		if why, newer, current := l.updateAll(all, before); why != "" {
			return l.lose(why, newer)
		} else if current {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.last.began, l.last.ended = began, l.last.now()
			return l.lostErr()
		}
	}
}

func (l *Ledger) countWrites() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// Waited records that the run has waited for something, so that somebody else may have written in the meantime.
func (l *Ledger) Waited() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.stale, l.shared = true, nil
}

// Admit returns a *lease.LostError if this run must not write any more. It reads the records again if the last look is old:
// the run may also have waited inside a group, for a slow server, or while it was suspended. What remains is the time from
// that answer to the write: a record that somebody else creates in between is found by the write itself if it is the same
// revision or has the same resourceVersion.
//
// Rule R51b: a run writes nothing to a release whose newest revision it neither created nor started from.
func (l *Ledger) Admit(ctx context.Context, r Records) error {
	l.last.running.Lock()
	defer l.last.running.Unlock()
	for range 2 { // the run may be suspended during the first look; a slow server does not get a third one
		l.mu.Lock()
		old, lost := l.isOld(l.last.began), l.lostErr()
		if old {
			l.last.stale = false
		}
		l.mu.Unlock()
		if lost != nil || !old {
			return lost
		}
		if err := l.Look(ctx, r); err != nil {
			l.Waited()
			return err
		}
	}
	return nil
}

// errOldLook is the error for a write that needs another look.
var errOldLook = errors.New("the release records were read too long ago")

// Current returns an error if Admit must be called before the next write. It sends no request.
func (l *Ledger) Current() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil && l.isOld(l.last.ended) {
		return errOldLook
	}
	return l.lostErr()
}

// isOld reports whether a look of that time does not suffice for a write. Call it with mu held.
func (l *Ledger) isOld(t time.Time) bool {
	age := l.since(t)
	return age > maxLookAge || l.last.stale && age > freshLook
}
