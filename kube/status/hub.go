// Package status tells whether an object in the cluster is ready, and what it
// is waiting for.
//
// Compute is a pure function from an object, a Rule and the time to a
// run.Observation. ParseRule reads the Rule from annotations (R23, R24).
// Watcher keeps observing many objects with one list and one watch for each kind
// and namespace; events cost no further requests.
package status

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Options of a Hub. The zero value is usable.
type Options struct {
	// Selector filters the watches of Labelled objects on the server;
	// "app.kubernetes.io/managed-by=Helm" if empty.
	Selector string
	// Metadata reads the objects of kinds of which there is no more to see; nil to
	// read them whole.
	Metadata metadata.Interface
	// Poll is the interval for objects that may not be watched; 2 s if 0.
	Poll time.Duration
	// AllNamespaces has one watch of a kind serve all namespaces. A kind that may
	// not be watched so has a watch for each namespace.
	AllNamespaces bool
	// Linger is how long a watch continues after the last Watcher that has used it is
	// closed, so that the next one finds it; 1 min if 0.
	Linger time.Duration
	// Log is told what an API server, or something before it, does not do as it
	// should and that is done without; nil for nobody.
	Log *slog.Logger
}

// manyUnlabelled is how many unlabelled objects of one kind and place get a watch
// by name, each its own; those that come after them get a common one without a
// filter.
const manyUnlabelled = 8

// Hub has the watches of any number of Watchers: one list and one watch for each
// kind and namespace, or for each kind, however many Watchers ask for objects of
// it. Only objects without the common label are watched one by one, by name.
//
// It recovers from watches that end, expired versions, restarts of the API
// server, throttling, and kinds that are not known yet. Where watching is not
// allowed it polls.
type Hub struct {
	client  dynamic.Interface
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	held    atomic.Bool // something holds watches back

	mu      sync.Mutex
	streams map[streamKey]*stream
	narrow  map[schema.GroupVersionResource]bool // may not be watched in all namespaces at once
	named   map[streamKey]int                    // how many objects of a kind and place were watched by name
}

