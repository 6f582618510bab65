package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Writes records whether a connection wrote anything. A refused request wrote nothing; one without a response may have.
// The zero value is ready to use.
type Writes struct {
	any   atomic.Bool
	guard atomic.Pointer[Guard]
	learn atomic.Pointer[func(secret map[string]any)]
}

// LearnRefused makes learn called with each Secret whose change the API server has refused, as the cluster has it, before the caller
// gets the answer: a policy or webhook may quote its values, which are in no manifest if somebody has changed them.
func (w *Writes) LearnRefused(learn func(secret map[string]any)) { w.learn.Store(&learn) }

// Any reports whether anything was or may have been written.
func (w *Writes) Any() bool { return w.any.Load() }

// transport sends all requests: it cancels them when its context ends, retries temporary failures (retry.go), and
// records writes. It wraps client-go's own round trippers, so that a retry asks for credentials again.
type transport struct {
	*server
	ctx    context.Context
	writes *Writes
	link   *Link
	limits limits

	bypassCache atomic.Bool // set once a kind has not been found
	kinds       cache       // of this connection alone: see KeepKinds
}

// errNotSent means that a request was not sent: its context had ended, or the guard refused the write.
var errNotSent = errors.New("not sent")

// arrivedError is the error of a write that may have reached an API server, although there was no response.
type arrivedError struct{ error }

func (e *arrivedError) Unwrap() error { return e.error }

// MayHaveArrived reports whether a failed write may have reached an API server. Even if a read does not find its result,
// the server may still carry it out, because cancelling a request does not recall it.
func MayHaveArrived(err error) bool {
	var arrived *arrivedError
	return errors.As(err, &arrived)
}

// RoundTrip sends a request and retries it if that may help. The body of the response is in memory unless it is a stream.
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
	resp, err := t.link.cache.do(ctx, c, func(ctx context.Context) (*http.Response, error) { return t.kinds.do(ctx, c, c.do) })
	if c.writes && (err == nil && resp.StatusCode < http.StatusBadRequest || c.mayHaveArrived) {
		t.writes.any.Store(true)
	}
	if err != nil && c.writes && c.mayHaveArrived {
		err = &arrivedError{err}
	}
	if err == nil && mayQuote(r, c.target, resp) {
		t.learnSecret(r)
	}
	if err == nil && c.writes {
		warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
		for _, w := range warnings {
			t.link.notifyWarning(t.writes, c.target, w.Text)
		}
	}
	if err != nil || !c.streams {
		done()
		return resp, err
	}
	resp.Body = &boundBody{resp.Body, done}
	return resp, nil
}

// mayQuote reports whether the API server has refused a change of a Secret in such a way that the answer may have its values.
func mayQuote(r *http.Request, t Target, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	changes := r.Method == http.MethodPatch || r.Method == http.MethodPut
	return changes && resp.StatusCode >= http.StatusBadRequest && t.Group == "" && t.Resource == "secrets" && t.Name != ""
}

// learnSecret reads the Secret of a request for LearnRefused. Without permission, nothing is learned.
func (t *transport) learnSecret(r *http.Request) {
	learn := t.writes.learn.Load()
	if learn == nil {
		return
	}
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, (&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}).String(), nil)
	if err != nil {
		return
	}
	get.Header.Set("Accept", "application/json")
	resp, err := t.RoundTrip(get)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var secret map[string]any
	if resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&secret) == nil {
		(*learn)(secret)
	}
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper {
	next, _ := t.current()
	return next
}

// writes reports whether a request can change the cluster.
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
	// firstTimeout limits the first try. Each retry has twice as long, because a webhook may be slow.
	firstTimeout = 15 * time.Second
	maxTimeout   = 2 * time.Minute
	// chunkTimeout is the additional time for each chunk of a response.
	chunkTimeout = time.Second
	chunk        = 32 << 10
)

// errNoResponse ends a try that takes too long.
var errNoResponse = errors.New("no complete response")

// try sends a request once. The body of the response is in memory unless it is a stream. If a plugin provides
// credentials, the time limit starts, and sent is set, only when the request has them, because the user may have to log in.
func try(ctx context.Context, next http.RoundTripper, r *http.Request, limit time.Duration, streams, plugin bool) (sent time.Time, resp *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	sent = time.Now()
	deadline := sent.Add(limit)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w within %s", errNoResponse, limit)) })
	if plugin {
		timer.Stop()
		resp, err = withPlugin(ctx, next, r, func() {
			sent = time.Now()
			deadline = sent.Add(limit)
			timer.Reset(limit)
		})
	} else {
		resp, err = next.RoundTrip(r.WithContext(ctx))
	}
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
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoResponse) {
		err = cause
	}
	if err != nil {
		return sent, nil, err
	}
	return sent, resp, nil
}

type credentialedKey struct{}

// withPlugin sends a request for which a plugin provides credentials, and calls start when the request has them. client-go
// starts the plugin without a context, so withPlugin does not wait for the plugin once ctx has ended.
func withPlugin(ctx context.Context, next http.RoundTripper, r *http.Request, start func()) (*http.Response, error) {
	type result struct {
		resp *http.Response
		err  error
	}
	has, done := make(chan struct{}, 1), make(chan result, 1)
	go func() {
		resp, err := next.RoundTrip(r.WithContext(context.WithValue(ctx, credentialedKey{}, has)))
		done <- result{resp, err}
	}()
	select {
	case <-has:
		start()
	case out := <-done:
		return out.resp, out.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%sthe plugin did not end: %w", gettingCredentials, context.Cause(ctx))
	}
	out := <-done
	return out.resp, out.err
}

// credentialed notices that a request has credentials, see withPlugin. It wraps the round tripper below the one that asks a
// plugin for them.
type credentialed struct{ next http.RoundTripper }

func (c credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	if has, ok := r.Context().Value(credentialedKey{}).(chan struct{}); ok {
		select {
		case has <- struct{}{}:
		default:
		}
	}
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (c credentialed) WrappedRoundTripper() http.RoundTripper { return c.next }

// readAll reads the body of a response into memory. It calls onChunk after each chunk.
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
