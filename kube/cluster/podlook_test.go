package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestMadeFrom: a pod is of a template if it has all that the template has. What is added to it does not matter (R22).
func TestMadeFrom(t *testing.T) {
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	set := read(`spec: {template: {metadata: {creationTimestamp: null, labels: {app: x}, annotations: {sum: "1"}}, spec: {securityContext: {}, containers: [
  {name: app, image: "x:2", args: [a, b], env: [{name: A, value: "1"}], resources: {}}]}}}`)
	pod := func(meta, containers string) string {
		return "metadata: {" + meta + "}\nspec: {nodeName: n, containers: [" + containers + "]}"
	}
	const meta = `labels: {app: x, more: "1"}, annotations: {sum: "1", more: "1"}`
	for name, test := range map[string]struct {
		pod  string
		want bool
	}{
		"the same, with additions": {pod(meta, `{name: sidecar, image: s}, {name: app, image: "x:2", args: [a, b], env: [{name: B}, {name: A, value: "1"}], resources: {limits: {cpu: 1}}}`), true},
		"another image":            {pod(meta, `{name: app, image: "x:1", args: [a, b], env: [{name: A, value: "1"}]}`), false},
		"other arguments":          {pod(meta, `{name: app, image: "x:2", args: [a, b, c], env: [{name: A, value: "1"}]}`), false},
		"another variable":         {pod(meta, `{name: app, image: "x:2", args: [a, b], env: [{name: A, value: "2"}]}`), false},
		"another annotation":       {pod(`labels: {app: x}, annotations: {sum: "0"}`, `{name: app, image: "x:2", args: [a, b], env: [{name: A, value: "1"}]}`), false},
	} {
		if got := madeFrom(set, read(test.pod)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
