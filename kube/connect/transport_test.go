package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wire is what is below the transport in these tests: what becomes of each try.
type fakeWire func(n int, r *http.Request) (*http.Response, error)

// over returns a transport over a wire, and the number of tries that have come to
// it.
func over(ctx context.Context, f fakeWire) (*transport, *atomic.Int32) {
	var n atomic.Int32
	next := roundTripper(func(r *http.Request) (*http.Response, error) { return f(int(n.Add(1)), r) })
	return &transport{ctx: ctx, writes: &Writes{}, link: newLink(), limits: limitsOf(ctx), next: next}, &n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func says(code int, body string, headers ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func status(code int, reason string) *http.Response {
	return says(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":"it says %s","code":%d}`, reason, reason, code))
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)

func request(ctx context.Context, method, path, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = io.NopCloser(strings.NewReader(body)) // as one that can be read once
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://cluster"+path, r)
	if err != nil {
		panic(err)
	}
	return req
}

// bound is a context such as that of an operation.
func bound(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(WithRetryTimeout(t.Context(), 30*time.Second), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const secretsPath = "/api/v1/namespaces/n/secrets"

// TestWhatPasses is what is tried again, with the body that was there at first,
// and what is not (R53).
func TestWhatPasses(t *testing.T) {
	fails := map[string]struct {
		do    func() (*http.Response, error)
		final bool
	}{
		"429":            {do: func() (*http.Response, error) { return says(429, "", "Retry-After", "1"), nil }},
		"500":            {do: func() (*http.Response, error) { return status(500, "InternalError"), nil }},
		"leader changed": {do: func() (*http.Response, error) { return says(500, `{"message":"etcdserver: leader changed"}`), nil }},
		"502":            {do: func() (*http.Response, error) { return says(502, "bad gateway"), nil }},
		"503":            {do: func() (*http.Response, error) { return says(503, "no endpoints", "Retry-After", "2"), nil }},
		"504":            {do: func() (*http.Response, error) { return says(504, ""), nil }},
		"refused":        {do: func() (*http.Response, error) { return nil, errRefused }},
		"reset":          {do: func() (*http.Response, error) { return nil, errReset }},
		"closed":         {do: func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }},
		"answer cut": {do: func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(&cutShort{})}, nil
		}},
		"400":             {do: func() (*http.Response, error) { return status(400, "BadRequest"), nil }, final: true},
		"403":             {do: func() (*http.Response, error) { return status(403, "Forbidden"), nil }, final: true},
		"404":             {do: func() (*http.Response, error) { return status(404, "NotFound"), nil }, final: true},
		"409":             {do: func() (*http.Response, error) { return status(409, "Conflict"), nil }, final: true},
		"422":             {do: func() (*http.Response, error) { return status(422, "Invalid"), nil }, final: true},
		"401, no renewal": {do: func() (*http.Response, error) { return status(401, "Unauthorized"), nil }, final: true},
	}
	for name, fail := range fails {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			synctest.Test(t, func(t *testing.T) {
				body := `{"metadata":{"name":"x"}}`
				if method == "GET" {
					body = ""
				}
				var bodies []string
				x, n := over(bound(t), func(n int, r *http.Request) (*http.Response, error) {
					if r.Body != nil {
						b, _ := io.ReadAll(r.Body)
						bodies = append(bodies, string(b))
					}
					if n <= 2 {
						return fail.do()
					}
					return says(200, "{}"), nil
				})
				x.link.known = true
				resp, err := x.RoundTrip(request(t.Context(), method, secretsPath, body))
				want, tries := 200, int32(3)
				if fail.final {
					refused, _ := fail.do()
					want, tries = refused.StatusCode, 1
				}
				if err != nil || resp.StatusCode != want || n.Load() != tries {
					t.Errorf("%s %s: %v, %v after %d tries, want %d after %d", name, method, resp, err, n.Load(), want, tries)
				}
				for _, b := range bodies {
					if b != body {
						t.Errorf("%s %s: a try had the body %q", name, method, b)
					}
				}
			})
		}
	}
}

// cutShort is an answer that ends in the middle.
type cutShort struct{ begun bool }

func (c *cutShort) Read(p []byte) (int, error) {
	if c.begun {
		return 0, errReset
	}
	c.begun = true
	return copy(p, `{"kin`), nil
}

// TestRetryAfterIsHonoured waits as long as the server asks (R53).
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := over(bound(t), func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return says(429, "", "Retry-After", "7"), nil
			}
			return says(200, "{}"), nil
		})
		begun := time.Now()
		if _, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 7*time.Second || took > 10*time.Second {
			t.Errorf("it was tried again after %s", took)
		}
	})
}

