package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lockstep/engine/parallel"
)

// source feeds a stream by listing and watching its objects.
//
// It does not use client-go's Reflector, because that does not stop promptly (it sleeps between attempts and ignores the
// context), leaks a request, and only logs the errors that a source must tell apart: a missing permission, an unknown
// kind, an outage. RetryWatcher does not recover from an expired version.
type source struct {
	stream   *stream
	wake     chan struct{} // wakes poll when a subscription has joined
	failures int           // consecutive failed attempts
	notFound int           // consecutive responses that the kind is unknown
	reported bool          // the current outage was reported
	span     time.Duration // maximum duration of the next watch
}

const (
	pageSize   = 500
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// maxRetryAfter limits the Retry-After of a server.
	maxRetryAfter = 30 * time.Second
	// unknownAfter is how many times a kind must be unknown before its objects count as gone. A single response may come
	// from an API server that lags behind.
	unknownAfter = 3
	// maxUnknownDelay limits the time between attempts while a kind is unknown.
	maxUnknownDelay = 500 * time.Millisecond
	// outageAfter is the number of failures after which an outage is reported.
	outageAfter = 4
)

// A proxy may buffer the events of a watch until the watch ends. So watches start short. Each time one delivers an event
// well before its end, the next is twice as long. If a proxy delays events, watches stay short.
const (
	initialSpan = 5 * time.Second
	delayedSpan = 2 * time.Second
	maxSpan     = 5 * time.Minute // up to twice as long at random, so that watches do not all end at once
	// eventMargin is how long before the end of a watch its first event must arrive to count as not delayed.
	eventMargin = time.Second
	// endMargin is how long after its end a watch is still read. Then its connection hangs, and the next one starts.
	endMargin = 5 * time.Second
)

func newSource(s *stream) *source {
	span := s.hub.options.Span
	if s.hub.delayed.Load() {
		span = delayedSpan
	}
	return &source{stream: s, wake: make(chan struct{}, 1), span: span}
}

// client returns the client for the objects of the stream.
func (s *source) client() reader { return s.clientIn(s.stream.key.namespace) }

func (s *source) clientIn(namespace string) reader {
	gvr, hub := s.stream.key.gvr, s.stream.hub
	if kind := s.metadataKind(); kind.Kind != "" && hub.options.Metadata != nil {
		return metadataReader{hub.options.Metadata.Resource(gvr).Namespace(namespace), kind, hub.options.Owners}
	}
	return hub.client.Resource(gvr).Namespace(namespace)
}

// metadataKind returns the kind of the objects if it is one of metadataKinds; otherwise the Kind field is "".
func (s *source) metadataKind() schema.GroupVersionKind {
	gvr := s.stream.key.gvr
	return gvr.GroupVersion().WithKind(metadataKinds[gvr.GroupResource()])
}

func (s *source) options() metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: s.stream.key.label}
	if s.stream.key.name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.stream.key.name).String()
	}
	return o
}

// denied reports whether the user lacks a permission or the resource does not support the verb: a retry cannot help.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// expired reports whether a resourceVersion is too old to watch from.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// errUnanswered is the error of a watch that got no response for a while, as from a proxy that buffers it: what happens meanwhile is
// only in a list.
var errUnanswered = errors.New("no response to a watch")

// run feeds the stream until ctx is done.
func (s *source) run(ctx context.Context) {
	for ctx.Err() == nil {
		version, err := s.list(ctx)
		mayList := err == nil
		if mayList {
			err = s.follow(ctx, version)
		}
		switch {
		case denied(err) && s.stream.key.wide:
			s.stream.hub.split(s.stream)
			return
		case denied(err):
			s.poll(ctx, mayList, err)
			return
		case expired(err), errors.Is(err, errUnanswered):
			err = nil // not an outage
		}
		s.pause(ctx, err)
	}
}

// list sends all objects to the stream and returns the list's version.
func (s *source) list(ctx context.Context) (version string, err error) {
	opts := s.options()
	opts.Limit = pageSize
	var all []*unstructured.Unstructured
	for {
		page, err := s.client().List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			all = append(all, s.stream.hub.trim(&page.Items[i]))
		}
		version = page.GetResourceVersion()
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			break
		}
	}
	s.send(ctx, delta{complete: true, list: all, version: ParseVersion(version)})
	s.notFound = 0
	s.recovered()
	return version, nil
}

// look reads one object and sends it to the stream, which has reported it when look returns. Where listing is forbidden, poll
// reads the object.
func (s *source) look(ctx context.Context, id types.NamespacedName) {
	opts := s.options()
	opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", id.Name).String()
	list, err := s.clientIn(cmp.Or(id.Namespace, s.stream.key.namespace)).List(ctx, opts)
	if err != nil {
		return
	}
	d := delta{looked: true, gone: id, version: ParseVersion(list.GetResourceVersion())}
	if len(list.Items) > 0 {
		d = delta{looked: true, put: s.stream.hub.trim(&list.Items[0])}
	}
	s.send(ctx, d)
	s.send(ctx, delta{looked: true}) // the stream has handled the first one
}

