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

// TestAggregatedAPIIsDown lets an aggregated API respond with 503. Its requests are retried like those that get server
// errors, and the retries name its APIService. The API server does not count as unreachable, and other requests do not
// wait (R53).
func TestAggregatedAPIIsDown(t *testing.T) {
	for _, path := range []string{thingPath, "/apis/things.example/v1"} {
		synctest.Test(t, func(t *testing.T) {
			x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/apis/things.example/") {
					return response(503, "service unavailable"), nil
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, true
			var outages, retries []string
			defer x.link.Listen(Listener{
				Unreachable: func(_, _ time.Time, reason string) { outages = append(outages, reason) },
				Retrying:    func(_ Target, _ time.Time, answer string) { retries = append(retries, answer) },
			})()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					start := time.Now()
					resp, err := x.RoundTrip(request(t.Context(), "GET", path, ""))
					if err != nil || resp.StatusCode != 503 || time.Since(start) > 40*time.Second {
						t.Errorf("%s: %v, %v after %s", path, resp, err, time.Since(start))
					}
				})
			}
			for range 30 {
				start := time.Now()
				if resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil || resp.StatusCode != 200 || time.Since(start) > 0 {
					t.Errorf("another request: %v, %v after %s", resp, err, time.Since(start))
				}
				time.Sleep(time.Second)
			}
			wg.Wait()
			if len(outages) > 0 {
				t.Errorf("%s: the API server counts as unreachable: %q", path, outages)
			}
			if len(retries) == 0 || retries[0] != "APIService/v1.things.example does not respond: 503 Service Unavailable" {
				t.Errorf("%s: the reasons for retries are %.3q", path, retries)
			}
		})
	}
}

// TestAggregatedAPIDuringOutage lets a proxy respond with 503 while the API server is down. Requests to an aggregated API
// then wait as long as all others (R53).
func TestAggregatedAPIDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		x, _ := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
			if time.Since(start) < 2*time.Minute { // longer than server errors are retried
				return response(503, ""), nil
			}
			return response(200, someObject), nil
		})
		x.link.connected, x.link.responded = true, true
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
