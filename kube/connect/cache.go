package connect

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// cache stores responses to reads. Operations that are planned together send the same ones:
// version, kinds, quotas, webhooks, permissions. Its zero value stores nothing.
type cache struct {
	mu      sync.Mutex
	mode    cacheMode
	size    int // bytes of all bodies
	answers map[string]*kept
}

type cacheMode int

const (
	cacheNothing cacheMode = iota
	// cacheKinds stores the version and the kinds that are served, until one is added.
	cacheKinds
	// cacheAll stores all reads.
	cacheAll
)

const (
	maxKept    = 4 << 20  // bytes of one response
	maxKeptAll = 64 << 20 // bytes of all responses
)

// kept is a stored response. It may be read once done is closed; response is nil if it was not stored.
type kept struct {
	done     chan struct{}
	kind     bool // of the version or a kind
	response *http.Response
	body     []byte
}

// CacheAll makes the connection, and all made from it by Bind, send each read once. It is for
// planning, which writes nothing.
func (c *Client) CacheAll() { c.link.cache.set(cacheAll) }

// CacheKinds drops all responses except the kinds that the cluster serves. Those are dropped
// when a request changes them, and read again when one is not found.
func (c *Client) CacheKinds() { c.link.cache.set(cacheKinds) }

// CacheNothing turns the cache off.
func (c *Client) CacheNothing() { c.link.cache.set(cacheNothing) }

func (a *cache) set(mode cacheMode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = mode
	answers := map[string]*kept{}
	a.size = 0
	for key, k := range a.answers {
		if mode == cacheAll || mode == cacheKinds && k.kind {
			answers[key] = k
			a.size += len(k.body)
		}
	}
	a.answers = answers
}

// do responds to a call from the cache, or calls ask and stores its response.
func (a *cache) do(ctx context.Context, c *call, ask func(context.Context) (*http.Response, error)) (*http.Response, error) {
	k, first := a.find(c)
	if k == nil {
		return ask(ctx)
	}
	if first {
		resp, err := ask(ctx)
		if err == nil {
			a.fill(k, resp)
		}
		close(k.done)
		return resp, err
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if k.response == nil {
		return ask(ctx)
	}
	resp := *k.response
	resp.Header, resp.Request, resp.Body = k.response.Header.Clone(), c.request, io.NopCloser(bytes.NewReader(k.body))
	return &resp, nil
}

// find returns the entry for a call, nil if it is not cached. The first caller fills it in.
func (a *cache) find(c *call) (k *kept, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := c.target.Resource == ""
	switch {
	case c.writes && (c.target.Resource == "customresourcedefinitions" || c.target.Resource == "apiservices"):
		a.mode, a.answers = cacheNothing, nil
		return nil, false
	case a.mode == cacheNothing, a.mode == cacheKinds && (!kind || c.t.bypassCache.Load()),
		c.writes, c.streams, c.request.Method != http.MethodGet && !c.target.isReview():
		return nil, false
	}
	key := c.request.Method + " " + c.request.URL.String() + "\n" + c.request.Header.Get("Accept") + "\n" + string(c.body)
	if k := a.answers[key]; k != nil {
		return k, false
	}
	k = &kept{done: make(chan struct{}), kind: kind}
	if a.answers == nil {
		a.answers = map[string]*kept{}
	}
	a.answers[key] = k
	return k, true
}

// fill stores a response, whose body is in memory. Errors of the server are not stored.
func (a *cache) fill(k *kept, resp *http.Response) {
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusForbidden {
		return
	}
	body := peek(resp)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(body) <= maxKept && a.size+len(body) <= maxKeptAll {
		a.size += len(body)
		copied := *resp
		k.body, k.response = body, &copied
	}
}
