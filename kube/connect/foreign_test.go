package connect

import (
	"net/http"
	"strings"
	"testing"
)

// TestForeignResponses expects that a response which only a proxy can have sent is never final once the API server has
// responded, and that a redirect is not followed (R53).
func TestForeignResponses(t *testing.T) {
	const apps, custom = "/apis/apps/v1/namespaces/n/deployments/x", "/apis/example.com/v1/namespaces/n/things/x"
	notFound := func() *http.Response {
		return response(404, "404 page not found", "Content-Type", "text/plain; charset=utf-8")
	}
	tests := map[string]struct {
		path      string
		served    string // the path of an object that the API server has served
		responded bool
		response  func() *http.Response
		code      int // of a final response; 0: it is retried; -1: a final error
	}{
		"404 of a served resource":         {apps, apps, true, notFound, 0},
		"404 of another resource":          {apps, strings.Replace(apps, "deployments", "statefulsets", 1), true, notFound, 404},
		"404 of a deleted definition":      {custom, custom, true, notFound, 404},
		"404 of an object":                 {apps, apps, true, func() *http.Response { return statusResponse(404, "NotFound") }, 404},
		"403 page":                         {apps, "", true, func() *http.Response { return response(403, "<html>", "Content-Type", "text/html") }, 0},
		"page at first contact":            {apps, "", false, func() *http.Response { return response(200, "<html>", "Content-Type", "text/html") }, -1},
		"redirect at first contact":        {apps, "", false, func() *http.Response { return response(302, "", "Location", "https://login/") }, -1},
		"half an object at first contact":  {apps, "", false, func() *http.Response { return response(200, `{"kind":"Depl`) }, 0},
		"no object at first contact":       {apps, "", false, func() *http.Response { return response(200, `[]`) }, -1},
		"half a page of the discovery":     {"/apis", "", true, func() *http.Response { return response(200, `{"kind":"APIGr`) }, 0},
		"half a log of JSON lines":         {"/api/v1/namespaces/n/pods/x/log", "", true, func() *http.Response { return response(200, `{"level":`, "Content-Type", "text/plain") }, 200},
		"discovery of an unknown group":    {"/apis/apps/v9", apps, true, notFound, 404},
		"an empty log":                     {"/api/v1/namespaces/n/pods/x/log", "", true, func() *http.Response { return response(200, "", "Content-Type", "text/plain") }, 200},
		"not modified":                     {"/apis", "", true, func() *http.Response { return response(304, "") }, 304},
		"a page of the discovery endpoint": {"/apis", "", true, func() *http.Response { return response(200, "<html>", "Content-Type", "text/html") }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			definitions := int32(0)
			x, n := newTestTransport(operationContext(t), func(n int, r *http.Request) (*http.Response, error) {
				if r.URL.Host != "cluster" {
					t.Errorf("a request went to %s", r.URL)
				}
				if n == 1 {
					return tt.response(), nil
				}
				if strings.Contains(r.URL.Path, "/customresourcedefinitions/") {
					definitions++
					return statusResponse(404, "NotFound"), nil
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, tt.responded
			if tt.served != "" {
				x.link.setServed(targetOf("", tt.served).resource())
			}
			client := &http.Client{Transport: x}
			resp, err := client.Do(request(t.Context(), http.MethodGet, tt.path, ""))
			switch {
			case tt.code < 0:
				if err == nil || n.Load() != 1 {
					t.Errorf("%v, %v after %d tries, want an error after the first", resp, err, n.Load())
				}
			case err != nil:
				t.Error(err)
			case tt.code == 0 && (resp.StatusCode != 200 || n.Load() != 2), tt.code > 0 && (resp.StatusCode != tt.code || n.Load()-definitions != 1):
				t.Errorf("%s after %d tries, want %d", resp.Status, n.Load(), tt.code)
			}
		})
	}
}
