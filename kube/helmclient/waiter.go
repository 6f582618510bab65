package helmclient

import (
	"context"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
)

// GetWaiter returns the waiter of a strategy.
func (c *Client) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return c.GetWaiterWithOptions(ws)
}

// GetWaiterWithOptions returns a waiter that skips objects that the engine has waited for.
func (c *Client) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return &waiter{c: c, strategy: ws, opts: opts}, nil
}

// waiter waits for hooks and for objects that were passed to Helm's client.
type waiter struct {
	c        *Client
	strategy helmkube.WaitStrategy
	opts     []helmkube.WaitOption
}

var _ helmkube.Waiter = (*waiter)(nil)

// inner returns Helm's waiter with the client's context.
func (w *waiter) inner() (helmkube.Waiter, error) {
	ws := w.strategy
	if ws == WaitOrdered {
		ws = helmkube.StatusWatcherStrategy
	}
	return w.c.cfg.Inner.GetWaiterWithOptions(ws, append(w.opts, helmkube.WithWaitContext(w.c.cfg.Context))...)
}

// Wait waits for a list. It returns at once for objects of the release, which the engine has
// waited for, except with --wait=legacy.
func (w *waiter) Wait(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(list, timeout, helmkube.Waiter.Wait)
}

// WaitWithJobs is like Wait, and also waits until Jobs are complete, as the engine does.
func (w *waiter) WaitWithJobs(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(list, timeout, helmkube.Waiter.WaitWithJobs)
}

func (w *waiter) wait(list helmkube.ResourceList, timeout time.Duration, f func(helmkube.Waiter, helmkube.ResourceList, time.Duration) error) error {
	if w.c.builder().Ours(list) && w.c.cfg.Options.Wait != helmkube.LegacyStrategy || len(list) == 0 {
		return nil
	}
	inner, err := w.inner()
	if err != nil {
		return err
	}
	return f(inner, list, timeout)
}

// WaitForDelete waits until a list is gone. It returns at once for objects of the release,
// which the engine has waited for.
func (w *waiter) WaitForDelete(list helmkube.ResourceList, timeout time.Duration) error {
	if len(list) == 0 {
		return nil
	}
	if unit := w.c.hooks.queue.of(list); unit != nil {
		ctx := w.c.cfg.Context
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return w.c.cfg.Session.AwaitGone(ctx, withNames(list, unit.list))
	}
	if w.c.builder().Ours(list) {
		return nil
	}
	inner, err := w.inner()
	if err != nil {
		return err
	}
	return inner.WaitForDelete(list, timeout)
}

// WatchUntilReady waits for a hook.
func (w *waiter) WatchUntilReady(list helmkube.ResourceList, timeout time.Duration) error {
	if len(list) == 0 {
		return nil
	}
	if unit := w.c.hooks.queue.of(list); unit != nil {
		return w.c.hooks.wait(unit)
	}
	inner, err := w.inner()
	if err != nil {
		return err
	}
	return inner.WatchUntilReady(list, timeout)
}
