package connect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// A request that is retried may already have been carried out. That is harmless for a patch and for most applies, because
// they are idempotent. For other writes this file finds out whether an earlier try succeeded, so that callers do not mistake
// its result for the work of another run.

// creates reports whether the request creates an object.
func (c *call) creates() bool {
	return c.request.Method == http.MethodPost && c.writes && c.target.Resource != "" && c.target.Name == ""
}

// NeverVersion is a resourceVersion that no object has: the first revision of a store belongs to no object. The API server
// ignores the resourceVersion of an apply that creates an object, and compares it if the object exists. So an apply with
// this version can only create.
const NeverVersion = "1"

// appliesNew reports whether the request is an apply that can only create its object.
func (c *call) appliesNew() bool {
	if c.request.Method != http.MethodPatch || !c.writes || c.request.Header.Get("Content-Type") != string(types.ApplyPatchType) {
		return false
	}
	u := object(c.body)
	return u != nil && u.GetResourceVersion() == NeverVersion
}

// generateName names an object that has metadata.generateName, as the API server would. If the API server chose the
// name, a retry could create the object twice.
func (c *call) generateName() {
	if !c.creates() {
		return
	}
	u := object(c.body)
	if u == nil {
		return
	}
	if c.object.Name = u.GetName(); u.GetName() != "" || u.GetGenerateName() == "" {
		return
	}
	const maxName, suffix = 63, 5
	prefix := u.GetGenerateName()
	u.SetName(prefix[:min(len(prefix), maxName-suffix)] + utilrand.String(suffix))
	if body, err := json.Marshal(u.Object); err == nil {
		c.body = body
	}
}

// settle returns the final response: success if an earlier try carried out the write, otherwise that of the last try.
func (c *call) settle(ctx context.Context, resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		c.mayHaveArrived = c.mayHaveArrived || !notSent(err)
		return resp, err
	}
	if !c.mayHaveSucceeded {
		return resp, nil
	}
	switch {
	case c.request.Method == http.MethodDelete && resp.StatusCode == http.StatusNotFound:
		return withBody(resp, http.StatusOK, []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`)), nil
	case c.creates() && statusOf(resp).Reason == metav1.StatusReasonAlreadyExists:
		return c.liveIfOurs(ctx, resp, c.created), nil
	case c.appliesNew() && statusOf(resp).Reason == metav1.StatusReasonConflict:
		return c.liveIfOurs(ctx, resp, c.created), nil
	case c.request.Method == http.MethodPut && c.writes && statusOf(resp).Reason == metav1.StatusReasonConflict:
		return c.liveIfOurs(ctx, resp, c.updated), nil
	}
	return resp, nil
}

// liveIfOurs reads the object after a refusal. If an earlier try wrote it, the object becomes the response.
func (c *call) liveIfOurs(ctx context.Context, refused *http.Response, ours func(live *unstructured.Unstructured, age func(time.Time) time.Duration) bool) *http.Response {
	sent := object(c.body)
	if sent == nil {
		return refused
	}
	url := c.request.URL.JoinPath()
	if c.target.Name == "" {
		url = url.JoinPath(sent.GetName())
	}
	url.RawQuery = ""
	resp := c.get(ctx, url, c.request.Header.Get("Accept"))
	if resp == nil {
		return refused
	}
	live := object(peek(resp))
	age := func(at time.Time) time.Duration { // by the server's clock
		now, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		return now.Sub(at)
	}
	if live == nil || !ours(live, age) {
		return refused
	}
	return resp
}

// get sends a GET as the user of the request, and returns the response if that is a success, else nil.
func (c *call) get(ctx context.Context, url *url.URL, accept string) *http.Response {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil
	}
	r.Header = c.request.Header.Clone()
	r.Header.Del("Content-Type")
	r.Header.Set("Accept", accept)
	get, err := newCall(c.t, r)
	if err != nil {
		return nil
	}
	resp, err := get.do(ctx)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return resp
}

// clockSlack is the tolerance for times in responses, which are truncated to seconds.
const clockSlack = 2 * time.Second

// created reports whether an earlier try created an object: the object is not being deleted, is no older than the first
// try, and has the data, type, immutable flag, labels and annotations that were sent. It compares no other fields,
// because the API server may rewrite them.
func (c *call) created(live *unstructured.Unstructured, age func(time.Time) time.Duration) bool {
	sent := object(c.body)
	for _, path := range [][]string{{"data"}, {"type"}, {"immutable"}, {"metadata", "labels"}, {"metadata", "annotations"}} {
		got, _, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
		want, _, _ := unstructured.NestedFieldNoCopy(sent.Object, path...)
		if !contains(got, want) {
			return false
		}
	}
	return live.GetDeletionTimestamp() == nil && age(live.GetCreationTimestamp().Time) <= time.Since(c.began)+clockSlack
}

// updated reports whether an object has all values that were sent.
func (c *call) updated(live *unstructured.Unstructured, _ func(time.Time) time.Duration) bool {
	sent := object(c.body)
	for _, u := range []*unstructured.Unstructured{sent, live} {
		u.SetResourceVersion("")
		u.SetManagedFields(nil)
		u.SetGeneration(0)
	}
	return contains(live.Object, sent.Object)
}

// contains reports whether a live value has everything that was sent.
func contains(live, sent any) bool {
	switch sent := sent.(type) {
	case nil:
		return true
	case map[string]any:
		m, ok := live.(map[string]any)
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
		l, ok := live.([]any)
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
	return reflect.DeepEqual(live, sent)
}

// object decodes the object in a body. It returns nil if there is none.
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

// statusOf returns the Status in a response, or an empty one. The body can still be read.
func statusOf(resp *http.Response) (status metav1.Status) {
	_ = json.Unmarshal(peek(resp), &status)
	return status
}

// peek returns the body of a response. The body can still be read.
func peek(resp *http.Response) []byte {
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// withBody returns resp with another code and body.
func withBody(resp *http.Response, code int, body []byte) *http.Response {
	out := *resp
	out.StatusCode, out.Status = code, fmt.Sprintf("%d %s", code, http.StatusText(code))
	out.Header = http.Header{"Content-Type": {"application/json"}}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &out
}
