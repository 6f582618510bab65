package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"lockstep/engine/run"
)

// limits are how long a request is retried; 0 means until its context ends.
type limits struct {
	first  time.Duration // if this API server never responded: the address may be wrong
	away   time.Duration // while it does not respond
	errors time.Duration // while it responds with an internal error (500)
	full   time.Duration // while it is overloaded (429)
}

// firstContact is how long to try an API server that never responded.
const firstContact = 10 * time.Second

// dryRunErrors is the most that a dry run is retried after internal errors: one answer more tells
// little, and a webhook that cannot be called stays so for longer than anybody waits for a plan.
const dryRunErrors = 2 * time.Second

type limitsKey struct{}

// WithRetryTimeout returns a context for Bind that limits how long a request is retried after an internal error (500)
// or an overload (429) of the API server. If it is called several times, the shortest limit counts for internal
// errors, which tend to stay, and the longest for overloads, which pass.
func WithRetryTimeout(ctx context.Context, d time.Duration) context.Context {
	l, set := ctx.Value(limitsKey{}).(limits)
	switch {
	case !set && d <= 0:
		l = limitsOf(ctx)
	case !set:
		l.errors, l.full = d, d
	case d > 0:
		l.errors, l.full = min(l.errors, d), max(l.full, d)
	}
	return context.WithValue(ctx, limitsKey{}, limits{first: firstContact, errors: l.errors, full: l.full})
}

// limitsOf returns the limits of a context. Requests whose context never ends, such as those
// of "status", are not retried for long.
func limitsOf(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	if ctx.Done() == nil {
		return limits{first: time.Second, away: 30 * time.Second, errors: 10 * time.Second, full: 10 * time.Second}
	}
	return limits{first: firstContact, errors: time.Minute, full: time.Minute}
}

// call is a request with all its tries.
type call struct {
	t       *transport
	request *http.Request
	body    []byte
	target  Target // of the path
	about   Target // with the name of a new object
	writes  bool
	streams bool // the response is a watch or a followed log
	dryRun  bool
	attempts
}

// attempts are the tries of a call so far.
type attempts struct {
	began     time.Time
	tries     int
	erring    time.Time // start of the internal errors or overload
	refreshed bool      // its credentials
	// doubt means that a failed try may have been carried out, reached that one may have reached an API server.
	doubt, reached bool
}

func newCall(t *transport, r *http.Request) (*call, error) {
	q := r.URL.Query()
	watch := q.Get("watch")
	target := targetOf(t.server, r.URL.Path)
	c := &call{
		t: t, request: r, target: target, attempts: attempts{began: time.Now()},
		writes: writes(r, target), streams: watch == "true" || watch == "1" || q.Get("follow") == "true",
		dryRun: q.Has("dryRun"),
	}
	if c.about = c.target; r.Body == nil {
		return c, nil
	}
	defer r.Body.Close()
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	c.nameCreated()
	return c, nil
}

// Rule R53: temporary failures are retried, until a timeout
//
// do sends the request until its response is final. It does not restart a stream, because
// only its reader knows where to continue.
func (c *call) do(ctx context.Context) (*http.Response, error) {
	waits, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping := run.RetryContext(c.t.ctx)
	defer context.AfterFunc(stopping, func() { cancel(context.Cause(stopping)) })()
	var resp *http.Response
	var err, last error
	for {
		pass, ended := c.enter(waits)
		if ended != nil {
			return c.giveUp(resp, err, ended)
		}
		next, made := c.t.current()
		var sent time.Time
		sent, resp, err = try(ctx, next, c.newRequest(ctx), min(lastLimit, firstLimit<<min(c.tries, 5)), c.streams, c.t.plugin)
		if c.tries == 0 {
			c.began = sent
		}
		v := judge(c.target, resp, err, c.t.link)
		if ctx.Err() != nil { // ctx ends the call, whatever the response
			v = verdict{}
		}
		closed := pass.end(v.outcome, sent, v.reason)
		if resp != nil && resp.StatusCode == http.StatusUnauthorized && !c.refreshed && c.t.refresh(made) {
			c.refreshed = true
			continue
		}
		if err != nil && ctx.Err() != nil {
			c.reached = c.reached || !notSent(err)
			if cause := context.Cause(ctx); last != nil {
				return nil, &unanswered{last: last, ended: cause}
			} else if !errors.Is(err, cause) {
				err = fmt.Errorf("%w (%w)", cause, err)
			}
			return nil, err
		}
		if last = err; !v.again || c.streams {
			return c.settle(ctx, resp, err)
		}
		c.doubt = c.doubt || resp != nil && resp.StatusCode >= http.StatusInternalServerError || err != nil && !notSent(err)
		c.reached = c.reached || resp != nil && (resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout) || err != nil && !notSent(err)
		if c.limitReached(v) {
			return c.giveUp(resp, err, nil)
		}
		if !c.erring.IsZero() {
			c.t.link.trying(c.t.writes, c.about, c.erring, v.reason)
		}
		c.tries++
		pause := v.asked
		if !closed { // a closed gate has its own pause
			pause = max(pause, backoff(c.tries-1, lastPause))
		}
		if ended := sleep(waits, pause); ended != nil {
			return c.giveUp(resp, err, ended)
		}
	}
}

