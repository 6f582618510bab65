package status

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Target is an object to watch.
type Target struct {
	Object     plan.Object
	GVR        schema.GroupVersionResource
	Namespaced bool
	Rule       Rule
	// Labelled means that the applied object carries the label that
	// Options.Selector selects. Helm adds it to every object of a release, but
	// not to hooks nor to the content of crds/.
	Labelled bool
	// Existed is a resourceVersion at which the object is known to have been there,
	// 0 for none: it is not Gone for one who has not seen the cluster since then.
	Existed uint64
}

// Watcher observes the objects of one run, by the watches of a Hub. Of what others
// watch it sees nothing.
type Watcher struct {
	hub    *Hub
	tell   func(plan.Warning)
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	reports sync.RWMutex // held by those who report
	closed  bool

	mu      sync.Mutex
	doubted map[doubt]bool
}

type doubt struct {
	object plan.Object
	text   string
}

// reporter takes in what was seen of an object.
type reporter = func(run.Observation)

// Close ends the Watcher, but not the Hub, and waits for what Go has begun. Nothing
// is reported after it has returned.
func (w *Watcher) Close() {
	w.cancel()
	w.reports.Lock()
	w.closed = true
	w.reports.Unlock()
	w.wg.Wait()
	w.hub.forget(w)
}

// Go lets do go on beside the watches, for a report that has to look something
// up: Close ends its context and waits for it. It is called from a report.
func (w *Watcher) Go(ctx context.Context, do func(context.Context)) {
	w.wg.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.ctx, cancel)()
		do(ctx)
	})
}

// Watch reports each target until ctx is done: first its present status, Gone
// if it does not exist, then every change of status, message or version. It
// returns at once. report is called from other goroutines, but never for one
// object from two at a time, and must not block for long.
//
// An observation has the resourceVersion that it is based on. For an object that
// does not exist this is the version of the list or of the deletion; it is 0 if
// the server does not know the kind, or if the object is polled.
func (w *Watcher) Watch(ctx context.Context, targets []Target, report func(run.Observation)) {
	if w.ctx.Err() != nil || len(targets) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(w.ctx, cancel)
	w.hub.watch(w, ctx, targets, report)
}

// report calls do, unless the Watcher is closed.
func (w *Watcher) report(do func()) {
	w.reports.RLock()
	defer w.reports.RUnlock()
	if !w.closed {
		do()
	}
}

// notice reports something that limits watching.
func (w *Watcher) notice(text string) {
	w.report(func() { w.tell(plan.Warning{Rule: "R22", Message: CleanText(text)}) })
}

// doubts reports comparisons that cannot be made, each of them once (R23).
func (w *Watcher) doubts(o plan.Object, texts []string) {
	for _, text := range texts {
		w.mu.Lock()
		known := w.doubted[doubt{o, text}]
		w.doubted[doubt{o, text}] = true
		w.mu.Unlock()
		if !known {
			w.report(func() { w.tell(plan.Warning{Rule: "R23", Object: &o, Message: o.String() + ": " + text}) })
		}
	}
}
