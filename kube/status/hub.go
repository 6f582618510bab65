// Package status determines whether objects in the cluster are ready, and if not, why. Package
// kube and the packages below it may import it.
//
// Compute is a pure function from an object, a Rule and the time to a Result.
// ParseRule reads the Rule from annotations (R23, R24). A Hub watches any number of objects
// with one list and one watch for each kind and namespace, and reports to Watchers.
package status

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Options of a Hub. The zero value is usable.
type Options struct {
	// Metadata reads the kinds of which Compute needs only metadata. If it is nil, whole objects are read.
	Metadata metadata.Interface
	// Poll is the polling interval for objects that may not be watched; 2 s if 0.
	Poll time.Duration
	// AllNamespaces watches each kind in all namespaces at once. If that is forbidden for a kind, it gets a watch for each
	// namespace.
	AllNamespaces bool
	// Linger is how long a watch continues after its last Watcher is closed, in case another one needs it; 1 min if 0.
	Linger time.Duration
	// Span is how long the first watch of a stream lasts; 5 s if 0. Only then it shows whether a proxy delays watch events.
	Span time.Duration
	// Owners keeps the managed fields of objects, for Target.Judge.
	Owners bool
	// Marks are the keys of the labels and annotations that Target.Judge reads.
	Marks []string
	// Log gets debug messages about proxies that delay watch events; nil for none.
	Log *slog.Logger
}

// helmSelector is the label selector for Labelled objects.
const helmSelector = "app.kubernetes.io/managed-by=Helm"

// maxNamedWatches limits the watches by name for the unlabelled objects of one kind and namespace. If one call has that many
// of them, or that many watches by name were started, the objects share a watch without a filter, and so do later ones.
const maxNamedWatches = 8

// Hub runs the watches for any number of Watchers: one list and one watch for each kind and namespace, or for each kind.
// A few objects without Helm's label have watches by name instead.
//
// It recovers from watches that end, expired versions, restarts of the API server, throttling, and kinds that are not
// known yet. If watching is forbidden, it polls.
type Hub struct {
	client  dynamic.Interface
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	delayed atomic.Bool // a proxy delays watch events

	bindings bindings

	mu           sync.Mutex
	streams      map[streamKey]*stream
	perNamespace map[schema.GroupVersionResource]bool // may not be watched in all namespaces at once
	named        map[streamKey]int                    // watches by name that were started, by the key of the shared watch
}

// streamKey identifies a stream by its resource and filters. At most one of label and name is set.
type streamKey struct {
	gvr         schema.GroupVersionResource
	namespace   string
	label, name string
	wide        bool // all namespaces
}

// String describes the watched objects: "deployments.apps in namespace shop".
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

// NewHub returns a Hub that works until ctx is done. The caller must close it.
func NewHub(ctx context.Context, client dynamic.Interface, options Options) *Hub {
	options.Poll = cmp.Or(options.Poll, 2*time.Second)
	options.Linger = cmp.Or(options.Linger, time.Minute)
	options.Span = cmp.Or(options.Span, initialSpan)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(ctx)
	return &Hub{client: client, options: options, ctx: ctx, cancel: cancel, streams: map[streamKey]*stream{},
		bindings:     bindings{late: map[string]bool{}, asking: map[string]bool{}},
		perNamespace: map[schema.GroupVersionResource]bool{}, named: map[streamKey]int{}}
}

