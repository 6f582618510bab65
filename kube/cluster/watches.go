package cluster

import (
	"context"
	"time"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/status"
)

// Watches are the watches that any number of runs share: one for each kind of their objects, one for pods and one for
// warnings. Each run sees only its own objects.
type Watches struct {
	hub   *status.Hub
	pods  *podWatches
	close context.CancelFunc
}

// WatchOptions are the options of Watches. The zero value is usable.
type WatchOptions struct {
	// AllNamespaces makes one watch of a kind serve all namespaces, if the user may do that, instead of one for each
	// namespace with a run.
	AllNamespaces bool
	// Linger is how long a watch continues after the last run that used it has ended, so that the next run can use it;
	// 1 min if 0.
	Linger time.Duration
}

// NewWatches returns Watches over a connection. They send the first request when a run needs it, and work until ctx is done
// or the caller closes them. If a run has not ended by then, it sees nothing more and ends with its timeout.
func NewWatches(ctx context.Context, c *connect.Client, opts WatchOptions) (*Watches, error) {
	ctx, cancel := context.WithCancel(ctx)
	bound, err := c.Bind(ctx, &connect.Writes{})
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watches{
		hub:   status.NewHub(ctx, bound.Dynamic, status.Options{Metadata: bound.Metadata, AllNamespaces: opts.AllNamespaces, Linger: opts.Linger, Log: c.Log()}),
		pods:  newPodWatches(ctx, bound.Clientset, opts),
		close: cancel,
	}, nil
}

// Close ends the watches and waits for their goroutines.
func (w *Watches) Close() {
	w.close()
	w.hub.Close()
	w.pods.close()
}

// RunWatcher is the view that one run has of Watches.
type RunWatcher struct {
	Watcher *status.Watcher
	Signs   *Signs
	// Shared means that other runs may use the watches, which may lag behind: an object that they lack may exist.
	Shared bool
}

// Open returns a RunWatcher, which works until end is called. A nil w opens separate watches over the connection, which end
// with ctx. notice is called from any goroutine, once for each problem that limits watching, but not after end has
// returned; it may be nil.
func (w *Watches) Open(ctx context.Context, c *connect.Client, notice func(plan.Warning)) (s RunWatcher, end func(), err error) {
	shared := w != nil
	if !shared {
		if w, err = NewWatches(ctx, c, WatchOptions{}); err != nil {
			return RunWatcher{}, nil, err
		}
	}
	s = RunWatcher{Watcher: w.hub.Watcher(ctx, notice), Signs: newSigns(w.pods), Shared: shared}
	return s, func() {
		s.Signs.close()
		s.Watcher.Close()
		if !shared {
			w.Close()
		}
	}, nil
}
