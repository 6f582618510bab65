package manifest

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestWithoutOthers: what others have set since a failed revision is none of what client-side apply removes, at the moment of the write.
// A list, or an element of one, in which they have set a field stays as a whole if the target lacks it; an element in which they have
// only set an element of another list goes (R32a).
func TestWithoutOthers(t *testing.T) {
	object := func(spec string) *resource.Info {
		u := &unstructured.Unstructured{Object: parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: x}, "+spec+"}")}
		return &resource.Info{Name: "x", Object: u, Mapping: &meta.RESTMapping{GroupVersionKind: u.GroupVersionKind()}}
	}
	const container = `{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":`
	for name, tt := range map[string]struct{ deployed, failed, target, helm, others, want string }{
		"field":  {"spec: {a: 1}", "spec: {a: 1, b: 2}", "spec: {a: 1}", `{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`, "spec: {a: 1}"},
		"nobody": {"spec: {a: 1}", "spec: {a: 1, b: 2}", "spec: {a: 1}", `{"f:spec":{"f:a":{},"f:b":{}}}`, `{"f:status":{"f:x":{}}}`, "spec: {a: 1, b: 2}"},
		"env": {"spec: {containers: [{name: c, image: a}]}", "spec: {containers: [{name: c, image: b, env: [{name: E, value: '1'}, {name: F, value: '1'}]}]}", "spec: {containers: [{name: c, image: a}]}",
			container + `{".":{},"f:name":{},"f:image":{},"f:env":{".":{},"k:{\"name\":\"E\"}":{".":{},"f:name":{}},"k:{\"name\":\"F\"}":{".":{},"f:name":{},"f:value":{}}}}}}}`,
			container + `{"f:env":{"k:{\"name\":\"E\"}":{"f:value":{}}}}}}}`,
			"spec: {containers: [{name: c, image: b}]}"},
		"one of env": {"spec: {containers: [{name: c, image: a}]}", "spec: {containers: [{name: c, image: b, env: [{name: E, value: '1'}, {name: F, value: '1'}]}]}", "spec: {containers: [{name: c, image: a, env: [{name: G}]}]}",
			container + `{".":{},"f:name":{},"f:image":{},"f:env":{".":{},"k:{\"name\":\"E\"}":{".":{},"f:name":{}},"k:{\"name\":\"F\"}":{".":{},"f:name":{},"f:value":{}}}}}}}`,
			container + `{"f:env":{"k:{\"name\":\"E\"}":{"f:value":{}}}}}}}`,
			"spec: {containers: [{name: c, image: b, env: [{name: F, value: '1'}]}]}"},
		"sidecar": {"spec: {containers: [{name: d}]}", "spec: {containers: [{name: d}, {name: c, image: b}]}", "spec: {containers: [{name: d}]}",
			container + `{".":{},"f:name":{},"f:image":{}}}}}`, container + `{"f:env":{".":{},"k:{\"name\":\"E\"}":{".":{},"f:name":{},"f:value":{}}}}}}}`,
			"spec: {containers: [{name: d}, {name: c, image: b}]}"},
		"image": {"spec: {containers: [{name: c, image: a}]}", "spec: {containers: [{name: c, image: b, tty: true}]}", "spec: {containers: [{name: c, image: a}]}",
			container + `{".":{},"f:name":{},"f:tty":{}}}}}`, container + `{"f:image":{}}}}}`,
			"spec: {containers: [{name: c, image: a, tty: true}]}"},
	} {
		entry := func(manager, fields string) metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
		}
		deployed, failed, target := object(tt.deployed), object(tt.failed), object(tt.target)
		applied := &Applied{states: map[identity][]appliedState{identityOf(target): {{failed, false}, {deployed, true}}}}
		got := applied.Of(target, []metav1.ManagedFieldsEntry{entry("helm", tt.helm), entry("kubectl", tt.others)})
		if want := object(tt.want).Object; got == nil || fmt.Sprint(got.Object) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got.Object, want)
		}
	}
}
