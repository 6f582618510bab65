package status

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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
}

// Options of a Watcher. The zero value is usable.
type Options struct {
	// Selector filters the watches of Labelled objects on the server;
	// "app.kubernetes.io/managed-by=Helm" if empty.
	Selector string
	// Poll is the interval for objects that may not be watched; 2 s if 0.
	Poll time.Duration
	// Notice is called once for each thing that limits watching or makes an
	// expression undecidable: a missing right, a lost API server, a comparison
	// with something that is not a number (R23). It is called from any
	// goroutine and must not block.
	Notice func(plan.Warning)
}

// manyUnlabelled is how many unlabelled objects of one kind and namespace in one
// call of Watch get a common watch without a filter instead of one watch by
// name for each.
const manyUnlabelled = 8

// Watcher observes objects for as long as a run takes. All calls of Watch share
// one list and one watch for each kind and namespace; only objects without the
// common label are watched one by one, by name.
//
// It recovers from watches that end, expired versions, restarts of the API
// server, throttling, and kinds that are not known yet. Where watching is not
// allowed it polls.
type Watcher struct {
	client  dynamic.Interface
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	streams map[streamKey]*stream
	doubted map[doubt]bool
}

// streamKey identifies a stream. At most one of label and name is set.
type streamKey struct {
	gvr         schema.GroupVersionResource
	namespace   string
	label, name string
}

// String names what is watched: "deployments.apps in namespace shop".
func (k streamKey) String() string {
	text := k.gvr.GroupResource().String()
	if k.name != "" {
		text += " " + k.name
	}
	if k.namespace != "" {
		text += " in namespace " + k.namespace
	}
	return text
}

type doubt struct {
	object plan.Object
	text   string
}

// NewWatcher returns a Watcher that works until ctx is done or it is closed.
func NewWatcher(ctx context.Context, client dynamic.Interface, options Options) *Watcher {
	if options.Selector == "" {
		options.Selector = "app.kubernetes.io/managed-by=Helm"
	}
	if options.Poll <= 0 {
		options.Poll = 2 * time.Second
	}
	if options.Notice == nil {
		options.Notice = func(plan.Warning) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Watcher{client: client, options: options, ctx: ctx, cancel: cancel,
		streams: map[streamKey]*stream{}, doubted: map[doubt]bool{}}
}

// Close ends all watches and waits for their goroutines. Nothing is reported
// after it has returned.
func (w *Watcher) Close() {
	w.mu.Lock() // no Watch may be half way through starting a stream
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || ctx.Err() != nil {
		return
	}
	subs := map[streamKey]*subscription{}
	for i, key := range w.keys(targets) {
		sub := subs[key]
		if sub == nil {
			sub = &subscription{ctx: ctx, report: report}
			subs[key] = sub
		}
		sub.objects = append(sub.objects, &watched{sub: sub, target: targets[i]})
	}
	for key, sub := range subs {
		s := w.streams[key]
		if s == nil {
			s = w.start(key)
		}
		s.join(sub)
		context.AfterFunc(ctx, func() { w.leave(s, sub) })
	}
}

// keys returns the stream of each target.
func (w *Watcher) keys(targets []Target) []streamKey {
	keys := make([]streamKey, len(targets))
	unlabelled := map[streamKey]int{}
	for i, t := range targets {
		keys[i] = streamKey{gvr: t.GVR}
		if t.Namespaced {
			keys[i].namespace = t.Object.Namespace
		}
		if !t.Labelled {
			unlabelled[keys[i]]++
		}
	}
	for i, t := range targets {
		switch {
		case t.Labelled:
			keys[i].label = w.options.Selector
		case unlabelled[keys[i]] < manyUnlabelled && w.streams[keys[i]] == nil:
			keys[i].name = t.Object.Name
		}
	}
	return keys
}

// start runs a stream. The caller holds the lock.
func (w *Watcher) start(key streamKey) *stream {
	ctx, cancel := context.WithCancel(w.ctx)
	s := newStream(w, key, cancel)
	w.streams[key] = s
	w.wg.Go(func() { s.run(ctx) })
	w.wg.Go(func() { s.source.run(ctx) })
	return s
}

// leave ends a subscription and, after the last one, a stream of a single
// object. Other streams go on for the groups that are still to come.
func (w *Watcher) leave(s *stream, sub *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.leave(sub) == 0 && s.key.name != "" && w.streams[s.key] == s {
		delete(w.streams, s.key)
		s.cancel()
	}
}

// doubts reports comparisons that cannot be made, each of them once (R23).
func (w *Watcher) doubts(o plan.Object, texts []string) {
	for _, text := range texts {
		w.mu.Lock()
		known := w.doubted[doubt{o, text}]
		w.doubted[doubt{o, text}] = true
		w.mu.Unlock()
		if !known {
			w.options.Notice(plan.Warning{Rule: "R23", Object: &o, Message: o.String() + ": " + text})
		}
	}
}

// notice reports something that limits watching.
func (s *stream) notice(text string) {
	s.w.options.Notice(plan.Warning{Rule: "R22", Message: CleanText(text)})
}
