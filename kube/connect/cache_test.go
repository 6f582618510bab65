package connect

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
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

// kindOf returns an object that names a path.
func kindOf(path string) string { return fmt.Sprintf(`{"kind":%q}`, path) }
