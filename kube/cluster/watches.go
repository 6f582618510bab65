package cluster

import (
	"context"
	"time"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/status"
)

// Watches are what runs see of the cluster by, as many as share them: one watch of a
// kind for all their objects of it, one of pods and one of warnings. A run sees of
// them its own objects alone. A run that is given none has some of its own.
type Watches struct {
	hub   *status.Hub
	pods  *podWatches
	close context.CancelFunc
}

// WatchOptions are those of Watches. The zero value is usable.
type WatchOptions struct {
	// AllNamespaces has one watch of a kind serve all namespaces, where the user may
	// watch it so, instead of one for each namespace in which a run is at work.
	AllNamespaces bool
	// Linger is how long a watch continues after the last run that has used it is over,
	// so that the next one finds it; 1 min if 0.
	Linger time.Duration
}

// NewWatches returns Watches over a connection. They send no request before a run
// needs one. They work until ctx is done or they are closed, which is up to the
// caller, once all runs that share them are over: one that is still under way then
// sees nothing any more, and ends with its timeout.
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

// RunWatcher is what one run sees by Watches.
type RunWatcher struct {
	Watcher *status.Watcher
	Signs   *Signs
	// Shared means that others have used the watches, or may: what is missing in what
	// they have seen so far may be there.
	Shared bool
}

// Open returns what a run sees, until it is ended: by the Watches, or where they are nil
// by some of its own over a connection, which end with ctx and with it. notice is told
// once of each thing that limits watching, from any goroutine; nil for nobody. Nothing
// is told after end has returned.
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
