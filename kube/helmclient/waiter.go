package helmclient

import (
	"context"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/run"
)

func (c *Client) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return c.GetWaiterWithOptions(ws)
}

// GetWaiterWithOptions returns a waiter that skips objects that the engine has already waited for.
func (c *Client) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return &waiter{c: c, strategy: ws, opts: opts}, nil
}

// waiter waits for hooks and, with Helm's waiter, for objects that Helm's client has written.
type waiter struct {
	c        *Client
	strategy helmkube.WaitStrategy
	opts     []helmkube.WaitOption
}

var _ helmkube.Waiter = (*waiter)(nil)

// helmStrategy replaces WaitOrdered, which Helm does not have, with watcher.
func helmStrategy(ws helmkube.WaitStrategy) helmkube.WaitStrategy {
	if ws == WaitOrdered {
		return helmkube.StatusWatcherStrategy
	}
	return ws
}

// waitMethod is a method of Helm's waiter.
type waitMethod = func(helmkube.Waiter, helmkube.ResourceList, time.Duration) error

// waitWithHelm waits with Helm's waiter, until an abort at most.
func (w *waiter) waitWithHelm(wait waitMethod, list helmkube.ResourceList, timeout time.Duration) error {
	ctx := run.RetryContext(w.c.cfg.Context)
	inner, err := w.c.cfg.Inner.GetWaiterWithOptions(helmStrategy(w.strategy), append(w.opts, helmkube.WithWaitContext(ctx))...)
	if err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { ready <- wait(inner, list, timeout) }() // Helm's legacy waiter has no context, and only reads
	select {
	case err = <-ready:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Wait waits for a list. Except with --wait=legacy, it returns at once for objects of the release, because
// the engine has waited for them if --wait requires it.
func (w *waiter) Wait(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(helmkube.Waiter.Wait, list, timeout)
}

// WaitWithJobs is like Wait, and also waits until Jobs are complete, as the engine does.
func (w *waiter) WaitWithJobs(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(helmkube.Waiter.WaitWithJobs, list, timeout)
}

// wait calls method unless the engine has waited for the list as --wait requires. Helm calls Wait or
// WaitWithJobs once, before the post hooks, even if the release has no objects.
func (w *waiter) wait(method waitMethod, list helmkube.ResourceList, timeout time.Duration) error {
	w.c.hooks.finishMain()
	if w.c.builder().HasReleaseObjects(list) && w.c.cfg.Options.Wait != helmkube.LegacyStrategy || len(list) == 0 {
		return nil
	}
	return w.waitWithHelm(method, list, timeout)
}

// WaitForDelete waits until a list is gone. It returns at once for objects of the release, because the
// engine has waited for them if --wait requires it.
func (w *waiter) WaitForDelete(list helmkube.ResourceList, timeout time.Duration) error {
	if unit := w.c.hooks.unitOf(list); unit != nil {
		if unit.run == nil { // the hook's stage waits for the object of the previous run
			return nil
		}
		ctx := w.c.cfg.Context
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return w.c.cfg.Session.AwaitGone(ctx, withNames(list, unit.list), w.c.reportDeletion(unit.phase, unit.group))
	}
	if w.c.builder().HasReleaseObjects(list) || len(list) == 0 {
		return nil
	}
	return w.waitWithHelm(helmkube.Waiter.WaitForDelete, list, timeout)
}

// WatchUntilReady waits for a hook.
func (w *waiter) WatchUntilReady(list helmkube.ResourceList, timeout time.Duration) error {
	switch unit := w.c.hooks.unitOf(list); {
	case unit != nil:
		return w.c.awaitHook(unit)
	case len(list) == 0:
		return nil
	}
	return w.waitWithHelm(helmkube.Waiter.WatchUntilReady, list, timeout)
}
