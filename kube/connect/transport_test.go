package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fakeServer handles the try with number n, from 1.
type fakeServer func(n int, r *http.Request) (*http.Response, error)

// newTestTransport returns a transport to a fake server, and the number of tries that the server has received.
func newTestTransport(ctx context.Context, answer fakeServer) (*transport, *atomic.Int32) {
	var n atomic.Int32
	next := roundTripper(func(r *http.Request) (*http.Response, error) { return answer(int(n.Add(1)), r) })
	return &transport{ctx: ctx, writes: &Writes{}, link: newLink(), limits: limitsOf(ctx), server: &server{next: next}}, &n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(code int, body string, headers ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func statusResponse(code int, reason string) *http.Response {
	return response(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":"it says %s","code":%d}`, reason, reason, code))
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errLookup  = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api.example.com"}}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)

func request(ctx context.Context, method, path, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = io.NopCloser(strings.NewReader(body)) // can be read only once
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://cluster"+path, r)
	if err != nil {
		panic(err)
	}
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", string(types.ApplyPatchType))
	}
	return req
}

// operationContext returns a context like that of an operation.
func operationContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(WithRetryTimeout(t.Context(), 30*time.Second), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const secretsPath = "/api/v1/namespaces/n/secrets"

// someObject is the body of a response with an object.
const someObject = `{"kind":"Secret"}`

// TestRetries covers which failures are retried, with the same body, and which are final (R53).
func TestRetries(t *testing.T) {
	fails := map[string]struct {
		do    func() (*http.Response, error)
		final bool
	}{
		"429":            {do: func() (*http.Response, error) { return response(429, "", "Retry-After", "1"), nil }},
		"500":            {do: func() (*http.Response, error) { return statusResponse(500, "InternalError"), nil }},
		"leader changed": {do: func() (*http.Response, error) { return response(500, `{"message":"etcdserver: leader changed"}`), nil }},
		"502":            {do: func() (*http.Response, error) { return response(502, "bad gateway"), nil }},
		"503":            {do: func() (*http.Response, error) { return response(503, "no endpoints", "Retry-After", "2"), nil }},
		"504":            {do: func() (*http.Response, error) { return response(504, ""), nil }},
		"refused":        {do: func() (*http.Response, error) { return nil, errRefused }},
		"reset":          {do: func() (*http.Response, error) { return nil, errReset }},
		"closed":         {do: func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }},
		"response cut off": {do: func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(&brokenBody{})}, nil
		}},
		"400":             {do: func() (*http.Response, error) { return statusResponse(400, "BadRequest"), nil }, final: true},
		"403":             {do: func() (*http.Response, error) { return statusResponse(403, "Forbidden"), nil }, final: true},
		"404":             {do: func() (*http.Response, error) { return statusResponse(404, "NotFound"), nil }, final: true},
		"409":             {do: func() (*http.Response, error) { return statusResponse(409, "Conflict"), nil }, final: true},
		"422":             {do: func() (*http.Response, error) { return statusResponse(422, "Invalid"), nil }, final: true},
		"401, no renewal": {do: func() (*http.Response, error) { return statusResponse(401, "Unauthorized"), nil }, final: true},
	}
	for name, fail := range fails {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			synctest.Test(t, func(t *testing.T) {
				body := `{"metadata":{"name":"x"}}`
				if method == "GET" {
					body = ""
				}
				var bodies []string
				x, n := newTestTransport(operationContext(t), func(n int, r *http.Request) (*http.Response, error) {
					if r.Body != nil {
						b, _ := io.ReadAll(r.Body)
						bodies = append(bodies, string(b))
					}
					if n <= 2 {
						return fail.do()
					}
					return response(200, someObject), nil
				})
				x.link.connected, x.link.responded = true, true
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

// brokenBody is a response body that breaks off.
type brokenBody struct{ started bool }

func (c *brokenBody) Read(p []byte) (int, error) {
	if c.started {
		return 0, errReset
	}
	c.started = true
	return copy(p, `{"kin`), nil
}

// TestRetryAfter expects that a retry waits as long as the server asks (R53).
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return response(429, "", "Retry-After", "7"), nil
			}
			return response(200, someObject), nil
		})
		start := time.Now()
		if _, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 7*time.Second || took > 10*time.Second {
			t.Errorf("retried after %s", took)
		}
	})
}

