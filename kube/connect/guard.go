package connect

import (
	"context"
	"time"
)

// Guard waits until a write may be sent; if its context has ended, it waits for nothing. If it returns an error, the write is
// not sent. With atOnce it sends no request: an error then means that the write must ask again.
type Guard func(ctx context.Context, atOnce bool) error

// SetGuard sets a function that each write calls first.
func (w *Writes) SetGuard(g Guard) { w.guard.Store(&g) }

// admit waits until a write may be sent.
func (w *Writes) admit(ctx context.Context, atOnce bool) error {
	if g := w.guard.Load(); g != nil {
		return (*g)(ctx, atOnce)
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
		return c.t.link.enter(ctx, c.target.gate(), c.tries == 0, c.streams)
	}
	for {
		if err := c.t.writes.admit(ctx, false); err != nil {
			return nil, err
		}
		p, err := c.t.link.enter(ctx, c.target.gate(), c.tries == 0, c.streams)
		if err != nil || c.t.writes.admit(canceled, true) == nil {
			return p, err
		}
		p.end(inconclusive, time.Time{}, "")
	}
}
