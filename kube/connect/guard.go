package connect

import (
	"context"
	"time"
)

// SetGuard sets a function that each write calls first. The function waits until the write may be sent; if its context has
// ended, it decides at once. If it returns an error, the write is not sent.
func (w *Writes) SetGuard(wait func(context.Context) error) { w.guard.Store(&wait) }

// admit waits until a write may be sent.
func (w *Writes) admit(ctx context.Context) error {
	if wait := w.guard.Load(); wait != nil {
		return (*wait)(ctx)
	}
	return nil
}

// canceled is a context that has ended: with it, a guard does not wait.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// enter waits until the request may be sent. It holds no pass while the guard waits, because the guard may send requests
// itself. After it has waited for the gates, it asks the guard again.
func (c *call) enter(ctx context.Context) (*pass, error) {
	if !c.writes {
		return c.t.link.enter(ctx, c.target.gate(), c.tries == 0)
	}
	for {
		if err := c.t.writes.admit(ctx); err != nil {
			return nil, err
		}
		p, err := c.t.link.enter(ctx, c.target.gate(), c.tries == 0)
		if err != nil || c.t.writes.admit(canceled) == nil {
			return p, err
		}
		p.end(inconclusive, time.Time{}, "")
	}
}
