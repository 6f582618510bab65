package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutage makes the API server unreachable for a while, with many running requests. One at a time probes it, and the
// others are released gradually afterwards. Listeners learn when the outage starts and ends (R53).
func TestOutage(t *testing.T) {
	for _, how := range []string{"refused", "reset", "lookup", "503"} {
		synctest.Test(t, func(t *testing.T) {
			const requests, outage = 300, 20 * time.Second
			start := time.Now()
			var mu sync.Mutex
			probes, burst := 0, map[time.Duration]int{}
			x, n := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				since := time.Since(start)
				if since > outage {
					burst[since.Truncate(100*time.Millisecond)]++
					return response(200, someObject), nil
				}
				probes++
				switch how {
				case "refused":
					return nil, errRefused
				case "reset":
					return nil, errReset
				case "lookup":
					return nil, errLookup
				}
				return response(503, ""), nil
			})
			x.link.connected, x.link.responded = true, true
			var calls []string
			defer x.link.Listen(Listener{
				Unreachable: func(since, _ time.Time, reason string) {
					calls = append(calls, fmt.Sprint("unreachable ", since.Sub(start).Round(time.Second), " ", reason))
				},
				Reachable: func() { calls = append(calls, "reachable") },
			})()
			slots := make(chan bool, 32) // a run sends as many requests at a time
			var wg sync.WaitGroup
			for i := range requests {
				slots <- true
				wg.Go(func() {
					defer func() { <-slots }()
					if resp, err := x.RoundTrip(request(t.Context(), "PATCH", fmt.Sprintf("%s/x%d", secretsPath, i), "{}")); err != nil || resp.StatusCode != 200 {
						t.Errorf("%s: %v, %v", how, resp, err)
					}
				})
			}
			wg.Wait()
			if len(calls) != 2 || !strings.HasPrefix(calls[0], "unreachable 0s ") || calls[1] != "reachable" {
				t.Errorf("%s: listener calls are %q", how, calls)
			}
			if probes > 64+20 || n.Load() > requests+requests/2 {
				t.Errorf("%s: %d requests during the outage, %d in total for %d", how, probes, n.Load(), requests)
			}
			t.Logf("%s: %d requests during the outage, %d in total; then %v", how, probes, n.Load(), burst)
		})
	}
}

// TestShortDeadlineStillProbes expects that a request whose deadline is shorter than the pause of a prober is sent anyway
// and so finds out that an outage is over (R53). The Lease is released with such requests, after all others.
func TestShortDeadlineStillProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := true
		x, _ := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
			if unreachable {
				return response(503, ""), nil
			}
			return response(200, someObject), nil
		})
		x.link.connected, x.link.responded = true, true
		for range 12 { // within the five minutes of operationContext
			unreachable = true
			outage, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if resp, err := x.RoundTrip(request(outage, "PUT", secretsPath+"/x", "{}")); err == nil && resp.StatusCode == 200 {
				t.Fatal("a response during the outage")
			}
			cancel()
			unreachable = false
			short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			if resp, err := x.RoundTrip(request(short, "DELETE", secretsPath+"/x", "")); err != nil || resp.StatusCode != 200 {
				t.Errorf("after the outage: %v", err)
			}
			cancel()
		}
	})
}

// TestRequestThatBreaksConnections expects that a request that always resets its connection does not hold up others (R53).
func TestRequestThatBreaksConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(operationContext(t), time.Minute)
		defer cancel()
		x, _ := newTestTransport(ctx, func(_ int, r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/bad") {
				return nil, errReset
			}
			time.Sleep(10 * time.Millisecond)
			return response(200, someObject), nil
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := x.RoundTrip(request(ctx, "GET", secretsPath+"/bad", "")); err == nil || !strings.Contains(err.Error(), "connection reset") {
				t.Errorf("the request ended with %v", err)
			}
		})
		start := time.Now()
		for i := range 100 {
			if _, err := x.RoundTrip(request(ctx, "GET", fmt.Sprint(secretsPath, "/", i), "")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("the other requests took %s", took)
		}
		wg.Wait()
	})
}

// TestNoResponse lets the server not respond, or respond byte by byte. The try is ended and the next one succeeds; if none
// does, the timeout of the operation ends the request. A long response that arrives steadily is read to its end (R53).
func TestNoResponse(t *testing.T) {
	trickle := func(r *http.Request, size int, pause time.Duration) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&slowBody{r.Context(), size, pause})}
	}
	tests := map[string]struct {
		do    func(n int, r *http.Request) (*http.Response, error)
		fails bool
	}{
		"never, once": {func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return response(200, someObject), nil
		}, false},
		"byte by byte, once": {func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return trickle(r, 1<<20, time.Second), nil
			}
			return response(200, someObject), nil
		}, false},
		"a slow webhook": {func(n int, r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(25 * time.Second):
				return response(200, someObject), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}, false},
		"long and steady": {func(n int, r *http.Request) (*http.Response, error) {
			if n > 1 {
				return nil, errors.New("the try was ended")
			}
			return trickle(r, 40*chunk, time.Second/2/(chunk/slowStep)), nil
		}, false},
		"never": {func(n int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, true},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(operationContext(t), 2*time.Minute, errors.New("timed out (--timeout)"))
			defer cancel()
			x, _ := newTestTransport(ctx, tt.do)
			x.link.connected, x.link.responded = true, true
			resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, ""))
			if tt.fails {
				if err == nil || !strings.Contains(err.Error(), "timed out (--timeout)") || !strings.Contains(err.Error(), "no complete response within ") {
					t.Errorf("%s: the request ended with %v", name, err)
				}
			} else if err != nil || resp.StatusCode != 200 {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
		})
	}
}

