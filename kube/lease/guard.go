package lease

import (
	"context"
	"fmt"
	"time"
)

// Lost returns a channel that is closed when the lock is lost; Err says why.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err returns a *LostError if the lock is lost.
func (l *Lease) Err() error {
	if o, _ := l.latest.get(); o.condition == lost {
		return o.lostErr
	}
	return nil
}

// Guard returns nil if the run may write: it holds the lock, or continues without it. While that is unknown, for
// example after an outage, or after the machine was suspended, Guard requests a renewal and waits for it. It returns an
// error once the lock is lost or released, or if ctx ends while it waits.
//
// Rule R51a: a run that may have lost its release writes nothing.
func (l *Lease) Guard(ctx context.Context) error {
	for {
		o, changed := l.latest.get()
		switch o.conditionAt(time.Now(), l.duration) {
		case held, unavailable, namespaceGone:
			return nil
		case lost:
			return o.lostErr
		case released:
			return fmt.Errorf("this run already released its lock on release %s in namespace %s", l.params.Release, l.params.Namespace)
		}
		select {
		case l.renewNow <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