// Close ends all watches and waits for their goroutines. After it has returned, no Watcher reports anything.
func (h *Hub) Close() {
	h.mu.Lock() // waits for a Watch that is starting a stream
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

// Watcher returns a Watcher that uses the Hub's watches until ctx is done, or it or the Hub is closed. It calls notice
// once for each problem that limits watching or makes an expression undecidable: a missing permission, an unreachable API
// server, a comparison with something that is not a number (R23). notice is called from any goroutine and must not block;
// it may be nil.
func (h *Hub) Watcher(ctx context.Context, notice func(plan.Warning)) *Watcher {
	if notice == nil {
		notice = func(plan.Warning) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Watcher{hub: h, warn: notice, ctx: ctx, cancel: cancel, doubted: map[doubt]bool{}, targets: map[plan.Object]Target{}}
}

// watch subscribes a Watcher to the streams of its targets, and reports the problems that limit watching them.
func (h *Hub) watch(ctx context.Context, w *Watcher, targets []Target, report reporter) {
	for _, text := range h.subscribe(ctx, w, targets, report) {
		w.notice(text)
	}
}

// subscribe subscribes a Watcher to the streams of its targets, and returns the problems that limit watching them.
func (h *Hub) subscribe(ctx context.Context, w *Watcher, targets []Target, report reporter) (problems []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || ctx.Err() != nil || w.ctx.Err() != nil { // ctx ends a moment after w.ctx
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
		problems = append(problems, s.addUser(w)...)
		s.join(sub)
		context.AfterFunc(ctx, func() { h.leave(s, sub) })
	}
	return problems
}

// keys returns the key of the stream for each target. The caller holds the lock.
func (h *Hub) keys(targets []Target) []streamKey {
	keys := make([]streamKey, len(targets))
	unlabelled := map[streamKey]int{}
	for i, t := range targets {
		keys[i] = streamKey{gvr: t.GVR, wide: t.Namespaced && h.options.AllNamespaces && !h.perNamespace[t.GVR]}
		if t.Namespaced && !keys[i].wide {
			keys[i].namespace = t.Object.Namespace
		}
		if !t.Labelled {
			unlabelled[keys[i]]++
		}
	}
	for i, t := range targets {
		switch shared := keys[i]; {
		case t.Labelled:
			keys[i].label = helmSelector
		case unlabelled[shared] < maxNamedWatches && h.named[shared] < maxNamedWatches && h.streams[shared] == nil:
			keys[i] = streamKey{gvr: t.GVR, name: t.Object.Name}
			if t.Namespaced {
				keys[i].namespace = t.Object.Namespace
			}
			if h.streams[keys[i]] == nil {
				h.named[shared]++
			}
		}
	}
	return keys
}

// start starts a stream. The caller holds the lock.
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

// leave ends a subscription. After the last one it ends a stream of a single object; other streams continue for later
// groups.
func (h *Hub) leave(s *stream, sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.leave(sub) == 0 && s.key.name != "" {
		h.end(s)
	}
}

// streamsOf returns the streams that have an object.
func (h *Hub) streamsOf(t Target) (all []*stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		if s.key.gvr == t.GVR && (s.key.wide || !t.Namespaced || s.key.namespace == t.Object.Namespace) && s.wants(s.targetID(t)) {
			all = append(all, s)
		}
	}
	return all
}

// removeUser removes a closed Watcher from the users of its streams. A stream without users ends after Options.Linger.
func (h *Hub) removeUser(w *Watcher) {
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

// split replaces a stream of all namespaces with one for each namespace, because the former is forbidden. The stream's
// source calls it.
func (h *Hub) split(s *stream) {
	s.cancel()
	<-s.ended // two streams must not report an object at the same time
	h.mu.Lock()
	h.end(s)
	h.perNamespace[s.key.gvr] = true
	subs := s.subscriptions()
	h.mu.Unlock()
	for _, sub := range subs {
		targets := make([]Target, len(sub.objects))
		for i, o := range sub.objects {
			targets[i] = o.target
		}
		h.watch(sub.ctx, sub.watcher, targets, sub.report)
	}
}

// Target is an object to watch.
type Target struct {
	Object     plan.Object
	GVR        schema.GroupVersionResource
	Namespaced bool
	Rule       Rule
	// Labelled means that the applied object has Helm's label. Helm adds it to every object of
	// a release, but not to hooks or the content of crds/.
	Labelled bool
	// Existed is a resourceVersion at which the object existed, or 0. An older state of the cluster does not make it Gone.
	Existed uint64
	// Judge gets each state of the object with what Compute says of it, and may change that; nil for not. Of a kind that has no
	// status, only metadata is known.
	Judge func(*unstructured.Unstructured, *run.Observation)
}

// subscribers holds the subscriptions, guarded by its mutex.
type subscribers struct {
	mu               sync.Mutex
	joining, leaving []*subscription // not yet handled by run
	subs             map[*subscription]bool
	wanted           map[types.NamespacedName]int // subscriptions by object
}

// subscription is the part of a Watch call that one stream serves.
type subscription struct {
	watcher *Watcher
	ctx     context.Context
	report  reporter
	first   bool // the stream was started for it, so the stream's first list is newer than Target.Existed
	objects []*watched
}

// join adds a subscription; run reports the current state to it.
func (s *stream) join(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[sub] = true
	s.joining = append(s.joining, sub)
	for _, o := range sub.objects {
		s.wanted[s.targetID(o.target)]++
	}
	signal(s.wake)
	signal(s.source.wake)
}

// leave removes a subscription and returns how many remain.
func (s *stream) leave(sub *subscription) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
	s.leaving = append(s.leaving, sub)
	for _, o := range sub.objects {
		id := s.targetID(o.target)
		if s.wanted[id]--; s.wanted[id] == 0 {
			delete(s.wanted, id)
		}
	}
	signal(s.wake)
	return len(s.subs)
}

// subscriptions returns the current subscriptions.
func (s *stream) subscriptions() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.subs))
}

// wants reports whether there is a subscription to an object.
func (s *stream) wants(id types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted[id] > 0
}

// names lists the subscribed objects, unsorted.
func (s *stream) names() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.wanted))
}
