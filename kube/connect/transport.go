package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// Writes knows whether anything was written: what the API server has refused
// was not, what it did not answer may have been. Its zero value is ready to
// use.
type Writes struct{ any atomic.Bool }

// Any reports whether anything was written, or may have been.
func (w *Writes) Any() bool { return w.any.Load() }

// transport ends requests when its context ends, and notes what was written.
type transport struct {
	ctx    context.Context
	writes *Writes
	next   http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(r)
	if writes(r) && (err == nil && resp.StatusCode < http.StatusBadRequest || err != nil && !notSent(err)) {
		t.writes.any.Store(true)
	}
	return resp, err
}

// writes reports whether a request changes anything in the cluster.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !r.URL.Query().Has("dryRun") && !strings.HasPrefix(r.URL.Path, "/apis/auth")
}

// notSent reports whether a request has surely not come to an API server.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errEnded)
}

// errEnded is why a request was not made: what it belongs to has ended before.
var errEnded = errors.New("not sent")

func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	if t.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", errEnded, context.Cause(t.ctx))
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(t.ctx, cancel)
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	resp.Body = &boundBody{resp.Body, func() { stop(); cancel() }}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// boundBody lets go of the context once the answer has been read.
type boundBody struct {
	io.ReadCloser
	done func()
}

func (b *boundBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