const slowStep = chunk / 4

// slowBody is a response body that arrives in small steps.
type slowBody struct {
	ctx   context.Context
	left  int
	pause time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := min(len(p), b.left, slowStep)
	if b.pause >= time.Second {
		n = 1
	}
	b.left -= n
	return n, nil
}

// TestKnownServer: if the address is known to be right, the first request waits for an outage to end, too (R53).
func TestKnownServer(t *testing.T) {
	for _, err := range []error{errRefused, errLookup, errReset} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			x, _ := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
				if time.Since(start) < time.Minute {
					return nil, err
				}
				return response(200, someObject), nil
			})
			x.link.KnowServer()
			if resp, err := x.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 {
				t.Errorf("%v after %s: %v", resp, time.Since(start), err)
			}
		})
	}
}

// TestFirstContact expects that a request fails soon if the API server never responded, and at once if it refuses the
// connection, because the address may be wrong. Once a connection was accepted, both failures are retried (R53).
func TestFirstContact(t *testing.T) {
	for err, want := range map[error]time.Duration{errRefused: 0, errLookup: 0, errReset: 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			x, tries := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) { return nil, err })
			var unreachable bool
			defer x.link.Listen(Listener{Unreachable: func(time.Time, time.Time, string) { unreachable = true }})()
			start := time.Now()
			_, got := x.RoundTrip(request(t.Context(), "GET", "/version", ""))
			if took := time.Since(start); got == nil || got.Error() != err.Error() || took < want || took > want+4*time.Second {
				t.Errorf("%v after %s", got, took)
			}
			if want == 0 && (tries.Load() != 1 || unreachable) {
				t.Errorf("%d tries, unreachable: %v", tries.Load(), unreachable)
			}
			if x.writes.Any() {
				t.Error("a GET counts as a write")
			}
			z, _ := newTestTransport(operationContext(t), func(n int, _ *http.Request) (*http.Response, error) {
				switch {
				case n == 1:
					return nil, errReset
				case n < 5:
					return nil, err
				}
				return response(200, someObject), nil
			})
			if resp, err := z.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 {
				t.Errorf("after an accepted connection: %v, %v", resp, err)
			}
			y, _ := newTestTransport(operationContext(t), func(n int, _ *http.Request) (*http.Response, error) {
				if n > 1 && n < 10 {
					return nil, err
				}
				return response(200, someObject), nil
			})
			for range 2 {
				if resp, err := y.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 {
					t.Errorf("after a response: %v, %v", resp, err)
				}
			}
		})
	}
}

// TestSilentKubelet: a log that a kubelet does not send says nothing about the API server (R53).
func TestSilentKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		x.link.connected, x.link.responded = true, true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := x.RoundTrip(request(ctx, "GET", "/api/v1/namespaces/n/pods/p/log", "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if x.link.state().unreachable {
			t.Error("unreachable because of a log")
		}
	})
}

// TestSilence: a connection hangs, as in a network that drops packets. One request without a response shows that, such as the
// renewal of a Lease, unless the API server responds to others meanwhile: then only this request is slow (R53).
func TestSilence(t *testing.T) {
	for _, others := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
				if time.Since(start) < 25*time.Second && r.Method == "PUT" {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, true
			var calls []string
			defer x.link.Listen(Listener{
				Unreachable: func(since, proven time.Time, reason string) {
					calls = append(calls, fmt.Sprint("unreachable since ", since.Sub(start), ", proven at ", proven.Sub(start), ": ", reason))
				},
				Reachable: func() { calls = append(calls, "reachable") },
			})()
			if _, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil {
				t.Error(err)
			}
			time.Sleep(4 * time.Second)
			if others {
				time.AfterFunc(2*time.Second, func() { _, _ = x.RoundTrip(request(t.Context(), "GET", secretsPath, "")) })
			}
			renew := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := x.RoundTrip(request(ctx, "PUT", secretsPath+"/x", `{"metadata":{"name":"x"}}`))
				return err
			}
			if err := renew(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("others respond %t: %v", others, err)
			}
			want := []string{"unreachable since 4s, proven at 0s: no response within 5s"}
			if others {
				want = nil
			}
			if !slices.Equal(calls, want) {
				t.Errorf("others respond %t: %q, want %q", others, calls, want)
			}
			time.Sleep(30 * time.Second)
			if err := renew(); err != nil {
				t.Error(err)
			}
			if state := x.link.state(); state.unreachable {
				t.Errorf("others respond %t: unreachable after a response", others)
			}
		})
	}
}