// TestChecksWaitForWhoHasTooMuchToDo is that of the checks before an operation: errors
// of the server's own end them early, that it has too much to do does not (R53).
func TestChecksWaitForWhoHasTooMuchToDo(t *testing.T) {
	for code, want := range map[int]time.Duration{429: time.Minute, 500: 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx := WithRetryTimeout(WithRetryTimeout(WithRetryTimeout(t.Context(), 15*time.Second), time.Minute), 0)
			x, _ := over(ctx, func(int, *http.Request) (*http.Response, error) { return says(code, "{}", "Retry-After", "1"), nil })
			begun := time.Now()
			if resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil || resp.StatusCode != code {
				t.Errorf("%v, %v", resp, err)
			}
			if took := time.Since(begun); took < want || took > want+10*time.Second {
				t.Errorf("%d is waited out for %s, want %s", code, took, want)
			}
		})
	}
}

// TestLostAnswers lets a write come through and loses its answer: what is sent
// again ends as if the answer had come. What somebody else has written is a
// refusal as ever (R53).
func TestLostAnswers(t *testing.T) {
	tests := map[string]struct {
		method, path, sent, there string
		refused                   *http.Response
		want                      int
	}{
		"record created":  {"POST", secretsPath, `{"metadata":{"name":"x","labels":{"owner":"helm"}},"data":{"release":"b25l"}}`, `{"metadata":{"name":"x","uid":"1","labels":{"owner":"helm"},"creationTimestamp":"NOW"},"data":{"release":"b25l"}}`, nil, 200},
		"another's":       {"POST", secretsPath, `{"metadata":{"name":"x"},"data":{"release":"b25l"}}`, `{"metadata":{"name":"x","creationTimestamp":"NOW"},"data":{"release":"dHdv"}}`, nil, 409},
		"an older one":    {"POST", secretsPath, `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","creationTimestamp":"1999-01-01T00:00:00Z"}}`, nil, 409},
		"lease put":       {"PUT", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"4"},"spec":{"holder":"me"}}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"holder":"me"}}`, status(409, "Conflict"), 200},
		"put by another":  {"PUT", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"4"},"spec":{"holder":"me"}}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"holder":"you"}}`, status(409, "Conflict"), 409},
		"deleted":         {"DELETE", secretsPath + "/x", "", "", status(404, "NotFound"), 200},
		"a name made up":  {"POST", "/apis/batch/v1/namespaces/n/jobs", `{"metadata":{"generateName":"migrate-"}}`, "SENT", nil, 200},
		"a normal object": {"POST", "/apis/apps/v1/namespaces/n/deployments", `{"metadata":{"name":"x"},"spec":{"cpu":"1000m"}}`, `{"metadata":{"name":"x","creationTimestamp":"NOW"},"spec":{"cpu":"1"}}`, nil, 200},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			there := tt.there
			names := map[string]bool{}
			x, n := over(bound(t), func(n int, r *http.Request) (*http.Response, error) {
				if r.Method == "GET" {
					return says(200, there), nil
				}
				var u unstructured.Unstructured
				if r.Body != nil {
					b, _ := io.ReadAll(r.Body)
					if err := json.Unmarshal(b, &u.Object); err != nil {
						t.Error(err)
					}
					names[u.GetName()] = true
				}
				if n == 1 {
					now := time.Now().UTC().Format(time.RFC3339)
					if there = strings.ReplaceAll(there, "NOW", now); there == "SENT" {
						b, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": u.GetName(), "generateName": u.GetGenerateName(), "creationTimestamp": now}})
						there = string(b)
					}
					return nil, errReset
				}
				if tt.refused != nil {
					return tt.refused, nil
				}
				return status(409, "AlreadyExists"), nil
			})
			resp, err := x.RoundTrip(request(t.Context(), tt.method, tt.path, tt.sent))
			if err != nil || resp.StatusCode != tt.want || n.Load() > 3 {
				t.Errorf("%s: %v, %v after %d tries, want %d", name, resp, err, n.Load(), tt.want)
			}
			if len(names) > 1 {
				t.Errorf("%s: it was sent under the names %v", name, names)
			}
			if !x.writes.Any() {
				t.Errorf("%s: it does not count as written", name)
			}
		})
	}
}

