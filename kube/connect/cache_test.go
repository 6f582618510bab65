package connect

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCache sends each request three times at once. A cached one must reach the server only once, and again after a request
// that may have changed the response.
func TestCache(t *testing.T) {
	const (
		version = "GET /version"
		object  = "GET /api/v1/namespaces/n/configmaps/c"
		review  = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
		watch   = "GET /api/v1/configmaps?watch=true"
		dryRun  = "PATCH /api/v1/namespaces/n/configmaps/c?dryRun=All"
		crd     = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	)
	all := func(c *cache) { c.set(cacheAll) }
	kinds := func(c *cache) { c.set(cacheKinds) }
	for name, test := range map[string]struct {
		mode  func(*cache)
		asked map[string]int // how often a request reaches the server
	}{
		"nothing":      {func(*cache) {}, map[string]int{version: 3, object: 3, review: 3, watch: 3, dryRun: 3}},
		"all":          {all, map[string]int{version: 1, object: 1, review: 1, watch: 3, dryRun: 3}},
		"kinds":        {kinds, map[string]int{version: 1, object: 3, review: 3, watch: 3, dryRun: 3}},
		"kinds of all": {func(c *cache) { all(c); kinds(c) }, map[string]int{version: 1, object: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]int{}
			tr, _ := newTestTransport(t.Context(), func(_ int, r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.Method+" "+r.URL.RequestURI()]++
				return response(http.StatusOK, kindOf(r.URL.Path)), nil
			})
			test.mode(&tr.link.cache)
			send := func(line string) {
				method, path, _ := strings.Cut(line, " ")
				r := request(t.Context(), method, path, "{}")
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != kindOf(r.URL.Path) {
					t.Errorf("%s: %q, %v", line, body, err)
				}
				resp.Body.Close()
			}
			var wg sync.WaitGroup
			for line := range test.asked {
				for range 3 {
					wg.Go(func() { send(line) })
				}
			}
			wg.Wait()
			for line, want := range test.asked {
				if got := asked[line]; got != want {
					t.Errorf("%s: the server was asked %d times, want %d", line, got, want)
				}
			}
			if name == "nothing" {
				return
			}
			send(crd)
			send(version)
			if got := asked[version]; got != 2 {
				t.Errorf("after a new kind: the server was asked %d times, want 2", got)
			}
		})
	}
}

// TestKeepKinds: a connection that keeps its kinds asks once for the version and the kinds, however they are asked for, and for all
// else as often as it is asked. It asks again once a kind was not found, or was changed.
func TestKeepKinds(t *testing.T) {
	asked := map[string]int{}
	tr, _ := newTestTransport(t.Context(), func(_ int, r *http.Request) (*http.Response, error) {
		asked[r.Method+" "+r.URL.Path]++
		return response(http.StatusOK, kindOf(r.URL.Path)), nil
	})
	tr.kinds.set(cacheServed)
	send := func(method string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, err := tr.RoundTrip(request(t.Context(), method, path, "{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	send("GET", "/version", "/version?timeout=1h", "/api", "/api", "/apis", "/apis", "/openapi/v3", "/openapi/v3", "/apis/apps/v1", "/apis/apps/v1", crds, crds)
	want := map[string]int{"GET /version": 1, "GET /api": 1, "GET /apis": 1, "GET /openapi/v3": 2, "GET /apis/apps/v1": 2, "GET " + crds: 2}
	if !maps.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if !tr.kinds.isOn() {
		t.Error("a read has ended it")
	}
	run, runs := newTestTransport(t.Context(), func(_ int, r *http.Request) (*http.Response, error) {
		return response(http.StatusOK, kindOf(r.URL.Path)), nil
	})
	run.kinds.set(cacheServed)
	for _, age := range []time.Duration{0, maxAge} { // a run after its checks, then a later one
		tr.kinds.since = tr.kinds.since.Add(-age)
		run.kinds.entries = nil
		run.kinds.take(&tr.kinds)
		if _, err := run.RoundTrip(request(t.Context(), "GET", "/apis", "{}")); err != nil || (runs.Load() == 0) != (age == 0) {
			t.Errorf("%v after the checks, their kinds were not taken over as they should: %d requests, %v", age, runs.Load(), err)
		}
	}
	tr.bypassCache.Store(true)
	if send("GET", "/apis"); asked["GET /apis"] != 2 {
		t.Error("after a kind was not found, the kinds were not read again")
	}
	tr.bypassCache.Store(false)
	send("POST", crds)
	if send("GET", "/apis"); asked["GET /apis"] != 3 || tr.kinds.isOn() {
		t.Error("after a new kind, the kinds were not read again")
	}
}

// kindOf returns an object that names a path.
func kindOf(path string) string { return fmt.Sprintf(`{"kind":%q}`, path) }
