package connect

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// isWatch reports whether a request is a watch.
func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

// hang responds when the request ends.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// watchSecrets opens watches, one after another, until the test ends.
func watchSecrets(t *testing.T, x *transport, watches *sync.WaitGroup, until time.Time) {
	for range 4 {
		watches.Go(func() {
			for time.Now().Before(until) {
				if resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath+"?watch=true", "")); err == nil {
					resp.Body.Close()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// TestHungWatches: a proxy buffers watches. They say nothing about an API server that responds to all other requests (R53).
func TestHungWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) {
				return hang(r)
			}
			return response(200, someObject), nil
		})
		x.link.connected, x.link.responded = true, true
		var told []string
		defer x.link.Listen(Listener{Unreachable: func(_, _ time.Time, reason string) { told = append(told, reason) }})()
		var watches sync.WaitGroup
		watchSecrets(t, x, &watches, time.Now().Add(2*time.Minute))
		for range 60 {
			time.Sleep(2 * time.Second)
			start := time.Now()
			if resp, err := x.RoundTrip(request(t.Context(), "PUT", secretsPath+"/x", `{"metadata":{"name":"x"}}`)); err != nil || resp.StatusCode != 200 || time.Since(start) > 0 {
				t.Errorf("%v, %v after %s", resp, err, time.Since(start))
			}
		}
		watches.Wait()
		if len(told) > 0 {
			t.Errorf("the API server counts as unreachable: %q", told)
		}
	})
}

// TestHungWatchesAfterOutage: watches that get no response do not keep other requests from finding out that an outage is over (R53).
func TestHungWatchesAfterOutage(t *testing.T) {
	for n := range 10 {
		synctest.Test(t, func(t *testing.T) {
			outage := 20*time.Second + time.Duration(n)*300*time.Millisecond
			start := time.Now()
			x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
				switch {
				case time.Since(start) < outage:
					return nil, errRefused
				case isWatch(r):
					return hang(r)
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, true
			var watches sync.WaitGroup
			watchSecrets(t, x, &watches, start.Add(time.Minute))
			time.Sleep(time.Second)
			for range 5 {
				if resp, err := x.RoundTrip(request(t.Context(), "PUT", secretsPath+"/x", `{"metadata":{"name":"x"}}`)); err != nil || resp.StatusCode != 200 {
					t.Errorf("%v, %v", resp, err)
				}
			}
			if late := time.Since(start) - outage; late > 2*silence+maxProbeBackoff {
				t.Errorf("the end of the outage was found %s late", late)
			}
			watches.Wait()
		})
	}
}
