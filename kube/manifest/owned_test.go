package manifest

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/kube/connect"
)

func parse(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func entry(fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: connect.FieldManager, FieldsV1: metav1.NewFieldsV1(fields)}
}

const owned = `{"f:metadata":{"f:labels":{"f:a":{}},"f:finalizers":{".":{},"v:\"x\"":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`

// TestOwnsAll: an object is Helm's if each of its fields is, down to elements of lists. Fields that hold nothing do not count.
func TestOwnsAll(t *testing.T) {
	before := Before{owned: []metav1.ManagedFieldsEntry{entry(owned)}}
	for text, want := range map[string]bool{
		"{apiVersion: v1, kind: X, metadata: {name: x, namespace: n, labels: {a: b}, finalizers: [x]}, spec: {replicas: 1}}": true,
		"{spec: {selector: {matchLabels: {app: x}}}}":                true, // as a whole
		"{spec: {ports: [{port: 80}]}}":                              true, // with the default protocol
		"{spec: {ports: [{port: 80, name: http}]}}":                  false,
		"{spec: {ports: [{port: 81}]}}":                              false,
		"{spec: {ports: [{port: 80, protocol: UDP}]}}":               false,
		"{metadata: {labels: {a: b, c: d}}}":                         false,
		"{metadata: {finalizers: [x, y]}}":                           false,
		"{metadata: {annotations: {}, labels: null}, spec: {x: []}}": true,
		"{spec: {paused: false}}":                                    false,
		"{status: {x: 1}}":                                           true,
	} {
		if got := before.OwnsAll(&unstructured.Unstructured{Object: parse(t, text)}); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if (Before{}).OwnsAll(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("Helm owns an object that it never applied")
	}
}

// TestPrune: the fields that only the old set has are removed, with what they contain, except what others own.
func TestPrune(t *testing.T) {
	const env = `{"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"B\"}":{".":{},"f:name":{},"f:value":{}}},"f:data":{"f:x":{},"f:y":{}}}`
	for name, tt := range map[string]struct{ object, keep, want string }{
		"all":                      {"{env: [{name: A, value: 1}, {name: B, value: 2, default: z}], data: {x: 1, y: 2}, other: 1}", `{}`, "{other: 1}"},
		"an element of a list":     {"{env: [{name: A, value: 1}, {name: B, value: 2, default: z}]}", `{"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}}}`, "{env: [{name: A, value: 1}]}"},
		"a key":                    {"{data: {x: 1, y: 2, z: 3}}", `{"f:data":{"f:y":{}}}`, "{data: {y: 2, z: 3}}"},
		"nothing":                  {"{data: {x: 1}, env: [{name: A, value: 1}]}", env, "{data: {x: 1}, env: [{name: A, value: 1}]}"},
		"a field of an element":    {"{env: [{name: A, value: 1}]}", `{"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{}}}}`, "{env: [{name: A}]}"},
		"all that a map has":       {"{data: {x: 1}}", `{"f:data":{}}`, "{data: null}"},
		"all that a list has":      {"{env: [{name: A, value: 1}]}", `{"f:env":{}}`, "{env: null}"},
		"fields that do not exist": {"{other: 1}", `{}`, "{other: 1}"},
	} {
		object := parse(t, tt.object)
		changed := Prune(object, FieldsOf(entry(env)), FieldsOf(entry(tt.keep)))
		if want := parse(t, tt.want); !reflect.DeepEqual(object, want) || changed == reflect.DeepEqual(parse(t, tt.object), want) {
			t.Errorf("%s: %v, changed: %t", name, object, changed)
		}
	}
}

// TestFieldsOf: a field that one entry has itself and another one only for what it contains counts as both.
func TestFieldsOf(t *testing.T) {
	got := FieldsOf(entry(`{"f:a":{},"f:b":{"f:x":{}}}`), entry(`{"f:a":{"f:y":{}},"f:b":{"f:z":{}}}`), entry("no JSON"), metav1.ManagedFieldsEntry{})
	want := FieldsOf(entry(`{"f:a":{".":{},"f:y":{}},"f:b":{"f:x":{},"f:z":{}}}`))
	if !got.Equals(want) {
		t.Errorf("%v", got)
	}
}
