package connect

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// runCalls are the requests of a run that write: whatever a request is for, the same causes are transient.
var runCalls = map[string]struct{ method, path, body string }{
	"apply of an object":          {"PATCH", "/api/v1/namespaces/n/configmaps/x?fieldManager=helm", "{}"},
	"create of an object":         {"POST", "/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"x"}}`},
	"client-side apply":           {"PUT", "/apis/apps/v1/namespaces/n/deployments/x", `{"metadata":{"name":"x"}}`},
	"Job of a hook":               {"POST", "/apis/batch/v1/namespaces/n/jobs", `{"metadata":{"generateName":"migrate-"}}`},
	"deletion":                    {"DELETE", "/apis/batch/v1/namespaces/n/jobs/x", ""},
	"new record":                  {"POST", secretsPath, `{"metadata":{"name":"sh.helm.release.v1.x.v1"}}`},
	"last record":                 {"PUT", secretsPath + "/sh.helm.release.v1.x.v1", `{"metadata":{"name":"sh.helm.release.v1.x.v1"}}`},
	"lock":                        {"POST", "/apis/coordination.k8s.io/v1/namespaces/n/leases", `{"metadata":{"name":"lockstep.v1.x"}}`},
	"renewal of the lock":         {"PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/lockstep.v1.x", `{"metadata":{"name":"lockstep.v1.x"}}`},
	"Job of a run in the cluster": {"POST", "/apis/batch/v1/namespaces/n/jobs", `{"metadata":{"name":"lockstep-x"}}`},
	"CRD of crds/":                {"PATCH", crdPath + "?fieldManager=helm", "{}"},
	"object of a new kind":        {"PATCH", thingPath + "?fieldManager=helm", "{}"},
}

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.things.example"

// crdText is a CustomResourceDefinition that the API servers serve.
const crdText = `{"kind":"CustomResourceDefinition","metadata":{"name":"things.things.example"},"spec":{"versions":[{"name":"v1","served":true}]},
	"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

func quotaConflict() *http.Response {
	return response(409, `{"kind":"Status","status":"Failure","reason":"Conflict","details":{"name":"q","kind":"resourcequotas"},"code":409,
		"message":"Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified"}`)
}

// TestTransientCalls: what is transient for one request of a run is transient for all (R53).
func TestTransientCalls(t *testing.T) {
	for what, call := range runCalls {
		for cause, fail := range causes {
			t.Run(fmt.Sprint(what, "/", cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const outage = 5 * time.Second
					start := time.Now()
					x, tries := renewable(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
						if r.URL.Path == crdPath && r.Method == http.MethodGet {
							return response(200, crdText), nil
						}
						if time.Since(start) < outage {
							return fail()
						}
						return response(200, someObject), nil
					})
					x.link.setServed(targetOf("", request(t.Context(), "GET", call.path, "").URL.Path).resource())
					resp, err := x.RoundTrip(request(t.Context(), call.method, call.path, call.body))
					if err != nil || resp.StatusCode != 200 {
						t.Fatalf("%v, %v after %s and %d tries", resp, err, time.Since(start), tries())
					}
				})
			})
		}
	}
}

// TestQuotaConflict: only a conflict about a quota that the request charges is transient (R53).
func TestQuotaConflict(t *testing.T) {
	for path, want := range map[string]int{secretsPath + "/x": 200, "/api/v1/namespaces/n/resourcequotas/q": 409} {
		synctest.Test(t, func(t *testing.T) {
			x, tries := newTestTransport(operationContext(t), func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 {
					return quotaConflict(), nil
				}
				return response(200, someObject), nil
			})
			resp, err := x.RoundTrip(request(t.Context(), "PATCH", path, "{}"))
			if err != nil || resp.StatusCode != want {
				t.Errorf("%s: %v, %v after %d tries", path, resp, err, tries.Load())
			}
		})
	}
}

// TestNotYetServed: a 404 of an API server that has not yet seen the definition of a kind is transient, and one without a definition
// that serves the kind is final (R53).
func TestNotYetServed(t *testing.T) {
	notFound := func() *http.Response {
		return response(404, "404 page not found", "Content-Type", "text/plain; charset=utf-8")
	}
	status := func() *http.Response {
		return response(404, `{"kind":"Status","status":"Failure","reason":"NotFound","message":"the server could not find the requested resource","code":404}`)
	}
	served := func() *http.Response { return response(200, crdText) }
	replaced := func(old, new string) func() *http.Response {
		return func() *http.Response { return response(200, strings.Replace(crdText, old, new, 1)) }
	}
	tests := map[string]struct {
		path       string
		response   func() *http.Response
		definition func() *http.Response
		want       int
	}{
		"served":                {thingPath, notFound, served, 200},
		"served, with a Status": {thingPath, status, served, 200},
		"the list":              {strings.TrimSuffix(thingPath, "/x"), notFound, served, 200},
		"the object":            {thingPath, func() *http.Response { return statusResponse(404, "NotFound") }, served, 404},
		"another version":       {strings.Replace(thingPath, "/v1/", "/v2/", 1), notFound, served, 404},
		"no longer served":      {thingPath, notFound, replaced("true", "false"), 404},
		"being deleted":         {thingPath, notFound, replaced(`"metadata":{`, `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z",`), 404},
		"names not accepted":    {thingPath, notFound, replaced(`"Established","status":"True"`, `"Established","status":"False"`), 404},
		"deleted":               {thingPath, notFound, func() *http.Response { return statusResponse(404, "NotFound") }, 404},
		"not permitted":         {thingPath, notFound, func() *http.Response { return statusResponse(403, "Forbidden") }, 404},
		"a group of Kubernetes": {"/apis/rbac.authorization.k8s.io/v9/roles/x", notFound, served, 404},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
				if r.URL.Path == crdPath {
					return tt.definition(), nil
				}
				if tries++; tries <= 3 {
					return tt.response(), nil
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, true
			var reasons []string
			defer x.link.Listen(Listener{Retrying: func(_ Target, _ time.Time, reason string) { reasons = append(reasons, reason) }})()
			resp, err := x.RoundTrip(request(t.Context(), "GET", tt.path, ""))
			if err != nil || resp.StatusCode != tt.want || tt.want == 404 && tries != 1 {
				t.Errorf("%s: %v, %v after %d tries", name, resp, err, tries)
			}
			if tt.want == 200 && (len(reasons) != 3 || reasons[0] != "404 Not Found: the API server does not serve things.things.example/v1 yet") {
				t.Errorf("%s: the reasons for retries are %q", name, reasons)
			}
		})
	}
}

// TestNeverServed: the 404 ends the request when server errors would (R53).
func TestNeverServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), func(_ int, r *http.Request) (*http.Response, error) {
			if r.URL.Path == crdPath {
				return response(200, crdText), nil
			}
			return response(404, "404 page not found", "Content-Type", "text/plain"), nil
		})
		x.link.connected, x.link.responded = true, true
		start := time.Now()
		resp, err := x.RoundTrip(request(t.Context(), "PATCH", thingPath, "{}"))
		if took := time.Since(start); err != nil || resp.StatusCode != 404 || took < 30*time.Second || took > 40*time.Second {
			t.Errorf("%v, %v after %s", resp, err, took)
		}
	})
}
