package connect

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// cache stores responses to reads, because operations that are planned together send the same ones: version, kinds,
// quotas, webhooks, permissions. The zero value stores nothing.
type cache struct {
	mu      sync.Mutex
	mode    cacheMode
	since   time.Time // when the mode was set
	size    int       // bytes of all bodies
	entries map[string]*cachedResponse
}

type cacheMode int

const (
	cacheNothing cacheMode = iota
	// cacheKinds stores the version and the served kinds, until a request changes the kinds.
	cacheKinds
	// cacheAll stores all reads.
	cacheAll
	// cacheServed stores the version and the lists of all kinds, but not the schemas, which are large.
	cacheServed
)

const (
	maxBody   = 4 << 20  // bytes of one response
	maxBodies = 64 << 20 // bytes of all responses
)

// cachedResponse is an entry of the cache. Its response and body may be read once done is closed. response is nil if the
// response was not stored.
type cachedResponse struct {
	done     chan struct{}
	kinds    bool // about the version or the served kinds
	response *http.Response
	body     []byte
}

// CacheAll makes the connection, and all that Bind makes from it, send each read only once. Use it while planning, which
// writes nothing.
func (c *Client) CacheAll() { c.link.cache.set(cacheAll) }

// CacheKinds stores only the version and the kinds that the cluster serves. A request that changes kinds turns the cache
// off. A connection stops using the cache when it does not find a kind.
func (c *Client) CacheKinds() { c.link.cache.set(cacheKinds) }

// KeepKinds makes this connection, but not those that Bind makes from it, ask only once for the version and the kinds that
// the cluster serves, until it changes a kind or does not find one. It is for connections that last as long as a plan or a run,
// in which Helm's action, its checks and the mapper would each ask.
func (c *Client) KeepKinds() {
	if l, err := c.Getter.load(); err == nil {
		l.transport.kinds.set(cacheServed)
	}
}

// maxAge is how old what a connection takes over by TakeKinds may be.
const maxAge = 10 * time.Second

// TakeKinds makes a connection that keeps its kinds start with those that another one has just read: a run that follows its
// checks at once asks for nothing that they have asked.
func (c *Client) TakeKinds(from *Client) {
	to, err := c.Getter.load()
	if err != nil {
		return
	}
	l, err := from.Getter.load()
	if err != nil || l.transport.bypassCache.Load() {
		return
	}
	to.transport.kinds.take(&l.transport.kinds)
}

func (a *cache) take(from *cache) {
	from.mu.Lock()
	defer from.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mode == from.mode && time.Since(from.since) < maxAge {
		a.since, a.size, a.entries = from.since, from.size, maps.Clone(from.entries)
	}
}

// CacheNothing turns the cache off.
func (c *Client) CacheNothing() { c.link.cache.set(cacheNothing) }

func (a *cache) set(mode cacheMode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode, a.since, a.size = mode, time.Now(), 0
	maps.DeleteFunc(a.entries, func(_ string, e *cachedResponse) bool {
		return mode == cacheNothing || mode == cacheKinds && !e.kinds
	})
	for _, e := range a.entries {
		a.size += len(e.body)
	}
}

func (a *cache) isOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mode != cacheNothing
}

// do answers a call from the cache, or sends it and stores the response.
func (a *cache) do(ctx context.Context, c *call, send func(context.Context) (*http.Response, error)) (*http.Response, error) {
	entry, first := a.find(c)
	if entry == nil {
		return send(ctx)
	}
	if first {
		resp, err := send(ctx)
		if err == nil {
			a.fill(entry, resp)
		}
		close(entry.done)
		return resp, err
	}
	select {
	case <-entry.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if entry.response == nil {
		return send(ctx)
	}
	resp := *entry.response
	resp.Header, resp.Request, resp.Body = entry.response.Header.Clone(), c.request, io.NopCloser(bytes.NewReader(entry.body))
	return &resp, nil
}

// find returns the entry for a call, or nil if the call must not be cached. If first is true, the caller must fill the
// entry and close done.
func (a *cache) find(c *call) (entry *cachedResponse, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kinds := c.target.Resource == ""
	switch {
	case c.writes && (c.target.Resource == "customresourcedefinitions" || c.target.Resource == "apiservices"):
		a.mode, a.entries = cacheNothing, nil
		return nil, false
	case a.mode == cacheNothing, a.mode != cacheAll && (!kinds || c.t.bypassCache.Load()), a.mode == cacheServed && !c.asksServed(),
		c.writes, c.streams, c.request.Method != http.MethodGet && !c.target.isReview():
		return nil, false
	}
	url := *c.request.URL
	if c.asksServed() {
		url.RawQuery = "" // the timeout of client-go's discovery
	}
	key := c.request.Method + " " + url.String() + "\n" + c.request.Header.Get("Accept") + "\n" + string(c.body)
	if entry := a.entries[key]; entry != nil {
		return entry, false
	}
	entry = &cachedResponse{done: make(chan struct{}), kinds: kinds}
	if a.entries == nil {
		a.entries = map[string]*cachedResponse{}
	}
	a.entries[key] = entry
	return entry, true
}

// asksServed reports whether the request reads the version, or all groups and kinds.
func (c *call) asksServed() bool {
	switch strings.TrimPrefix(c.request.URL.Path, c.t.path) {
	case "/version", "/api", "/apis":
		return true
	}
	return false
}

// fill stores a response, unless it is an error other than 403 or 404. The body is already in memory.
func (a *cache) fill(entry *cachedResponse, resp *http.Response) {
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusForbidden {
		return
	}
	body := peek(resp)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(body) <= maxBody && a.size+len(body) <= maxBodies {
		a.size += len(body)
		copied := *resp
		entry.body, entry.response = body, &copied
	}
}