// streamKey identifies a stream. At most one of label and name is set.
type streamKey struct {
	gvr         schema.GroupVersionResource
	namespace   string
	label, name string
	wide        bool // of all namespaces
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

// NewHub returns a Hub that works until ctx is done or it is closed, which is up to
// the caller.
func NewHub(ctx context.Context, client dynamic.Interface, options Options) *Hub {
	if options.Selector == "" {
		options.Selector = "app.kubernetes.io/managed-by=Helm"
	}
	if options.Poll <= 0 {
		options.Poll = 2 * time.Second
	}
	if options.Linger <= 0 {
		options.Linger = time.Minute
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Hub{client: client, options: options, ctx: ctx, cancel: cancel, streams: map[streamKey]*stream{},
		narrow: map[schema.GroupVersionResource]bool{}, named: map[streamKey]int{}}
}

// Close ends all watches and waits for their goroutines. Nothing is reported to
// any Watcher after it has returned.
func (h *Hub) Close() {
	h.mu.Lock() // no Watch may be half way through starting a stream
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

// Watcher returns a Watcher that uses the Hub's watches, until ctx is done or it or
// the Hub is closed. notice is called once for each thing that limits watching or
// makes an expression undecidable: a missing right, a lost API server, a comparison
// with something that is not a number (R23). It is called from any goroutine and
// must not block; nil for nobody.
func (h *Hub) Watcher(ctx context.Context, notice func(plan.Warning)) *Watcher {
	if notice == nil {
		notice = func(plan.Warning) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Watcher{hub: h, tell: notice, ctx: ctx, cancel: cancel, doubted: map[doubt]bool{}}
}

// watch has the streams report to a Watcher.
func (h *Hub) watch(w *Watcher, ctx context.Context, targets []Target, report reporter) {
	for _, text := range h.subscribe(w, ctx, targets, report) {
		w.notice(text)
	}
}

// subscribe returns watch, but for telling what limits it.
func (h *Hub) subscribe(w *Watcher, ctx context.Context, targets []Target, report reporter) (limits []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || ctx.Err() != nil {
		return nil
	}
	subs := map[streamKey]*subscription{}
	for i, key := range h.keys(targets) {
		sub := subs[key]
		if sub == nil {
			sub = &subscription{watcher: w, ctx: ctx, report: report}
			subs[key] = sub
		}
		sub.objects = append(sub.objects, &watched{sub: sub, target: targets[i]})
	}
	for key, sub := range subs {
		s := h.streams[key]
		if s == nil {
			s, sub.first = h.start(key), true
		}
		limits = append(limits, s.use(w)...)
		s.join(sub)
		context.AfterFunc(ctx, func() { h.leave(s, sub) })
	}
	return limits
}

// keys returns the stream of each target.
func (h *Hub) keys(targets []Target) []streamKey {
	keys := make([]streamKey, len(targets))
	unlabelled := map[streamKey]int{}
	for i, t := range targets {
		keys[i] = streamKey{gvr: t.GVR, wide: t.Namespaced && h.options.AllNamespaces && !h.narrow[t.GVR]}
		if t.Namespaced && !keys[i].wide {
			keys[i].namespace = t.Object.Namespace
		}
		if !t.Labelled {
			unlabelled[keys[i]]++
		}
	}
	for i, t := range targets {
		switch place := keys[i]; {
		case t.Labelled:
			keys[i].label = h.options.Selector
		case unlabelled[place] < manyUnlabelled && h.named[place] < manyUnlabelled && h.streams[place] == nil:
			keys[i] = streamKey{gvr: t.GVR, name: t.Object.Name}
			if t.Namespaced {
				keys[i].namespace = t.Object.Namespace
			}
			if h.streams[keys[i]] == nil {
				h.named[place]++
			}
		}
	}
	return keys
}

// start runs a stream. The caller holds the lock.
func (h *Hub) start(key streamKey) *stream {
	ctx, cancel := context.WithCancel(h.ctx)
	s := newStream(h, key, cancel)
	h.streams[key] = s
	h.wg.Go(func() { s.run(ctx) })
	h.wg.Go(func() { s.source.run(ctx) })
	return s
}

// end ends a stream. The caller holds the lock.
func (h *Hub) end(s *stream) {
	if h.streams[s.key] == s {
		delete(h.streams, s.key)
	}
	s.cancel()
}

// leave ends a subscription and, after the last one, a stream of a single
// object. Other streams continue for the groups that are still to come.
func (h *Hub) leave(s *stream, sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.leave(sub) == 0 && s.key.name != "" {
		h.end(s)
	}
}

// forget ends what nobody has used but a Watcher that is closed, after a while.
func (h *Hub) forget(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		if !s.users[w] {
			continue
		}
		delete(s.users, w)
		if len(s.users) == 0 && h.ctx.Err() == nil {
			s.idle = time.AfterFunc(h.options.Linger, func() { h.endIdle(s) })
		}
	}
}

func (h *Hub) endIdle(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(s.users) == 0 {
		h.end(s)
	}
}

// split has each namespace watched by itself, since all at once may not be. It is
// called by the stream's source.
func (h *Hub) split(s *stream) {
	s.cancel()
	<-s.ended // nothing is reported twice at a time
	h.mu.Lock()
	h.end(s)
	h.narrow[s.key.gvr] = true
	subs := s.subscriptions()
	h.mu.Unlock()
	for _, sub := range subs {
		targets := make([]Target, len(sub.objects))
		for i, o := range sub.objects {
			targets[i] = o.target
		}
		h.watch(sub.watcher, sub.ctx, targets, sub.report)
	}
}

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

// Go lets do continue beside the watches, for a report that has to look something
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
