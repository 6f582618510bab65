package custom

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	// Like the dynamic client, UnmarshalJSON reads whole numbers as int64.
	data, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Database", "metadata": o.Object["metadata"], "status": o.Object["status"]})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNext(t *testing.T) {
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	const meta = `"name":"x","generation":2`
	tests := []struct {
		name        string
		object      string
		subresource bool
		after       time.Duration
		want        string // the status, "null" for nothing to do
		again       time.Duration
	}{
		{"no annotation", `{"metadata":{` + meta + `}}`, true, time.Hour, "null", 0},
		{"not yet", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s"}}}`, true, 500 * time.Millisecond,
			`{"conditions":[{"lastTransitionTime":"2030-01-02T03:04:05Z","message":"not ready before sandbox/ready-after","reason":"Simulated","status":"False","type":"Ready"}],"observedGeneration":2}`,
			1500 * time.Millisecond},
		{"ready", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s"}}}`, true, 2 * time.Second,
			`{"conditions":[{"lastTransitionTime":"2030-01-02T03:04:07Z","message":"ready by sandbox/ready-after","reason":"Simulated","status":"True","type":"Ready"}],"observedGeneration":2}`, 0},
		{"without a status subresource the write increments the generation", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"0s"}}}`, false, 0,
			`{"conditions":[{"lastTransitionTime":"2030-01-02T03:04:05Z","message":"ready by sandbox/ready-after","reason":"Simulated","status":"True","type":"Ready"}],"observedGeneration":3}`, 0},
		{"status annotation, not yet", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s","sandbox/status":"{\"phase\":\"Ready\"}"}}}`, true, 0, "null", 2 * time.Second},
		{"status annotation", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s","sandbox/status":"{\"phase\":\"Ready\",\"n\":3}"}}}`, true, 2 * time.Second,
			`{"n":3,"observedGeneration":2,"phase":"Ready"}`, 0},
		{"status annotation, already written", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s","sandbox/status":"{\"phase\":\"Ready\",\"n\":3}"}},"status":{"n":3,"phase":"Ready","observedGeneration":2,"more":1}}`, true, 0, "null", 0},
		{"generation as text", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s","sandbox/observed-generation":"string","sandbox/status":"{\"n\":3}"}}}`, true, 2 * time.Second,
			`{"n":3,"observedGeneration":"2"}`, 0},
		{"no generation", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"2s","sandbox/observed-generation":"none","sandbox/status":"{\"n\":3}"}}}`, true, 2 * time.Second,
			`{"n":3}`, 0},
		{"other conditions stay", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"0s"}},"status":{"conditions":[{"type":"Synced","status":"True"},{"type":"Ready","status":"True","lastTransitionTime":"2029-01-01T00:00:00Z"}]}}`, true, 0,
			`{"conditions":[{"status":"True","type":"Synced"},{"lastTransitionTime":"2029-01-01T00:00:00Z","message":"ready by sandbox/ready-after","reason":"Simulated","status":"True","type":"Ready"}],"observedGeneration":2}`, 0},
		{"status annotation is not JSON", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"0s","sandbox/status":"Ready"}}}`, true, 0,
			`{"conditions":[{"lastTransitionTime":"2030-01-02T03:04:05Z","message":"annotation sandbox/status is not a JSON object: \"Ready\"","reason":"SandboxAnnotation","status":"False","type":"Ready"}],"observedGeneration":2}`, 0},
		{"both annotations are invalid", `{"metadata":{` + meta + `,"annotations":{"sandbox/ready-after":"soon","sandbox/status":"Ready"}}}`, true, 0,
			`{"conditions":[{"lastTransitionTime":"2030-01-02T03:04:05Z","message":"annotation sandbox/ready-after: \"soon\" is ignored: it must be a duration such as 2s; annotation sandbox/status is not a JSON object: \"Ready\"","reason":"SandboxAnnotation","status":"False","type":"Ready"}],"observedGeneration":2}`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newController(nil, servedAPI{statusSubresource: tt.subresource})
			o := object(t, tt.object)
			status, again := c.next(o, since.Add(tt.after), since)
			got, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want || again != tt.again {
				t.Errorf("got  %s, again in %v\nwant %s, again in %v", got, again, tt.want, tt.again)
			}
			if status == nil || again != 0 {
				return
			}
			// The next sync must not write it again.
			have, _, _ := unstructured.NestedMap(o.Object, "status")
			if have == nil {
				have = map[string]any{}
			}
			for k, v := range status {
				have[k] = v
			}
			o.Object["status"] = have
			if !tt.subresource {
				o.SetGeneration(o.GetGeneration() + 1)
			}
			if status, again := c.next(o, since.Add(tt.after), since); status != nil || again != 0 {
				t.Errorf("the same status is written again: %v", status)
			}
		})
	}
}

func TestServedBy(t *testing.T) {
	crd := func(established, versions string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		text := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"dbs.example.com"},
			"spec":{"group":"example.com","names":{"plural":"dbs"},"versions":` + versions + `},
			"status":{"conditions":[{"type":"Established","status":"` + established + `"}]}}`
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	const two = `[{"name":"v1","served":true,"storage":false},{"name":"v2","served":true,"storage":true,"subresources":{"status":{}}}]`
	if s, ok := servedBy(crd("True", two)); !ok || s.resource.Version != "v2" || s.resource.Resource != "dbs" || !s.statusSubresource {
		t.Errorf("%+v, %v", s, ok)
	}
	if s, ok := servedBy(crd("True", `[{"name":"v1","served":true,"storage":true}]`)); !ok || s.statusSubresource {
		t.Errorf("without a subresource: %+v, %v", s, ok)
	}
	if _, ok := servedBy(crd("False", two)); ok {
		t.Error("a CRD that is not established counts as served")
	}
}
