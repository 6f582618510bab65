package connect

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const thingPath = "/apis/things.example/v1/namespaces/n/things/x"

// TestAnAPIApartIsAway has somebody else's API answer with 503: its requests are tried
// for as long as errors are, and say whose API it is; the API server is not away, and
// nobody else waits (R53).
func TestAnAPIApartIsAway(t *testing.T) {
	for _, path := range []string{thingPath, "/apis/things.example/v1"} {
		synctest.Test(t, func(t *testing.T) {
			x, _ := over(bound(t), func(_ int, r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/apis/things.example/") {
					return says(503, "service unavailable"), nil
				}
				return says(200, "{}"), nil
			})
			x.link.known = true
			var away, told []string
			defer x.link.Listen(Listener{
				Away:   func(_ time.Time, reason string) { away = append(away, reason) },
				Trying: func(_ Target, _ time.Time, answer string) { told = append(told, answer) },
			})()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					begun := time.Now()
					resp, err := x.RoundTrip(request(t.Context(), "GET", path, ""))
					if err != nil || resp.StatusCode != 503 || time.Since(begun) > 40*time.Second {
						t.Errorf("%s: %v, %v after %s", path, resp, err, time.Since(begun))
					}
				})
			}
			for range 30 {
				begun := time.Now()
				if resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil || resp.StatusCode != 200 || time.Since(begun) > 0 {
					t.Errorf("another request: %v, %v after %s", resp, err, time.Since(begun))
				}
				time.Sleep(time.Second)
			}
			wg.Wait()
			if len(away) > 0 {
				t.Errorf("%s: the API server is said to be away: %q", path, away)
			}
			if len(told) == 0 || told[0] != "APIService/v1.things.example does not answer: 503 Service Unavailable" {
				t.Errorf("%s: told was %.3q", path, told)
			}
		})
	}
}

// TestAnAPIApartIsAwayWithAll waits for somebody else's API as for all others where the
// API server is away itself, behind something that answers with 503 (R53).
func TestAnAPIApartIsAwayWithAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		x, _ := over(bound(t), func(int, *http.Request) (*http.Response, error) {
			if time.Since(begun) < 2*time.Minute { // longer than errors are waited out
				return says(503, ""), nil
			}
			return says(200, "{}"), nil
		})
		x.link.known = true
		var wg sync.WaitGroup
		for _, path := range []string{thingPath, secretsPath + "/x"} {
			wg.Go(func() {
				if resp, err := x.RoundTrip(request(t.Context(), "PATCH", path, "{}")); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s: %v, %v", path, resp, err)
				}
			})
		}
		wg.Wait()
	})
}
