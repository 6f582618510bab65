package main

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// requests counts what is sent, and what comes back.
type requests struct {
	all, watches, writes, refused, bytes, watched atomic.Int64

	mu sync.Mutex
	by map[string]int64
}

// Counts are what was counted so far.
type Counts struct {
	Requests int64 `json:"requests"`
	Watches  int64 `json:"watches"` // of the requests, those that watch
	Writes   int64 `json:"writes"`
	Refused  int64 `json:"refused"` // for now, with 429
	Bytes    int64 `json:"bytes"`   // of answers, as they are before they are compressed
	Watched  int64 `json:"watched"` // of the bytes, those of watches
	// By are the requests by method and resource: "PATCH configmaps",
	// "WATCH pods".
	By map[string]int64 `json:"by"`
}

func (r *requests) counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Counts{r.all.Load(), r.watches.Load(), r.writes.Load(), r.refused.Load(), r.bytes.Load(), r.watched.Load(), maps.Clone(r.by)}
}

func (c Counts) since(before Counts) Counts {
	by := map[string]int64{}
	for what, n := range c.By {
		if n -= before.By[what]; n > 0 {
			by[what] = n
		}
	}
	return Counts{c.Requests - before.Requests, c.Watches - before.Watches, c.Writes - before.Writes, c.Refused - before.Refused,
		c.Bytes - before.Bytes, c.Watched - before.Watched, by}
}

// count wraps a transport.
func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(q *http.Request) (*http.Response, error) {
		r.all.Add(1)
		method, into := q.Method, []*atomic.Int64{&r.bytes}
		switch {
		case q.URL.Query().Get("watch") != "":
			r.watches.Add(1)
			method = "WATCH"
			into = append(into, &r.watched)
		case q.Method != http.MethodGet && q.Method != http.MethodHead:
			r.writes.Add(1)
		}
		r.note(method + " " + resource(q.URL.Path))
		resp, err := next.RoundTrip(q)
		if err != nil {
			return resp, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			r.refused.Add(1)
		}
		resp.Body = &counting{resp.Body, into}
		return resp, nil
	})
}

func (r *requests) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int64{}
	}
	r.by[what]++
}

// resource is what a path is about: "configmaps" of
// /api/v1/namespaces/shop/configmaps/config, the path itself where it is about none.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return path
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return parts[0]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// counting counts what is read.
type counting struct {
	io.ReadCloser
	into []*atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	for _, to := range c.into {
		to.Add(int64(n))
	}
	return n, err
}
