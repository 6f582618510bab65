package manifest

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"
)

// TestMerge: the previous state of an object has the fields of all revisions that may have applied it, and is unknown if elements of
// a list have the same key (R32a).
func TestMerge(t *testing.T) {
	const service, custom = "apiVersion: v1, kind: Service, metadata: {name: x}, ", "apiVersion: example.com/v1, kind: X, metadata: {name: x}, "
	for name, tt := range map[string]struct{ older, newer, want string }{
		"fields":        {service + "spec: {type: A, a: null}", service + "spec: {type: B, selector: {b: b}}", service + "spec: {type: B, selector: {b: b}}"},
		"keys":          {service + "spec: {ports: [{port: 1}]}", service + "spec: {ports: [{port: 2}]}", service + "spec: {ports: [{port: 2}, {port: 1}]}"},
		"same key":      {service + "spec: {ports: [{port: 1, name: a}, {port: 1, name: b}]}", service + "spec: {ports: [{port: 1, name: a}]}", ""},
		"same key, new": {service + "spec: {ports: [{port: 1}]}", service + "spec: {ports: [{port: 1, name: a}, {port: 1, name: b}]}", ""},
		"custom":        {custom + "spec: {a: 1, list: [1]}", custom + "spec: {b: 2, list: [2]}", custom + "spec: {a: 1, b: 2, list: [2]}"},
	} {
		info := func(text string) *resource.Info {
			u := &unstructured.Unstructured{Object: parse(t, "{"+text+"}")}
			return &resource.Info{Name: "x", Object: u, Mapping: &meta.RESTMapping{GroupVersionKind: u.GroupVersionKind()}}
		}
		got := ""
		if union := merge(info(tt.older), info(tt.newer)); union != nil {
			text, err := yaml.Marshal(union.Object)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if tt.want == "" && got == "" {
			continue
		}
		if got == "" || !reflect.DeepEqual(parse(t, got), parse(t, "{"+tt.want+"}")) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