// TestRetryTimeoutsCombine expects that with several calls of WithRetryTimeout the shortest applies to internal errors and
// the longest to overloads (R53).
func TestRetryTimeoutsCombine(t *testing.T) {
	for code, want := range map[int]time.Duration{429: time.Minute, 500: 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx := WithRetryTimeout(WithRetryTimeout(WithRetryTimeout(t.Context(), 15*time.Second), time.Minute), 0)
			x, _ := newTestTransport(ctx, func(int, *http.Request) (*http.Response, error) { return response(code, "{}", "Retry-After", "1"), nil })
			start := time.Now()
			if resp, err := x.RoundTrip(request(t.Context(), "GET", secretsPath, "")); err != nil || resp.StatusCode != code {
				t.Errorf("%v, %v", resp, err)
			}
			if took := time.Since(start); took < want || took > want+10*time.Second {
				t.Errorf("%d was retried for %s, want %s", code, took, want)
			}
		})
	}
}

// TestLostResponses loses the response to a write that succeeded. The retry must succeed too, unless the object was written
// by somebody else (R53).
func TestLostResponses(t *testing.T) {
	tests := map[string]struct {
		method, path, sent, live string
		refused                  *http.Response
		want                     int
	}{
		"created":                  {"POST", secretsPath, `{"metadata":{"name":"x","labels":{"owner":"helm"}},"data":{"release":"b25l"}}`, `{"metadata":{"name":"x","uid":"1","labels":{"owner":"helm"},"creationTimestamp":"NOW"},"data":{"release":"b25l"}}`, nil, 200},
		"of somebody else":         {"POST", secretsPath, `{"metadata":{"name":"x"},"data":{"release":"b25l"}}`, `{"metadata":{"name":"x","creationTimestamp":"NOW"},"data":{"release":"dHdv"}}`, nil, 409},
		"an older object":          {"POST", secretsPath, `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","creationTimestamp":"1999-01-01T00:00:00Z"}}`, nil, 409},
		"updated":                  {"PUT", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"4"},"spec":{"holder":"me"}}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"holder":"me"}}`, statusResponse(409, "Conflict"), 200},
		"updated by somebody else": {"PUT", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"4"},"spec":{"holder":"me"}}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"holder":"you"}}`, statusResponse(409, "Conflict"), 409},
		"applied":                  {"PATCH", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"1","labels":{"a":"b"}}}`, `{"metadata":{"name":"x","resourceVersion":"5","labels":{"a":"b"},"creationTimestamp":"NOW"}}`, statusResponse(409, "Conflict"), 200},
		"applied by somebody else": {"PATCH", secretsPath + "/x", `{"metadata":{"name":"x","resourceVersion":"1","labels":{"a":"b"}}}`, `{"metadata":{"name":"x","resourceVersion":"5","creationTimestamp":"NOW"}}`, statusResponse(409, "Conflict"), 409},
		"deleted":                  {"DELETE", secretsPath + "/x", "", "", statusResponse(404, "NotFound"), 200},
		"generated name":           {"POST", "/apis/batch/v1/namespaces/n/jobs", `{"metadata":{"generateName":"migrate-"}}`, "SENT", nil, 200},
		"ordinary object":          {"POST", "/apis/apps/v1/namespaces/n/deployments", `{"metadata":{"name":"x"},"spec":{"cpu":"1000m"}}`, `{"metadata":{"name":"x","creationTimestamp":"NOW"},"spec":{"cpu":"1"}}`, nil, 200},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			live := tt.live
			names := map[string]bool{}
			x, n := newTestTransport(operationContext(t), func(n int, r *http.Request) (*http.Response, error) {
				if r.Method == "GET" {
					return response(200, strings.Replace(live, "{", `{"kind":"x",`, 1)), nil
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
					if live = strings.ReplaceAll(live, "NOW", now); live == "SENT" {
						b, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": u.GetName(), "generateName": u.GetGenerateName(), "creationTimestamp": now}})
						live = string(b)
					}
					return nil, errReset
				}
				if tt.refused != nil {
					return tt.refused, nil
				}
				return statusResponse(409, "AlreadyExists"), nil
			})
			resp, err := x.RoundTrip(request(t.Context(), tt.method, tt.path, tt.sent))
			if err != nil || resp.StatusCode != tt.want || n.Load() > 3 {
				t.Errorf("%s: %v, %v after %d tries, want %d", name, resp, err, n.Load(), tt.want)
			}
			if len(names) > 1 {
				t.Errorf("%s: the tries had different names: %v", name, names)
			}
			if !x.writes.Any() {
				t.Errorf("%s: does not count as a write", name)
			}
		})
	}
}

// TestFirstRefusalIsFinal expects that a refusal of the first try is final.
func TestFirstRefusalIsFinal(t *testing.T) {
	for _, refused := range []*http.Response{statusResponse(409, "AlreadyExists"), statusResponse(404, "NotFound")} {
		method := map[int]string{409: "POST", 404: "DELETE"}[refused.StatusCode]
		x, n := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) { return refused, nil })
		resp, err := x.RoundTrip(request(t.Context(), method, secretsPath, `{"metadata":{"name":"x"}}`))
		if err != nil || resp != refused || n.Load() != 1 {
			t.Errorf("%s: %v, %v after %d requests", method, resp, err, n.Load())
		}
	}
}

// TestServerErrors expects that a 500 is retried for as long as WithRetryTimeout says, that listeners learn the reason, and
// that the last response is returned (R53).
func TestServerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
			return response(500, `{"kind":"Status","message":"failed calling webhook \"w\": no endpoints","code":500}`, "Retry-After", "1"), nil
		})
		var retries []string
		defer x.link.Listen(Listener{Retrying: func(of Target, _ time.Time, answer string) { retries = append(retries, of.Name+" "+answer) }})()
		start := time.Now()
		resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x", "{}"))
		if err != nil || resp.StatusCode != 500 || resp.Header.Get("Retry-After") != "" {
			t.Errorf("%v, %v", resp, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if took := time.Since(start); took < 30*time.Second || took > 40*time.Second || !strings.Contains(string(body), "failed calling webhook") {
			t.Errorf("after %s: %s", took, body)
		}
		if len(retries) < 3 || retries[0] != `x 500 Internal Server Error: failed calling webhook "w": no endpoints` {
			t.Errorf("the retries are %q", retries)
		}
	})
}

// TestServerErrorsOfDryRuns expects that a dry run is not retried for long (R53).
func TestServerErrorsOfDryRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, tries := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) { return statusResponse(500, "InternalError"), nil })
		start := time.Now()
		resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x?dryRun=All", "{}"))
		if took := time.Since(start); err != nil || resp.StatusCode != 500 || tries.Load() < 2 || took > 3*maxDryRunErrors {
			t.Errorf("%v, %v, after %d tries in %s", resp, err, tries.Load(), took)
		}
	})
}

// TestMistypedObjects expects that a 500 about a value of the object or about the patch is not retried, but one about a
// conversion webhook is.
func TestMistypedObjects(t *testing.T) {
	for message, retried := range map[string]bool{
		"failed to create typed patch object (x; /v1, Kind=Service): .spec.ports[0].port: expected numeric":                                                                                              false,
		"failed to convert new object (x; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 7": false,
		"The order in patch list:\n[map[port:53]]\n doesn't match $setElementOrder list:\n[map[port:80]]\n":                                                                                              false,
		"failed to convert new object (x; a.b/v1, Kind=C) to proper version: conversion webhook for a.b/v1, Kind=C failed: EOF":                                                                          true,
	} {
		synctest.Test(t, func(t *testing.T) {
			x, tries := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
				return response(500, fmt.Sprintf(`{"kind":"Status","message":%q,"code":500}`, message)), nil
			})
			resp, err := x.RoundTrip(request(t.Context(), "PATCH", secretsPath+"/x", "{}"))
			if err != nil || resp.StatusCode != 500 || tries.Load() > 1 != retried {
				t.Errorf("%v, %v, after %d tries: %s", resp, err, tries.Load(), message)
			}
		})
	}
}

// TestTargets covers the paths of requests.
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

// TestWrites covers which requests are writes, which the lock guards (R51), whatever the path in the server's address.
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
			tr, _ := newTestTransport(t.Context(), nil)
			tr.path = server
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

// TestRefusedSecretsAreLearned (S14): the answer to a refused change of a Secret may quote the values that the cluster has, so these are
// read before the caller gets it. A conflict of versions or owners quotes none, and a release that does not exist has none.
func TestRefusedSecretsAreLearned(t *testing.T) {
	for _, c := range []struct {
		method, path string
		code         int
		learned      bool
	}{
		{http.MethodPatch, secretsPath + "/s?dryRun=All", http.StatusUnprocessableEntity, true},
		{http.MethodPut, secretsPath + "/s", http.StatusForbidden, true},
		{http.MethodPatch, secretsPath + "/s", http.StatusConflict, false},
		{http.MethodPatch, secretsPath + "/s", http.StatusOK, false},
		{http.MethodPost, secretsPath, http.StatusForbidden, false},
		{http.MethodPatch, "/api/v1/namespaces/n/configmaps/s", http.StatusForbidden, false},
	} {
		tr, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == secretsPath+"/s" && r.URL.RawQuery == "" {
				return response(http.StatusOK, `{"kind":"Secret","data":{"a":"bGl2ZQ=="}}`), nil
			}
			return statusResponse(c.code, "Invalid"), nil
		})
		learned := false
		tr.writes.LearnRefused(func(secret map[string]any) {
			data, _, _ := unstructured.NestedString(secret, "data", "a")
			learned = data == "bGl2ZQ=="
		})
		resp, err := tr.RoundTrip(request(t.Context(), c.method, c.path, "{}"))
		if err != nil || resp.StatusCode != c.code || learned != c.learned {
			t.Errorf("%s %s %d: learned %v; %v, %v", c.method, c.path, c.code, learned, resp, err)
		}
	}
}
