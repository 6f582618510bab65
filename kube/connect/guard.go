package connect

import (
	"context"
	"time"
)

// Guard sets a function that is called before each write: it waits until the request may be sent. With a context that
// has ended it returns at once. After an error the request is not sent.
func (w *Writes) Guard(ask func(context.Context) error) { w.guard.Store(&ask) }

// admit waits until a write may be sent.
func (w *Writes) admit(ctx context.Context) error {
	if ask := w.guard.Load(); ask != nil {
		return (*ask)(ctx)
	}
	return nil
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// enter waits until the request may be sent. No gate is held during the guard, which may send
// a request itself. After the gate the guard is asked again, because time has passed.
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
