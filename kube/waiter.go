package kube

import (
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
)

// GetWaiter returns the waiter of a strategy.
func (o *ordered) GetWaiter(ws helmkube.WaitStrategy) (helmkube.Waiter, error) {
	return o.GetWaiterWithOptions(ws)
}

// GetWaiterWithOptions returns a waiter that knows what the engine has waited
// for already.
func (o *ordered) GetWaiterWithOptions(ws helmkube.WaitStrategy, opts ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return &waiter{o: o, strategy: ws, opts: opts}, nil
}

// waiter waits for what the engine has not waited for: hooks, and whatever
// passed through.
type waiter struct {
	o        *ordered
	strategy helmkube.WaitStrategy
	opts     []helmkube.WaitOption
}

// inner is Helm's own waiter, ended by an abort.
func (w *waiter) inner() (helmkube.Waiter, error) {
	ws := w.strategy
	if ws == WaitOrdered {
		ws = helmkube.StatusWatcherStrategy
	}
	return w.o.Client.GetWaiterWithOptions(ws, append(w.opts, helmkube.WithWaitContext(w.o.requests()))...)
}

// Wait waits for a list that passed through; the engine has waited for ours,
// but for --wait=legacy.
func (w *waiter) Wait(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(list, timeout, helmkube.Waiter.Wait)
}

// WaitWithJobs is as Wait: the engine knows that Jobs have to complete.
func (w *waiter) WaitWithJobs(list helmkube.ResourceList, timeout time.Duration) error {
	return w.wait(list, timeout, helmkube.Waiter.WaitWithJobs)
}

func (w *waiter) wait(list helmkube.ResourceList, timeout time.Duration, f func(helmkube.Waiter, helmkube.ResourceList, time.Duration) error) error {
	if w.o.builder.ours(list) && w.o.opts.wait != helmkube.LegacyStrategy || len(list) == 0 {
		return nil
	}
	inner, err := w.inner()
	if err != nil {
		return err
	}
	return f(inner, list, timeout)
}

// WaitForDelete waits until a list is gone; the engine has waited for ours.
func (w *waiter) WaitForDelete(list helmkube.ResourceList, timeout time.Duration) error {
	if len(list) == 0 {
		return nil
	}
	if unit := w.o.hookOf(list); unit != nil {
		return w.o.waitGone(unit.created(list), timeout)
	}
	if w.o.builder.ours(list) {
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
	if unit := w.o.hookOf(list); unit != nil {
		return w.o.waitHook(unit)
	}
	inner, err := w.inner()
	if err != nil {
		return err
	}
	return inner.WatchUntilReady(list, timeout)
}