// again returns a copy of the request to send.
func (c *call) newRequest(ctx context.Context) *http.Request {
	r := c.request.Clone(ctx)
	if c.body != nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(c.body))
	}
	return r
}

// limitReached reports whether the limit for retries is reached.
func (c *call) limitReached(v verdict) bool {
	l, now := c.t.limits, time.Now()
	over := func(since time.Time, limit time.Duration) bool { return limit > 0 && now.Sub(since) >= limit }
	erring := v.erring && !(v.apart && c.t.link.reach().away) // else the whole API server is away
	switch {
	case !erring:
		c.erring = time.Time{}
	case c.erring.IsZero():
		c.erring = now
	}
	most := l.errors
	switch {
	case v.full:
		most = l.full
	case c.dryRun && (most == 0 || most > dryRunErrors):
		most = dryRunErrors
	}
	return over(c.began, l.away) || !c.t.link.reach().known && over(c.began, l.first) ||
		erring && over(c.erring, most) || c.target.aggregated() && c.tries+1 >= aggregatedTries
}

// giveUp ends the call with the result of its last try.
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

// unanswered means that there is no response. It hides the last error from client-go, which would retry.
type unanswered struct{ last, ended error }

func (u *unanswered) Error() string {
	if u.ended == nil {
		return u.last.Error()
	}
	return fmt.Sprintf("%v: the API server is not responding: %v", u.ended, u.last)
}

func (u *unanswered) Unwrap() error { return u.ended }

// verdict is the meaning of a try's result.
type verdict struct {
	outcome outcome
	again   bool          // a retry may succeed
	erring  bool          // an internal error or an overload
	full    bool          // an overload
	apart   bool          // of an aggregated API
	asked   time.Duration // Retry-After
	reason  string
}

// judge decides whether a failure is temporary. If an aggregated API is down, that is an error
// of this API only, because the API server has responded.
func judge(of Target, resp *http.Response, err error, link *Link) verdict {
	if err != nil {
		return judgeError(err, link)
	}
	reason := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return verdict{outcome: responded, again: true, erring: true, full: true, asked: retryAfter(resp), reason: reason + messageOf(resp)}
	case http.StatusInternalServerError:
		message := messageOf(resp)
		return verdict{outcome: responded, again: !Mistyped(message), erring: true, asked: retryAfter(resp), reason: reason + message}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if Aggregated(of.Group) {
			reason = fmt.Sprintf("%s does not answer: %s", of.apiService(), reason)
			return verdict{outcome: responded, again: true, erring: true, apart: true, asked: retryAfter(resp), reason: reason}
		}
		return verdict{outcome: busy, again: true, asked: retryAfter(resp), reason: reason}
	}
	return verdict{outcome: responded}
}

func judgeError(err error, link *Link) verdict {
	switch {
	case untrusted(err):
		return verdict{}
	case noCredentials(err), !resolved(err):
		return verdict{again: link.reach().known, reason: shortReason(err)}
	case errors.Is(err, errNotSent):
		return verdict{}
	case notSent(err) && !link.reach().found: // the address may be wrong
		return verdict{reason: shortReason(err)}
	case notSent(err):
		return verdict{outcome: refused, again: true, reason: shortReason(err)}
	}
	return verdict{outcome: lost, again: true, reason: shortReason(err)}
}
