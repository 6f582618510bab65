package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"lockstep/engine/parallel"
	"lockstep/engine/run"
)

// limits are how long a request is retried; 0 means until its context ends.
type limits struct {
	firstContact time.Duration // if this API server never responded: the address may be wrong
	unreachable  time.Duration // while it does not respond
	serverErrors time.Duration // while it responds with an internal error (500), or an aggregated API is down
	overload     time.Duration // while it responds that it is overloaded (429)
}

// firstContact is how long a run tries to reach an API server that never responded.
const firstContact = 10 * time.Second

// maxDryRunErrors limits how long a dry run is retried after internal errors: a webhook that cannot be called rarely
// recovers while somebody waits for a plan.
const maxDryRunErrors = 2 * time.Second

type limitsKey struct{}

// WithRetryTimeout returns a context for Bind in which requests are retried for at most d after an internal error (500)
// or an overload (429) of the API server, and until ctx ends while the API server is unreachable. If it is called
// several times, the shortest limit counts for internal errors, which tend to last, and the longest for overloads,
// which pass. If d is not positive, the limits for errors stay as they are.
func WithRetryTimeout(ctx context.Context, d time.Duration) context.Context {
	l, set := ctx.Value(limitsKey{}).(limits)
	switch {
	case !set && d <= 0:
		l = limitsOf(ctx)
	case !set:
		l.serverErrors, l.overload = d, d
	case d > 0:
		l.serverErrors, l.overload = min(l.serverErrors, d), max(l.overload, d)
	}
	return context.WithValue(ctx, limitsKey{}, limits{firstContact: firstContact, serverErrors: l.serverErrors, overload: l.overload})
}

// limitsOf returns the limits of a context. If the context never ends, as in "status", requests are not retried for long.
func limitsOf(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	if ctx.Done() == nil {
		return limits{firstContact: time.Second, unreachable: 30 * time.Second, serverErrors: 10 * time.Second, overload: 10 * time.Second}
	}
	return limits{firstContact: firstContact, serverErrors: time.Minute, overload: time.Minute}
}

// call is a request with all its tries.
type call struct {
	t       *transport
	request *http.Request
	body    []byte
	target  Target // according to the path
	object  Target // target with the name of an object that is created
	writes  bool
	streams bool // the response is a watch or a followed log
	dryRun  bool
	attempts
}

// attempts describes the tries of a call so far.
type attempts struct {
	began       time.Time // when the first try was sent
	tries       int
	errorsSince time.Time // when the current series of server errors (verdict.serverError) began, or zero
	refreshed   bool      // the credentials were read again at once, after the first 401
	// A failed try may have succeeded, although no response says so, or may at least have arrived at an API server.
	mayHaveSucceeded, mayHaveArrived bool
}

func newCall(t *transport, r *http.Request) (*call, error) {
	q := r.URL.Query()
	watch := q.Get("watch")
	target := targetOf(t.path, r.URL.Path)
	c := &call{
		t: t, request: r, target: target, attempts: attempts{began: time.Now()},
		writes: writes(r, target), streams: watch == "true" || watch == "1" || q.Get("follow") == "true",
		dryRun: q.Has("dryRun"),
	}
	if c.object = c.target; r.Body == nil {
		return c, nil
	}
	defer r.Body.Close()
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	c.generateName()
	return c, nil
}

// Rule R53: temporary failures are retried, until a timeout
//
// do sends the request until its response is final. It does not restart a stream, because only its reader knows where
// to continue.
func (c *call) do(ctx context.Context) (*http.Response, error) {
	waitCtx, cancel := context.WithCancelCause(ctx) // also ends when the run stops retrying
	defer cancel(nil)
	stopRetries := run.RetryContext(c.t.ctx)
	defer context.AfterFunc(stopRetries, func() { cancel(context.Cause(stopRetries)) })()
	var resp *http.Response
	var err, last error
	expired := false // the credentials of the last try, which had been read again already
	for {
		pass, ended := c.enter(waitCtx)
		if ended != nil {
			return c.giveUp(resp, err, ended)
		}
		next, generation := c.t.current()
		if expired && c.t.refresh(generation) {
			next, generation = c.t.current()
		}
		var sent time.Time
		sent, resp, err = try(ctx, next, c.newRequest(ctx), c.tryTimeout(pass), c.streams, c.t.plugin)
		if c.tries == 0 {
			c.began = sent
		}
		if err == nil {
			if err = c.foreign(resp); err != nil {
				resp = nil
			}
		}
		v := c.judge(resp, err)
		renewed := ctx.Err() == nil && unauthorized(resp) && !c.refreshed && c.t.refresh(generation)
		if renewed || ctx.Err() != nil { // ctx ends the call, whatever the response
			v = c.judgeSilence(ctx, resp, time.Since(sent))
		}
		closed := pass.end(v.outcome, sent, v.reason)
		if renewed { // try the new credentials at once
			c.refreshed = true
			continue
		}
		if err != nil && ctx.Err() != nil {
			return nil, c.canceledError(err, last, context.Cause(ctx))
		}
		if !v.retry && err == nil && c.notYetServed(ctx, resp) { // asked without a pass, which others may wait for
			v = c.judgeUnserved(resp)
		}
		if last = err; !v.retry || c.streams {
			return c.settle(ctx, resp, err)
		}
		expired = unauthorized(resp)
		c.recordFailure(v, resp, err)
		if c.limitReached(v) {
			return c.giveUp(resp, err, nil)
		}
		if ended := c.pause(waitCtx, v, closed); ended != nil {
			return c.giveUp(resp, err, ended)
		}
	}
}

