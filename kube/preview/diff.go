package preview

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lockstep/kube/mask"
)

// diffObjects is what a change changes in an object: a unified diff of YAML,
// empty where nothing is changed. What the API server keeps for itself is left
// out, and secret values are hidden.
func diffObjects(live, next runtime.Object) (string, error) {
	a, err := withoutNoise(live)
	if err != nil {
		return "", err
	}
	b, err := withoutNoise(next)
	if err != nil || reflect.DeepEqual(a, b) {
		return "", err
	}
	mask.Object(b, a)
	before, err := yaml.Marshal(a)
	if err != nil {
		return "", err
	}
	after, err := yaml.Marshal(b)
	if err != nil {
		return "", err
	}
	text := diff.Diff("live", before, "next", after)
	if at := bytes.Index(text, []byte("\n@@ ")); at >= 0 {
		text = text[at+1:] // what comes before names files
	}
	return string(text), nil
}

// serverSet are fields of metadata that change without anybody asking for it.
var serverSet = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// lastApplied is kubectl's copy of an object; that of a Secret has its values.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutNoise returns an object without what does not count in a comparison.
func withoutNoise(o runtime.Object) (map[string]any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", o)
	}
	u = u.DeepCopy()
	for _, f := range serverSet {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", lastApplied)
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object, nil
}