// TestFirstAnswerIsTaken does not look into refusals of what was sent once.
func TestFirstAnswerIsTaken(t *testing.T) {
	for _, refused := range []*http.Response{status(409, "AlreadyExists"), status(404, "NotFound")} {
		method := map[int]string{409: "POST", 404: "DELETE"}[refused.StatusCode]
		x, n := over(bound(t), func(int, *http.Request) (*http.Response, error) { return refused, nil })
		resp, err := x.RoundTrip(request(t.Context(), method, secretsPath, `{"metadata":{"name":"x"}}`))
		if err != nil || resp != refused || n.Load() != 1 {
			t.Errorf("%s: %v, %v after %d requests", method, resp, err, n.Load())
		}
	}
}

// TestOutage has the API server refuse connections for a while, with many
// requests under way: one at a time tries, the others come through afterwards,
// not all at once, and who listens is told when it was lost and found (R53).
func TestOutage(t *testing.T) {
	for _, how := range []string{"refused", "reset", "503"} {
		synctest.Test(t, func(t *testing.T) {
			const requests, away = 300, 20 * time.Second
			begun := time.Now()
			var mu sync.Mutex
			during, burst := 0, map[time.Duration]int{}
			x, n := over(bound(t), func(int, *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				since := time.Since(begun)
				if since > away {
					burst[since.Truncate(100*time.Millisecond)]++
					return says(200, "{}"), nil
				}
				during++
				switch how {
				case "refused":
					return nil, errRefused
				case "reset":
					return nil, errReset
				}
				return says(503, ""), nil
			})
			x.link.known = true
			var told []string
			defer x.link.Listen(Listener{
				Away: func(since time.Time, reason string) {
					told = append(told, fmt.Sprint("away ", since.Sub(begun).Round(time.Second), " ", reason))
				},
				Back: func() { told = append(told, "back") },
			})()
			places := make(chan bool, 32) // as many at a time as a run sends
			var wg sync.WaitGroup
			for i := range requests {
				places <- true
				wg.Go(func() {
					defer func() { <-places }()
					if resp, err := x.RoundTrip(request(t.Context(), "PATCH", fmt.Sprintf("%s/x%d", secretsPath, i), "{}")); err != nil || resp.StatusCode != 200 {
						t.Errorf("%s: %v, %v", how, resp, err)
					}
				})
			}
			wg.Wait()
			if len(told) != 2 || !strings.HasPrefix(told[0], "away 0s ") || told[1] != "back" {
				t.Errorf("%s: told was %q", how, told)
			}
			if during > 64+20 || n.Load() > requests+requests/2 {
				t.Errorf("%s: %d requests while it was away, %d in all for %d", how, during, n.Load(), requests)
			}
			t.Logf("%s: %d requests while it was away, %d in all; then %v", how, during, n.Load(), burst)
		})
	}
}

// TestPoison lets one request always reset its connection: it keeps nobody else
// (R53).
// TestWhoHasLittleTimeTries lets a request that has less time than the pause of a
// prober find out all the same that an outage is over (R53): the Lease is given
// back with such requests, and nobody else would ask for it any more.
func TestWhoHasLittleTimeTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		x, _ := over(bound(t), func(int, *http.Request) (*http.Response, error) {
			if away {
				return says(503, ""), nil
			}
			return says(200, "{}"), nil
		})
		x.link.known = true
		for range 12 { // in the five minutes of bound
			away = true
			outage, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if resp, err := x.RoundTrip(request(outage, "PUT", secretsPath+"/x", "{}")); err == nil && resp.StatusCode == 200 {
				t.Fatal("it is answered while the API server is away")
			}
			cancel()
			away = false
			short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			if resp, err := x.RoundTrip(request(short, "DELETE", secretsPath+"/x", "")); err != nil || resp.StatusCode != 200 {
				t.Errorf("after the outage: %v", err)
			}
			cancel()
		}
	})
}

func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(bound(t), time.Minute)
		defer cancel()
		x, _ := over(ctx, func(_ int, r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/poison") {
				return nil, errReset
			}
			time.Sleep(10 * time.Millisecond)
			return says(200, "{}"), nil
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := x.RoundTrip(request(ctx, "GET", secretsPath+"/poison", "")); err == nil || !strings.Contains(err.Error(), "connection reset") {
				t.Errorf("it ends with %v", err)
			}
		})
		begun := time.Now()
		for i := range 100 {
			if _, err := x.RoundTrip(request(ctx, "GET", fmt.Sprint(secretsPath, "/", i), "")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("the others took %s", took)
		}
		wg.Wait()
	})
}