// tryTimeout limits the next try. A stream that probes must not keep others waiting for long.
func (c *call) tryTimeout(p *pass) time.Duration {
	if c.streams && len(p.probes) > 0 {
		return silence
	}
	return min(maxTimeout, firstTimeout<<min(c.tries, 5))
}

// pause waits before the next try, and counts the last one. closed says that the gate is closed, which has its own pause.
func (c *call) pause(ctx context.Context, v verdict, closed bool) error {
	if !c.errorsSince.IsZero() {
		c.t.link.notifyRetry(c.t.writes, c.object, c.errorsSince, v.reason)
	}
	c.tries++
	pause := v.retryAfter
	if !closed {
		pause = max(pause, backoff(c.tries-1, maxBackoff))
	}
	return parallel.Sleep(ctx, pause)
}

// judgeSilence says whether a try that was stopped after a while means that the API server is unreachable: if it got no response
// until its deadline. A subresource, such as a log, may wait for a kubelet, and another API group for an aggregated API server.
func (c *call) judgeSilence(ctx context.Context, resp *http.Response, waited time.Duration) verdict {
	serverAlone := c.target.Subresource == "" && (c.target.Group == "" || c.target.Group == "coordination.k8s.io")
	if waited < silence || resp != nil || !serverAlone || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !c.t.link.state().responded {
		return verdict{}
	}
	return verdict{outcome: hung, reason: fmt.Sprintf("no response within %s", waited.Round(time.Second))}
}

func unauthorized(resp *http.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusUnauthorized
}

// canceledError returns the error of a call whose context ended during a try. If an earlier try failed, the error says
// how.
func (c *call) canceledError(err, last, cause error) error {
	c.mayHaveArrived = c.mayHaveArrived || !notSent(err)
	switch {
	case last != nil:
		return &unanswered{last: last, ended: cause}
	case !errors.Is(err, cause):
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// recordFailure records whether a try that failed may have arrived or succeeded nevertheless, and when the server started
// to respond with errors.
func (c *call) recordFailure(v verdict, resp *http.Response, err error) {
	switch {
	case !v.serverError, v.aggregated && c.t.link.state().unreachable: // an outage has another limit
		c.errorsSince = time.Time{}
	case c.errorsSince.IsZero():
		c.errorsSince = time.Now()
	}
	if err != nil {
		arrived := !notSent(err)
		c.mayHaveSucceeded, c.mayHaveArrived = c.mayHaveSucceeded || arrived, c.mayHaveArrived || arrived
		return
	}
	c.mayHaveSucceeded = c.mayHaveSucceeded || resp.StatusCode >= http.StatusInternalServerError
	c.mayHaveArrived = c.mayHaveArrived || resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout
}

// newRequest returns a copy of the request, with its body.
func (c *call) newRequest(ctx context.Context) *http.Request {
	r := c.request.Clone(ctx)
	if c.body != nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(c.body))
	}
	return r
}

// limitReached reports whether the request has been retried for long enough.
func (c *call) limitReached(v verdict) bool {
	l, now := c.t.limits, time.Now()
	over := func(since time.Time, limit time.Duration) bool { return limit > 0 && now.Sub(since) >= limit }
	limit := l.serverErrors
	switch {
	case v.overloaded:
		limit = l.overload
	case c.dryRun && (limit == 0 || limit > maxDryRunErrors):
		limit = maxDryRunErrors
	}
	return over(c.began, l.unreachable) || !c.t.link.state().responded && over(c.began, l.firstContact) ||
		!c.errorsSince.IsZero() && over(c.errorsSince, limit) || c.target.isAggregatedDiscovery() && c.tries+1 >= maxDiscoveryTries
}

