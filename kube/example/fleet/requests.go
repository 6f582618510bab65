package main

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// requests counts requests and the bytes of their responses.
type requests struct {
	all, watches, writes, refused, bytes, watchBytes atomic.Int64

	mu sync.Mutex
	by map[string]int64 // as Counts.By
}

// Counts are the requests up to a point in time, or between two points.
type Counts struct {
	Requests int64 `json:"requests"`
	Watches  int64 `json:"watches"` // part of Requests
	Writes   int64 `json:"writes"`
	Refused  int64 `json:"refused"` // with status 429
	Bytes    int64 `json:"bytes"`   // of responses, uncompressed
	Watched  int64 `json:"watched"` // part of Bytes: from watches
	// By counts requests by method and resource: "PATCH configmaps", "WATCH pods".
	By map[string]int64 `json:"by"`
}

// counts returns a snapshot.
func (r *requests) counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Counts{r.all.Load(), r.watches.Load(), r.writes.Load(), r.refused.Load(), r.bytes.Load(), r.watchBytes.Load(), maps.Clone(r.by)}
}

// since subtracts an earlier snapshot.
func (c Counts) since(before Counts) Counts {
	by := map[string]int64{}
	for key, n := range c.By {
		if n -= before.By[key]; n > 0 {
			by[key] = n
		}
	}
	return Counts{c.Requests - before.Requests, c.Watches - before.Watches, c.Writes - before.Writes, c.Refused - before.Refused,
		c.Bytes - before.Bytes, c.Watched - before.Watched, by}
}

// count returns a transport that counts the requests to next.
func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		r.all.Add(1)
		method, into := req.Method, []*atomic.Int64{&r.bytes}
		switch {
		case req.URL.Query().Get("watch") != "":
			r.watches.Add(1)
			method = "WATCH"
			into = append(into, &r.watchBytes)
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			r.writes.Add(1)
		}
		r.note(method + " " + resource(req.URL.Path))
		resp, err := next.RoundTrip(req)
		if err != nil {
			return resp, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			r.refused.Add(1)
		}
		resp.Body = &countingBody{resp.Body, into}
		return resp, nil
	})
}

func (r *requests) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int64{}
	}
	r.by[key]++
}

// resource returns the resource in a path, such as configmaps in
// /api/v1/namespaces/shop/configmaps/config. It returns other paths unchanged.
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

// countingBody counts the bytes that are read from a body.
type countingBody struct {
	io.ReadCloser
	into []*atomic.Int64
}

func (c *countingBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	for _, to := range c.into {
		to.Add(int64(n))
	}
	return n, err
}