// TestNoAnswer has requests that are never answered, or byte by byte: a try is
// given up, and the next one comes through; where none does, the operation's
// time ends it. A long answer that comes steadily is read to its end (R53).
func TestNoAnswer(t *testing.T) {
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
			return says(200, "{}"), nil
		}, false},
		"byte by byte, once": {func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return trickle(r, 1<<20, time.Second), nil
			}
			return says(200, "{}"), nil
		}, false},
		"a slow webhook": {func(n int, r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(25 * time.Second):
				return says(200, "{}"), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}, false},
		"long and steady": {func(n int, r *http.Request) (*http.Response, error) {
			if n > 1 {
				return nil, errors.New("it was given up")
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
			ctx, cancel := context.WithTimeoutCause(bound(t), 2*time.Minute, errors.New("timed out (--timeout)"))
			defer cancel()
			x, _ := over(ctx, tt.do)
			x.link.known = true
			resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, ""))
			if tt.fails {
				if err == nil || !strings.Contains(err.Error(), "timed out (--timeout)") || !strings.Contains(err.Error(), "timed out") {
					t.Errorf("%s: it ends with %v", name, err)
				}
			} else if err != nil || resp.StatusCode != 200 {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
		})
	}
}

const slowStep = chunk / 4

// slowBody comes in small steps.
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

// TestFirstContact gives up soon where nobody has ever answered, with the error
// as it was, and at once where there is nobody to connect to: the address may be
// wrong. Once somebody has taken a connection there, both are waited out (R53).
func TestFirstContact(t *testing.T) {
	for err, want := range map[error]time.Duration{errRefused: 0, errReset: 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			x, tries := over(bound(t), func(int, *http.Request) (*http.Response, error) { return nil, err })
			var away bool
			defer x.link.Listen(Listener{Away: func(time.Time, string) { away = true }})()
			begun := time.Now()
			_, got := x.RoundTrip(request(t.Context(), "GET", "/version", ""))
			if took := time.Since(begun); got == nil || got.Error() != err.Error() || took < want || took > want+4*time.Second {
				t.Errorf("%v after %s", got, took)
			}
			if want == 0 && (tries.Load() != 1 || away) {
				t.Errorf("%d tries, told that the API server is away: %v", tries.Load(), away)
			}
			if x.writes.Any() {
				t.Error("it counts as written")
			}
			z, _ := over(bound(t), func(n int, _ *http.Request) (*http.Response, error) {
				switch {
				case n == 1:
					return nil, errReset
				case n < 5:
					return nil, err
				}
				return says(200, "{}"), nil
			})
			if resp, err := z.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 {
				t.Errorf("once somebody has taken a connection: %v, %v", resp, err)
			}
			y, _ := over(bound(t), func(n int, _ *http.Request) (*http.Response, error) {
				if n > 1 && n < 10 {
					return nil, err
				}
				return says(200, "{}"), nil
			})
			for range 2 {
				if resp, err := y.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 {
					t.Errorf("once it has answered: %v, %v", resp, err)
				}
			}
		})
	}
}

// TestErrorsOfTheServer repeats what is answered with 500 for as long as the
// readiness timeout, tells what for, and ends with that answer (R53).
func TestErrorsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := over(bound(t), func(int, *http.Request) (*http.Response, error) {
			return says(500, `{"kind":"Status","message":"failed calling webhook \"w\": no endpoints","code":500}`, "Retry-After", "1"), nil
		})
		var told []string
		defer x.link.Listen(Listener{Trying: func(of Target, _ time.Time, answer string) { told = append(told, of.Name+" "+answer) }})()
		begun := time.Now()
		resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x", "{}"))
		if err != nil || resp.StatusCode != 500 || resp.Header.Get("Retry-After") != "" {
			t.Errorf("%v, %v", resp, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if took := time.Since(begun); took < 30*time.Second || took > 40*time.Second || !strings.Contains(string(body), "failed calling webhook") {
			t.Errorf("after %s: %s", took, body)
		}
		if len(told) < 3 || told[0] != `x 500 Internal Server Error: failed calling webhook "w": no endpoints` {
			t.Errorf("told was %q", told)
		}
	})
}

// TestErrorsOfDryRuns: a dry run is not retried for long (R53).
func TestErrorsOfDryRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, tries := over(bound(t), func(int, *http.Request) (*http.Response, error) { return status(500, "InternalError"), nil })
		begun := time.Now()
		resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x?dryRun=All", "{}"))
		if took := time.Since(begun); err != nil || resp.StatusCode != 500 || tries.Load() < 2 || took > 3*dryRunErrors {
			t.Errorf("%v, %v, after %d tries in %s", resp, err, tries.Load(), took)
		}
	})
}