// follow watches from a version, with one watch after another. It returns the reason when the objects must be listed again.
func (s *source) follow(ctx context.Context, version string) error {
	for ctx.Err() == nil {
		started := time.Now()
		next, err := s.watch(ctx, version)
		lived := time.Since(started)
		if next != version || lived > maxBackoff {
			s.failures = 0
			s.recovered()
		}
		version = next
		switch {
		case denied(err), expired(err), apierrors.IsNotFound(err), version == "":
			return err
		case err != nil && lived > initialSpan+endMargin:
			return errUnanswered
		case err == nil && lived > time.Second:
			// The server ends every watch after a while: start the next one at once.
		default:
			s.pause(ctx, err)
		}
	}
	return ctx.Err()
}

// watch runs one watch to its end. It returns the version for the next one.
func (s *source) watch(ctx context.Context, version string) (string, error) {
	opts := s.options()
	opts.ResourceVersion = version
	opts.AllowWatchBookmarks = true
	span := s.span
	if span == maxSpan {
		span += rand.N(maxSpan)
	}
	opts.TimeoutSeconds = new(int64(span / time.Second))
	started, first := time.Now(), time.Time{}
	w, err := s.client().Watch(ctx, opts)
	if err != nil {
		return version, err
	}
	defer w.Stop()
	overdue := time.After(span + endMargin)
	for {
		select {
		case <-ctx.Done():
			return version, ctx.Err()
		case <-overdue:
			return version, nil
		case e, ok := <-w.ResultChan():
			if !ok {
				if time.Since(started) >= span {
					s.adaptSpan(first)
				}
				return version, nil
			}
			if first.IsZero() {
				first = time.Now()
			}
			if e.Type == watch.Error {
				return version, apierrors.FromObject(e.Object)
			}
			u := toUnstructured(e.Object, s.metadataKind(), s.stream.hub.options.Owners)
			if u == nil {
				return version, fmt.Errorf("unexpected %T in a watch", e.Object)
			}
			version = u.GetResourceVersion()
			s.sendEvent(ctx, e.Type, u)
		}
	}
}

// adaptSpan sets the span of the next watch. first is the time of the first event of the watch that has just ended, zero
// if it had none.
func (s *source) adaptSpan(first time.Time) {
	switch {
	case first.IsZero():
	case time.Since(first) >= eventMargin:
		s.span = min(max(2*s.span, initialSpan), maxSpan)
	default:
		s.span = delayedSpan
		if h := s.stream.hub; !h.delayed.Swap(true) {
			h.options.Log.Debug("a proxy delays watch events; using short watches", "duration", delayedSpan, "stream", s.stream.key)
		}
	}
}

// sendEvent sends an event of a watch to the stream.
func (s *source) sendEvent(ctx context.Context, t watch.EventType, u *unstructured.Unstructured) {
	switch t {
	case watch.Added, watch.Modified:
		s.send(ctx, delta{put: s.stream.hub.trim(u)})
	case watch.Deleted:
		s.send(ctx, delta{gone: s.stream.objectID(u), version: ParseVersion(u.GetResourceVersion())})
	case watch.Bookmark:
		s.send(ctx, delta{version: ParseVersion(u.GetResourceVersion())})
	}
}

// recovered ends an outage that was reported.
func (s *source) recovered() {
	if s.reported {
		s.stream.recovered()
	}
	s.reported = false
}

func (s *source) send(ctx context.Context, d delta) {
	select {
	case s.stream.deltas <- d:
	case <-s.stream.ended:
	case <-ctx.Done():
	}
}

// pause waits before the next attempt: 0.1 s to 5 s, or as long as the server asks. err is the error of the last attempt,
// nil if it does not count as an outage. After several failures, pause reports an outage or, if the kind is unknown, that
// its objects are gone.
func (s *source) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	wait := min(maxBackoff, minBackoff<<min(s.failures, 10))
	s.failures++
	if apierrors.IsNotFound(err) {
		if s.notFound++; s.notFound == unknownAfter {
			s.send(ctx, delta{complete: true})
		}
		_ = parallel.Sleep(ctx, jitter(min(wait, maxUnknownDelay)))
		return
	}
	if err != nil && s.failures >= outageAfter && !s.reported {
		s.reported = true
		s.stream.notice("cannot watch "+s.stream.key.String()+", retrying: "+err.Error(), false)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		wait = max(wait, min(maxRetryAfter, time.Duration(seconds)*time.Second))
	}
	_ = parallel.Sleep(ctx, jitter(wait))
}

// jitter changes a duration by up to a fifth, so that clients do not send at the same time.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
