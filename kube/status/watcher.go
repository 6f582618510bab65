package status

import (
	"context"
	"fmt"
	"sync"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Watcher observes the objects of one run through the watches of a Hub.
type Watcher struct {
	hub    *Hub
	warn   func(plan.Warning)
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	reports sync.RWMutex // read-locked during a report, so that Close waits for it
	closed  bool

	mu      sync.Mutex
	doubted map[doubt]bool         // already reported
	targets map[plan.Object]Target // that are or were watched
}

type doubt struct {
	object plan.Object
	text   string
}

// reporter receives the observations of an object.
type reporter = func(run.Observation)

// Close ends the Watcher, but not the Hub, and waits for the goroutines that Go started. After it has returned, the
// Watcher reports nothing.
func (w *Watcher) Close() {
	w.cancel()
	w.reports.Lock()
	w.closed = true
	w.reports.Unlock()
	w.wg.Wait()
	w.hub.removeUser(w)
}

// Go runs do in a goroutine. It is for a report function that needs to send requests. Close ends do's context and waits
// for it.
func (w *Watcher) Go(ctx context.Context, do func(context.Context)) {
	w.wg.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.ctx, cancel)()
		do(ctx)
	})
}

// Watch reports each target until ctx is done: first its current status (Gone if it does not exist), then every change of
// status, message or version. It returns at once. report is called from other goroutines, but never concurrently for one
// object, and must not block for long.
//
// The version of an observation is the resourceVersion of the object. For a missing object it is that of the list or of
// the deletion, or 0 if the server does not know the kind or the object is polled without permission to list.
func (w *Watcher) Watch(ctx context.Context, targets []Target, report func(run.Observation)) {
	if w.ctx.Err() != nil || len(targets) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(w.ctx, cancel)
	w.mu.Lock()
	for _, t := range targets {
		w.targets[t.Object] = t
	}
	w.mu.Unlock()
	w.hub.watch(ctx, w, targets, report)
}

// RuleOf returns the rule by which an object is watched, or was watched last. ok is false for other objects.
func (w *Watcher) RuleOf(o plan.Object) (rule Rule, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.targets[o]
	return t.Rule, ok
}

// Refresh reads a watched object, because its watch may have stalled unnoticed. It returns once the state of the object was
// reported, however long the API server is unreachable, or when ctx is done.
func (w *Watcher) Refresh(ctx context.Context, o plan.Object) {
	w.mu.Lock()
	t, watched := w.targets[o]
	w.mu.Unlock()
	if !watched {
		return
	}
	for _, s := range w.hub.streamsOf(t) {
		s.source.look(ctx, s.targetID(t))
	}
}

// report calls do unless the Watcher is closed.
func (w *Watcher) report(do func()) {
	w.reports.RLock()
	defer w.reports.RUnlock()
	if !w.closed {
		do()
	}
}

// notice reports a problem that limits watching.
func (w *Watcher) notice(text string) {
	w.report(func() { w.warn(plan.Warning{Rule: "R22", Message: CleanText(text)}) })
}

// reportDoubts reports each undecidable comparison once (R23).
func (w *Watcher) reportDoubts(o plan.Object, texts []string) {
	for _, text := range texts {
		if w.isNew(doubt{o, text}) {
			w.report(func() { w.warn(plan.Warning{Rule: "R23", Object: &o, Message: o.String() + ": " + text}) })
		}
	}
}

// reportUnreadable reports once for each kind what kstatus cannot read in its status (R22a).
func (w *Watcher) reportUnreadable(o plan.Object, what string) {
	if what == "" || !w.isNew(doubt{plan.Object{Group: o.Group, Kind: o.Kind}, "unreadable"}) {
		return
	}
	w.report(func() {
		w.warn(plan.Warning{Rule: "R22a", Object: &o, Message: CleanText(fmt.Sprintf("the status of %s cannot be read (%s), so it counts as soon as "+
			"its controller has written it; %s", o, what, plan.ReadinessAdvice(o)))})
	})
}

// isNew reports whether a doubt has not been reported yet, and records it.
func (w *Watcher) isNew(d doubt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.doubted[d]
	w.doubted[d] = true
	return !known
}
