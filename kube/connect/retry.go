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

// limits are how long a request is repeated; 0 is until its context ends.
type limits struct {
	first  time.Duration // while this API server has never answered: its address may be wrong
	away   time.Duration // while it does not answer
	errors time.Duration // while its answer is its own error (500)
	full   time.Duration // while it has too much to do (429)
}

// firstContact is how long an API server is tried that has never answered.
const firstContact = 10 * time.Second

type limitsKey struct{}

// WithPatience returns a context for Bind with which a request that the API
// server answers with its own error (500), or that it has too much to do (429),
// is repeated for so long. Of errors the shortest that has been said counts: the next
// answer will be the same. Who has too much to do asks to be called again: there it is
// the longest.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	l, said := ctx.Value(limitsKey{}).(limits)
	switch {
	case !said && d <= 0:
		l = limitsOf(ctx)
	case !said:
		l.errors, l.full = d, d
	case d > 0:
		l.errors, l.full = min(l.errors, d), max(l.full, d)
	}
	return context.WithValue(ctx, limitsKey{}, limits{first: firstContact, errors: l.errors, full: l.full})
}

// limitsOf are those of requests that are bound to a context. What is bound to
// none, a status that somebody asks for, is not worth waiting for long.
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
	target  Target // as the path says
	about   Target // with the name of what is being created
	writes  bool
	streams bool // the answer has no end: a watch, a log that is followed

	began     time.Time
	tries     int
	erring    time.Time // since when it is answered with errors of the server's own, or that it has too much to do
	refreshed bool      // its credentials
	// doubt means that an earlier try may have come through although it failed,
	// reached that one may have come to an API server.
	doubt, reached bool
}

func newCall(t *transport, r *http.Request) (*call, error) {
	q := r.URL.Query()
	watch := q.Get("watch")
	target := targetOf(t.server, r.URL.Path)
	c := &call{
		t: t, request: r, target: target, began: time.Now(),
		writes: writes(r, target), streams: watch == "true" || watch == "1" || q.Get("follow") == "true",
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

// Rule R53: what may pass is tried again, until a timeout
//
// do sends the request until its answer is final. A stream is not begun again:
// whoever reads it knows from where.
func (c *call) do(ctx context.Context) (*http.Response, error) {
	waits, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	winding := run.Winding(c.t.ctx)
	defer context.AfterFunc(winding, func() { cancel(context.Cause(winding)) })()
	var resp *http.Response
	var err, last error
	for {
		pass, ended := c.enter(waits)
		if ended != nil {
			return c.giveUp(resp, err, ended)
		}
		next, made := c.t.below()
		var sent time.Time
		sent, resp, err = try(ctx, next, c.again(ctx), min(lastLimit, firstLimit<<min(c.tries, 5)), c.streams, c.t.plugin)
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
		if c.enough(v) {
			return c.giveUp(resp, err, nil)
		}
		if !c.erring.IsZero() {
			c.t.link.trying(c.t.writes, c.about, c.erring, v.reason)
		}
		c.tries++
		pause := v.asked
		if !closed { // else the gate sees to it
			pause = max(pause, backoff(c.tries-1, lastPause))
		}
		if ended := sleep(waits, pause); ended != nil {
			return c.giveUp(resp, err, ended)
		}
	}
}

// again is the request as it is sent: the first time, and each further one.
func (c *call) again(ctx context.Context) *http.Request {
	r := c.request.Clone(ctx)
	if c.body != nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(c.body))
	}
	return r
}

// enough reports whether the request has been repeated for long enough.
func (c *call) enough(v verdict) bool {
	l, now := c.t.limits, time.Now()
	over := func(since time.Time, limit time.Duration) bool { return limit > 0 && now.Sub(since) >= limit }
	erring := v.erring && !(v.apart && c.t.link.isAway()) // else it is not that API alone
	switch {
	case !erring:
		c.erring = time.Time{}
	case c.erring.IsZero():
		c.erring = now
	}
	most := l.errors
	if v.full {
		most = l.full
	}
	return over(c.began, l.away) || !c.t.link.known() && over(c.began, l.first) ||
		erring && over(c.erring, most) || c.target.aggregated() && c.tries+1 >= aggregatedTries
}

// giveUp ends the call with what came of its last try.
func (c *call) giveUp(resp *http.Response, err, ended error) (*http.Response, error) {
	switch {
	case resp != nil && err == nil:
		resp.Header.Del("Retry-After") // client-go would go on
		return resp, nil
	case err == nil:
		return nil, fmt.Errorf("%w: %w", errEnded, ended)
	}
	return nil, &unanswered{last: err, ended: ended}
}

// unanswered is why there is no answer. client-go is not to see the last error
// itself: it would continue trying.
type unanswered struct{ last, ended error }

func (u *unanswered) Error() string {
	if u.ended == nil {
		return u.last.Error()
	}
	return fmt.Sprintf("%v: the API server is not responding: %v", u.ended, u.last)
}

func (u *unanswered) Unwrap() error { return u.ended }

// verdict is what a try tells.
type verdict struct {
	outcome outcome
	again   bool          // it may be repeated
	erring  bool          // the answer is an error of the API server's own, or that it has too much to do
	full    bool          // it is the latter
	apart   bool          // the answer is that of an API which somebody else may serve
	asked   time.Duration // how long the server wants to be left alone
	reason  string
}

// judge tells what may pass from what is final. That an API is down which somebody else serves is an error of
// that API: the API server has answered.
func judge(of Target, resp *http.Response, err error, link *Link) verdict {
	if err != nil {
		return judgeError(err, link)
	}
	reason := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return verdict{outcome: there, again: true, erring: true, full: true, asked: retryAfter(resp), reason: reason + messageOf(resp)}
	case http.StatusInternalServerError:
		message := messageOf(resp)
		return verdict{outcome: there, again: !mistyped(message), erring: true, asked: retryAfter(resp), reason: reason + message}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if Aggregated(of.Group) {
			reason = fmt.Sprintf("%s does not answer: %s", of.apiService(), reason)
			return verdict{outcome: there, again: true, erring: true, apart: true, asked: retryAfter(resp), reason: reason}
		}
		return verdict{outcome: busy, again: true, asked: retryAfter(resp), reason: reason}
	}
	return verdict{outcome: there}
}

func judgeError(err error, link *Link) verdict {
	switch {
	case untrusted(err):
		return verdict{}
	case noCredentials(err), !resolved(err):
		return verdict{again: link.known(), reason: shortReason(err)}
	case errors.Is(err, errEnded):
		return verdict{}
	case notSent(err) && !link.found(): // the address may be wrong
		return verdict{reason: shortReason(err)}
	case notSent(err):
		return verdict{outcome: refused, again: true, reason: shortReason(err)}
	}
	return verdict{outcome: lost, again: true, reason: shortReason(err)}
}
