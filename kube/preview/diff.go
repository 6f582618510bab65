package preview

import (
	"bytes"
	"reflect"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/kube/mask"
)

// difference is what a change changes in an object, nothing where both are empty.
type difference struct {
	text   string // a unified diff of YAML
	fields []Field
}

// differenceOf compares two states of an object. What the API server keeps for
// itself is left out, and secret values are hidden.
func differenceOf(live, next *unstructured.Unstructured) (difference, error) {
	if reflect.DeepEqual(live.Object, next.Object) {
		return difference{}, nil
	}
	a, b := withoutNoise(live), withoutNoise(next)
	if reflect.DeepEqual(a, b) {
		return difference{}, nil
	}
	mask.Object(b, a)
	before, err := yaml.Marshal(a)
	if err != nil {
		return difference{}, err
	}
	after, err := yaml.Marshal(b)
	if err != nil {
		return difference{}, err
	}
	text := diff.Diff("live", before, "next", after)
	if at := bytes.Index(text, []byte("\n@@ ")); at >= 0 {
		text = text[at+1:] // what comes before names files
	}
	return difference{string(text), fieldsOf(a, b)}, nil
}

// serverSet are fields of metadata that change without anybody asking for it.
var serverSet = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// lastApplied is kubectl's copy of an object; that of a Secret has its values.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutNoise returns an object without what does not count in a comparison.
func withoutNoise(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	for _, f := range serverSet {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", lastApplied)
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object
}
