package connect

import (
	"context"
	"time"
)

// Guard sets what is asked before a request that writes is sent, each time: it
// waits until the request may go. With a context that has ended it only says
// whether it may. An error keeps the request from being sent.
func (w *Writes) Guard(ask func(context.Context) error) { w.guard.Store(&ask) }

// admit waits until what writes may be sent.
func (w *Writes) admit(ctx context.Context) error {
	if ask := w.guard.Load(); ask != nil {
		return (*ask)(ctx)
	}
	return nil
}

// ended is a context that has.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// enter waits until the request may be sent. What guards writes may wait for a
// request of its own, so that no gate is held meanwhile; and it is asked again
// where it has become long since.
func (c *call) enter(ctx context.Context) (*pass, error) {
	if !c.writes {
		return c.t.link.enter(ctx, c.target.gate(), c.tries == 0)
	}
	for {
		if err := c.t.writes.admit(ctx); err != nil {
			return nil, err
		}
		p, err := c.t.link.enter(ctx, c.target.gate(), c.tries == 0)
		if err != nil || c.t.writes.admit(ended) == nil {
			return p, err
		}
		p.end(nothing, time.Time{}, "")
	}
}
