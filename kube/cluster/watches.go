package cluster

import (
	"context"
	"time"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// Watches are shared by any number of runs. In each namespace with a run there is one watch for each kind of its objects, one
// for pods and one for warnings. Each run sees only its own objects.
type Watches struct {
	hub   *status.Hub
	pods  *podWatches
	close context.CancelFunc
}

// WatchOptions are the options of Watches. The zero value is usable.
type WatchOptions struct {
	// AllNamespaces uses one watch per kind for all namespaces, if the user is permitted to, instead of one for each
	// namespace with a run.
	AllNamespaces bool
	// Linger is how long a watch continues after the last run that used it has ended, in case another run needs it;
	// 0 means one minute.
	Linger time.Duration
	// Owners makes an Observation say who has changed an object (S18).
	Owners bool
}

// NewWatches returns Watches over a connection. They send the first request when a run needs it, and work until ctx is done
// or the caller closes them. A run that has not ended by then observes nothing more and times out.
func NewWatches(ctx context.Context, c *connect.Client, opts WatchOptions) (*Watches, error) {
	ctx, cancel := context.WithCancel(ctx)
	bound, err := c.Bind(ctx, &connect.Writes{})
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watches{
		hub:   status.NewHub(ctx, bound.Dynamic, status.Options{Metadata: bound.Metadata, AllNamespaces: opts.AllNamespaces, Linger: opts.Linger, Owners: opts.Owners, Marks: manifest.OwnerKeys, Log: c.Log()}),
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

// RunWatcher is one run's view of Watches.
type RunWatcher struct {
	Watcher *status.Watcher
	Signs   *Signs
	// Shared means that other runs may use the watches. Shared watches may lag behind, so an object may exist although they
	// report it as gone.
	Shared bool
}

// Open returns a RunWatcher that works until end is called. If w is nil, Open creates watches for this run only, which also
// end with ctx. notice is called from any goroutine, once for each problem that limits watching, but not after end has
// returned; it may be nil.
func (w *Watches) Open(ctx context.Context, c *connect.Client, notice func(plan.Warning)) (s RunWatcher, end func(), err error) {
	shared := w != nil
	if !shared {
		if w, err = NewWatches(ctx, c, WatchOptions{}); err != nil {
			return RunWatcher{}, nil, err
		}
	}
	s = RunWatcher{Watcher: w.hub.Watcher(ctx, notice), Signs: newSigns(w.pods, notice), Shared: shared}
	return s, func() {
		s.Signs.close()
		s.Watcher.Close()
		if !shared {
			w.Close()
		}
	}, nil
}
