package connect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// A retried request may already have been carried out. That is harmless for an apply or a
// patch, which are idempotent. For the others, this file finds out, so that callers do not
// mistake the result of the first try for the work of another run.

func (c *call) creates() bool {
	return c.request.Method == http.MethodPost && c.writes && c.target.Resource != "" && c.target.Name == ""
}

// nameCreated names an object that has metadata.generateName, as the API server would. If only
// the response had the name, a retry could create the object twice.
func (c *call) nameCreated() {
	if !c.creates() {
		return
	}
	u := object(c.body)
	if u == nil {
		return
	}
	if c.about.Name = u.GetName(); u.GetName() != "" || u.GetGenerateName() == "" {
		return
	}
	const length = 5
	prefix := u.GetGenerateName()
	u.SetName(prefix[:min(len(prefix), 63-length)] + utilrand.String(length))
	if body, err := json.Marshal(u.Object); err == nil {
		c.body = body
	}
}

// settle turns the last response into the final one: a write that an earlier try carried out has succeeded.
func (c *call) settle(ctx context.Context, resp *http.Response, err error) (*http.Response, error) {
	if err != nil || !c.doubt {
		if err != nil && !notSent(err) {
			c.reached = true
		}
		return resp, err
	}
	switch {
	case c.request.Method == http.MethodDelete && resp.StatusCode == http.StatusNotFound:
		return answer(resp, http.StatusOK, []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`)), nil
	case c.creates() && statusOf(resp).Reason == metav1.StatusReasonAlreadyExists:
		return c.compare(ctx, resp, c.made), nil
	case c.request.Method == http.MethodPut && c.writes && statusOf(resp).Reason == metav1.StatusReasonConflict:
		return c.compare(ctx, resp, c.put), nil
	}
	return resp, nil
}

// compare reads the object. If an earlier try wrote it, the object is the response, else the refusal.
func (c *call) compare(ctx context.Context, refused *http.Response, ours func(there *unstructured.Unstructured, age func(time.Time) time.Duration) bool) *http.Response {
	sent := object(c.body)
	if sent == nil {
		return refused
	}
	url := *c.request.URL
	url.RawQuery = ""
	if c.target.Name == "" {
		url.Path = strings.TrimSuffix(url.Path, "/") + "/" + sent.GetName()
		url.RawPath = ""
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return refused
	}
	r.Header = c.request.Header.Clone()
	r.Header.Del("Content-Type")
	look, err := newCall(c.t, r)
	if err != nil {
		return refused
	}
	resp, err := look.do(ctx)
	if err != nil || resp.StatusCode != http.StatusOK {
		return refused
	}
	there := object(peek(resp))
	age := func(at time.Time) time.Duration { // by the server's clock
		now, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		return now.Sub(at)
	}
	if there == nil || !ours(there, age) {
		return refused
	}
	return resp
}

// clockSlack is the tolerance for times in responses, which have a resolution of a second.
const clockSlack = 2 * time.Second

// made reports whether an earlier try created an object: the object has the sent values in all
// fields that the API server does not rewrite, and is no older than the first try.
func (c *call) made(there *unstructured.Unstructured, age func(time.Time) time.Duration) bool {
	sent := object(c.body)
	for _, path := range [][]string{{"data"}, {"type"}, {"immutable"}, {"metadata", "labels"}, {"metadata", "annotations"}} {
		live, _, _ := unstructured.NestedFieldNoCopy(there.Object, path...)
		want, _, _ := unstructured.NestedFieldNoCopy(sent.Object, path...)
		if !contains(live, want) {
			return false
		}
	}
	return there.GetDeletionTimestamp() == nil && age(there.GetCreationTimestamp().Time) <= time.Since(c.began)+clockSlack
}

// put reports whether an object is as an earlier try wrote it.
func (c *call) put(there *unstructured.Unstructured, _ func(time.Time) time.Duration) bool {
	sent := object(c.body)
	for _, u := range []*unstructured.Unstructured{sent, there} {
		u.SetResourceVersion("")
		u.SetManagedFields(nil)
		u.SetGeneration(0)
	}
	return contains(there.Object, sent.Object)
}

// contains reports whether a live value has everything that was sent.
func contains(there, sent any) bool {
	switch sent := sent.(type) {
	case nil:
		return true
	case map[string]any:
		m, ok := there.(map[string]any)
		if !ok {
			return len(sent) == 0
		}
		for k, v := range sent {
			if !contains(m[k], v) {
				return false
			}
		}
		return true
	case []any:
		l, ok := there.([]any)
		if !ok || len(l) != len(sent) {
			return !ok && len(sent) == 0
		}
		for i := range sent {
			if !contains(l[i], sent[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(there, sent)
}

// object returns the object in a body, or nil.
func object(body []byte) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if json.Unmarshal(body, &u.Object) != nil || u.Object == nil {
		return nil
	}
	if _, ok := u.Object["metadata"].(map[string]any); !ok {
		return nil
	}
	return u
}

// statusOf returns the Status in a refusal by the API server, or an empty one. The body of the response can still be read.
func statusOf(resp *http.Response) (status metav1.Status) {
	_ = json.Unmarshal(peek(resp), &status)
	return status
}

// peek returns the body of a response, which can be read again.
func peek(resp *http.Response) []byte {
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// answer returns resp with another code and body.
func answer(resp *http.Response, code int, body []byte) *http.Response {
	out := *resp
	out.StatusCode, out.Status = code, fmt.Sprintf("%d %s", code, http.StatusText(code))
	out.Header = http.Header{"Content-Type": {"application/json"}}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &out
}
