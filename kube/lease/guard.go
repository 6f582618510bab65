package lease

import (
	"context"
	"errors"
)

// Lost is closed when another run has the release; Err then names it.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err is a *LostError if the Lease is lost.
func (l *Lease) Err() error {
	if p, _ := l.proof.get(); p.condition == lost {
		return p.lost
	}
	return nil
}

// Rule R51a: a run that may have lost its release writes nothing
//
// Guard returns nil while the Lease is held, or the run may write without it. While
// that is unknown, for example after an outage or a suspension, it requests a renewal
// and waits for it. It returns an error if the Lease is lost or released, or ctx ends;
// if ctx has already ended it does not wait.
func (l *Lease) Guard(ctx context.Context) error {
	for over := false; ; {
		p, changed := l.proof.get()
		switch c := p.now(l.duration); {
		case c == lost:
			return p.lost
		case c != unknown:
			return nil
		case over:
			return errReleased
		}
		select {
		case l.renewNow <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-l.stopped:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errReleased = errors.New("the release was unlocked")
