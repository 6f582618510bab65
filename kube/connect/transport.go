package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Writes records whether anything was written. A refused request wrote nothing; one without a
// response may have. Its zero value is ready to use.
type Writes struct {
	any   atomic.Bool
	guard atomic.Pointer[func(context.Context) error]
}

// Any reports whether anything was written, or may have been.
func (w *Writes) Any() bool { return w.any.Load() }

// transport sends all requests: it cancels them when its context ends, retries temporary failures (retry.go), and
// records writes. It wraps client-go's own round trippers, so that a retry asks for credentials again.
type transport struct {
	ctx    context.Context
	writes *Writes
	link   *Link
	limits limits
	server string // the path of the server's address, which all paths begin with
	plugin bool   // next may ask a plugin for credentials, and passes credentialed when it has them

	bypassCache atomic.Bool // set once a kind was not found

	mu   sync.Mutex
	next http.RoundTripper
	made int // how often next was replaced
	// renew makes another next that reads the credentials again; nil if they cannot change.
	renew func() (http.RoundTripper, error)
}

// errNotSent means that a request was not sent because its context had ended.
var errNotSent = errors.New("not sent")

// arrivedError means that there is no response to a write that may have reached an API server,
// which may still carry it out.
type arrivedError struct{ error }

func (e *arrivedError) Unwrap() error { return e.error }

// MayHaveArrived reports whether a failed write may have reached an API server. The server may carry it out even
// after a read that did not find its result: cancelling a request does not stop one that is already on its way.
func MayHaveArrived(err error) bool {
	var arrived *arrivedError
	return errors.As(err, &arrived)
}

// RoundTrip sends a request and retries it if that may help. The body of the response is in
// memory, except for streams.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	done := func() { stop(); cancel(nil) }
	if t.ctx.Err() != nil {
		done()
		return nil, fmt.Errorf("%w: %w", errNotSent, context.Cause(t.ctx))
	}
	c, err := newCall(t, r)
	if err != nil {
		done()
		return nil, err
	}
	resp, err := t.link.cache.do(ctx, c, c.do)
	if c.writes && (err == nil && resp.StatusCode < http.StatusBadRequest || c.reached) {
		t.writes.any.Store(true)
	}
	if err != nil && c.writes && c.reached {
		err = &arrivedError{err}
	}
	if err == nil && c.writes {
		warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
		for _, w := range warnings {
			t.link.warned(t.writes, c.target, w.Text)
		}
	}
	if err != nil || !c.streams {
		done()
		return resp, err
	}
	resp.Body = &boundBody{resp.Body, done}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper {
	next, _ := t.current()
	return next
}

// refresh makes the next try read the credentials again. It reports whether a retry may have other ones.
func (t *transport) refresh(used int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.renew == nil {
		return false
	}
	if t.made != used {
		return true // another request refreshed them
	}
	next, err := t.renew()
	if err != nil {
		return false
	}
	t.next = next
	t.made++
	return true
}

// current returns the round tripper for a try, and how often it was replaced before.
func (t *transport) current() (http.RoundTripper, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next, t.made
}

// writes reports whether a request for t can change the cluster.
func writes(r *http.Request, t Target) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !r.URL.Query().Has("dryRun") && !t.isReview()
}

// notSent reports whether a request certainly did not reach an API server.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errNotSent) || noCredentials(err)
}

const (
	// firstLimit is how long the first try waits for its response; each retry waits twice
	// as long, because a webhook may be slow.
	firstLimit = 15 * time.Second
	lastLimit  = 2 * time.Minute
	// chunkTimeout is the time limit for each chunk of a response.
	chunkTimeout = time.Second
	chunk        = 32 << 10
)

// errSlow ends a try that takes too long.
var errSlow = errors.New("timed out")

// try sends a request once, and returns when it did. The body of the response is in memory, unless it is a stream. If
// a plugin provides credentials, the time limit starts after that, because the user may have to log in.
func try(ctx context.Context, next http.RoundTripper, r *http.Request, limit time.Duration, streams, plugin bool) (sent time.Time, resp *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	sent = time.Now()
	deadline := sent.Add(limit)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w: not in %s", errSlow, limit)) })
	if plugin {
		timer.Stop()
		ctx = context.WithValue(ctx, credentialedKey{}, func() {
			sent = time.Now()
			deadline = sent.Add(limit)
			timer.Reset(limit)
		})
	}
	resp, err = next.RoundTrip(r.WithContext(ctx))
	if err == nil && streams && resp.StatusCode < http.StatusBadRequest {
		timer.Stop()
		resp.Body = &boundBody{resp.Body, func() { cancel(nil) }}
		return sent, resp, nil
	}
	defer cancel(nil)
	defer timer.Stop()
	if err == nil {
		err = readAll(resp, func() {
			deadline = deadline.Add(chunkTimeout)
			timer.Reset(time.Until(deadline))
		})
	}
	if slow := context.Cause(ctx); err != nil && errors.Is(slow, errSlow) {
		err = slow
	}
	return sent, resp, err
}

type credentialedKey struct{}

// credentialed is below the round tripper that asks a plugin for credentials: a request that gets here has them.
type credentialed struct{ next http.RoundTripper }

func (u credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	if begin, ok := r.Context().Value(credentialedKey{}).(func()); ok {
		begin()
	}
	return u.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (u credentialed) WrappedRoundTripper() http.RoundTripper { return u.next }

// readAll reads a response to its end. It calls onChunk after each chunk.
func readAll(resp *http.Response, onChunk func()) error {
	defer resp.Body.Close()
	var all bytes.Buffer
	for {
		_, err := io.CopyN(&all, resp.Body, chunk)
		if errors.Is(err, io.EOF) {
			resp.Body = io.NopCloser(&all)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		onChunk()
	}
}

// boundBody calls done when the stream is closed.
type boundBody struct {
	io.ReadCloser
	done func()
}

func (b *boundBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
