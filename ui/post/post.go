// Package post posts to servers outside of the cluster, for traces and notices: it decides what is tried again, and when. Its
// errors do not have the URL, which may be a secret. The central type is Client. It imports nothing of lockstep.
package post

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	tries      = 3
	retryPause = time.Second // unless the server asks for a longer one
	maxAnswer  = 64 << 10    // bytes that are read of a response
)

// ErrNoAnswer is the error of a request that had no answer in time.
var ErrNoAnswer = errors.New("no answer")

// temporary is an error that another request may not have. after is the time that the server asks for before it, or 0.
type temporary struct {
	error
	after time.Duration
}

func (t temporary) Unwrap() error { return t.error }

// Again makes an error one after which Retry tries again.
func Again(err error) error { return temporary{err, 0} }

// busy are the statuses that are worth another request: those that OTLP calls retryable.
var busy = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// Client posts to one server.
type Client struct {
	http    http.Client
	closing chan struct{}
	once    sync.Once
}

// New returns a Client. It follows no redirects: another server would get the body and the headers, which may be credentials.
func New(t *http.Transport) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: http.Client{Transport: t, CheckRedirect: stay}, closing: make(chan struct{})}
}

// Close ends the retries: each request is sent once from now on.
func (c *Client) Close() { c.once.Do(func() { close(c.closing) }) }

// CloseIdle closes connections that are not used.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Retry calls try, and again while another request may succeed, after the pause that the server asks for.
func (c *Client) Retry(ctx context.Context, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		again, ok := errors.AsType[temporary](err)
		if !ok || n == tries {
			return err
		}
		select {
		case <-c.closing:
			return err
		case <-ctx.Done():
			return err
		case <-time.After(max(retryPause, again.after)):
		}
	}
}

// Do sends a request once and reads its response, with the trailers. Any status but 2xx is an error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection can be used again
	}
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok {
			err = sent.Err
		}
		if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() || errors.Is(err, context.Canceled) {
			err = ErrNoAnswer
		}
		return nil, Again(err)
	}
	switch err := errors.New(resp.Status); {
	case resp.StatusCode/100 == 2:
		return resp, nil
	case slices.Contains(busy, resp.StatusCode):
		return resp, temporary{err, retryAfter(resp.Header.Get("Retry-After"))}
	default:
		return resp, err
	}
}

// retryAfter reads a Retry-After header, in seconds or as a date, 0 if it is invalid or in the past.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}