// giveUp ends the call with the result of the last try. ended is why the call stopped waiting, or nil.
func (c *call) giveUp(resp *http.Response, err, ended error) (*http.Response, error) {
	switch {
	case resp != nil && err == nil:
		resp.Header.Del("Retry-After") // client-go would retry
		return resp, nil
	case err == nil:
		return nil, fmt.Errorf("%w: %w", errNotSent, ended)
	}
	return nil, &unanswered{last: err, ended: ended}
}

// unanswered is the error of a call without a response. It hides the last error from client-go, which would retry.
type unanswered struct{ last, ended error }

func (u *unanswered) Error() string {
	if u.ended == nil {
		return u.last.Error()
	}
	return fmt.Sprintf("%v: the API server is not responding: %v", u.ended, u.last)
}

func (u *unanswered) Unwrap() error { return u.ended }

// verdict says what the result of a try means.
type verdict struct {
	outcome     outcome
	retry       bool          // a retry may succeed
	serverError bool          // an internal error, an overload, or an aggregated API that is down
	overloaded  bool          // an overload
	aggregated  bool          // the error is that of an aggregated API
	retryAfter  time.Duration // the delay that the server asks for
	reason      string
}

// judge decides whether a failure is temporary. An aggregated API that is down is an error of that API only, because the
// API server has responded.
func (c *call) judge(resp *http.Response, err error) verdict {
	if err != nil {
		return judgeError(err, c.t.link)
	}
	reason := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	aggregated := func() verdict {
		reason = fmt.Sprintf("%s does not respond: %s", c.target.apiService(), reason)
		return verdict{outcome: responded, retry: true, serverError: true, aggregated: true, retryAfter: retryAfter(resp), reason: reason}
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		switch {
		case c.t.renew == nil:
			return verdict{outcome: responded}
		case !c.t.link.state().responded: // credentials that were never accepted may be wrong
			return verdict{}
		case Aggregated(c.target.Group): // which of the two servers it is that does not accept them is unknown
			v := aggregated()
			v.outcome = inconclusive
			return v
		}
		return verdict{outcome: denied, retry: true, reason: reason + ": the credentials have expired, and there are no new ones yet"}
	case http.StatusTooManyRequests:
		return verdict{outcome: responded, retry: true, serverError: true, overloaded: true, retryAfter: retryAfter(resp), reason: reason + messageOf(resp)}
	case http.StatusConflict:
		if !c.quotaConflict(resp) {
			break
		}
		return verdict{outcome: responded, retry: true, serverError: true, overloaded: true, reason: reason + messageOf(resp)}
	case http.StatusInternalServerError:
		message := messageOf(resp)
		return verdict{outcome: responded, retry: !Mistyped(message) && !Unpatchable(message), serverError: true, retryAfter: retryAfter(resp), reason: reason + message}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if Aggregated(c.target.Group) {
			return aggregated()
		}
		return verdict{outcome: busy, retry: true, retryAfter: retryAfter(resp), reason: reason}
	}
	if resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode == http.StatusNotFound && !c.unserved(resp) {
		c.t.link.setServed(c.target.resource())
	}
	return verdict{outcome: responded}
}

func judgeError(err error, link *Link) verdict {
	var foreign *foreignError
	switch {
	case errors.As(err, &foreign) && !foreign.damaged && !link.state().responded: // the address may be wrong
		return verdict{}
	case errors.As(err, &foreign):
		return verdict{outcome: busy, retry: true, serverError: foreign.refusal, reason: foreign.reason}
	case untrusted(err):
		return verdict{}
	case noCredentials(err) && link.state().responded:
		return verdict{outcome: denied, retry: true, reason: shortReason(err)}
	case noCredentials(err):
		return verdict{reason: shortReason(err)}
	case errors.Is(err, errNotSent):
		return verdict{}
	case errors.Is(err, errNoResponse):
		return verdict{outcome: hung, retry: true, reason: shortReason(err)}
	case notSent(err) && !link.state().connected: // the address may be wrong
		return verdict{reason: shortReason(err)}
	case notSent(err):
		return verdict{outcome: refused, retry: true, reason: shortReason(err)}
	}
	return verdict{outcome: lost, retry: true, reason: shortReason(err)}
}