// TestMistypedObjects: a 500 about the object itself is not retried, unlike one about a webhook that converts it.
func TestMistypedObjects(t *testing.T) {
	for message, retried := range map[string]bool{
		"failed to create typed patch object (x; /v1, Kind=Service): .spec.ports[0].port: expected numeric":                                                                                              false,
		"failed to convert new object (x; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 7": false,
		"failed to convert new object (x; a.b/v1, Kind=C) to proper version: conversion webhook for a.b/v1, Kind=C failed: EOF":                                                                          true,
	} {
		synctest.Test(t, func(t *testing.T) {
			x, tries := over(bound(t), func(int, *http.Request) (*http.Response, error) {
				return says(500, fmt.Sprintf(`{"kind":"Status","message":%q,"code":500}`, message)), nil
			})
			resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x", "{}"))
			if err != nil || resp.StatusCode != 500 || tries.Load() > 1 != retried {
				t.Errorf("%v, %v, after %d tries: %s", resp, err, tries.Load(), message)
			}
		})
	}
}

// TestCredentialsThatExpire are read again, once (R53).
func TestCredentialsThatExpire(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		token := "old"
		var x *transport
		with := func(token string) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if token == "new" {
					return says(200, "{}"), nil
				}
				return status(401, "Unauthorized"), nil
			})
		}
		x, _ = over(bound(t), nil)
		x.next = with(token)
		reads := 0
		x.renew = func() (http.RoundTripper, error) {
			if reads++; renewed {
				token = "new"
			}
			return with(token), nil
		}
		resp, err := x.RoundTrip(request(t.Context(), "POST", secretsPath, `{"metadata":{"name":"x"}}`))
		want := map[bool]int{true: 200, false: 401}[renewed]
		if err != nil || resp.StatusCode != want || reads != 1 {
			t.Errorf("%v, %v after %d readings, want %d", resp, err, reads, want)
		}
	}
}

// TestTargets reads paths.
func TestTargets(t *testing.T) {
	tests := map[string]Target{
		"/api/v1/namespaces/n/pods/p/log":                   {Version: "v1", Resource: "pods", Namespace: "n", Name: "p", Subresource: "log"},
		"/api/v1/namespaces/n":                              {Version: "v1", Resource: "namespaces", Name: "n"},
		"/api/v1/namespaces":                                {Version: "v1", Resource: "namespaces"},
		"/api/v1/namespaces/n/status":                       {Version: "v1", Resource: "namespaces", Name: "n", Subresource: "status"},
		"/apis/apps/v1/namespaces/n/deployments":            {Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n"},
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/c": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "c"},
		"/apis/apps/v1":                                     {Group: "apps", Version: "v1"},
		"/version":                                          {},
		"/apis":                                             {},
	}
	for _, server := range []string{"", "/k8s/clusters/x", "/api", "/apis/auth"} {
		for path, want := range tests {
			if got := targetOf(server, server+path); got != want {
				t.Errorf("%s of a server at %q: %+v, want %+v", path, server, got, want)
			}
		}
	}
	if got := targetOf("/k8s/clusters/x", "/api/v1/namespaces/n"); got != (Target{}) {
		t.Errorf("a path of another server: %+v", got)
	}
}

// TestWrites tells requests that change something from questions, whatever the path of the server's
// address is: the Lease guards only the former (R51).
func TestWrites(t *testing.T) {
	tests := []struct {
		method, path string
		want         bool
	}{
		{http.MethodGet, "/api/v1/namespaces/n/secrets", false},
		{http.MethodPost, "/api/v1/namespaces/n/secrets", true},
		{http.MethodPost, "/api/v1/namespaces/n/secrets?dryRun=All", false},
		{http.MethodPatch, "/apis/apps/v1/namespaces/n/deployments/d", true},
		{http.MethodDelete, "/apis/apps/v1/namespaces/n/deployments/d", true},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews", false},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", false},
		{http.MethodPatch, "/apis/authzed.com/v1alpha1/namespaces/n/spicedbclusters/s", true},
		{http.MethodPost, "/apis/auth.example.com/v1/namespaces/n/clients", true},
		{http.MethodPut, "/apis/authorization.openshift.io/v1/namespaces/n/roles/r", true},
		{http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r", true},
	}
	for _, server := range []string{"", "/k8s/clusters/x", "/apis/auth"} {
		for _, x := range tests {
			tr, _ := over(t.Context(), nil)
			tr.server = server
			c, err := newCall(tr, request(t.Context(), x.method, server+x.path, ""))
			if err != nil {
				t.Fatal(err)
			}
			if c.writes != x.want {
				t.Errorf("%s %s%s: writes is %v, want %v", x.method, server, x.path, c.writes, x.want)
			}
		}
	}
}
