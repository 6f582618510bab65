package preview

import (
	"bytes"
	"reflect"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/inspect"
	"lockstep/kube/mask"
)

// compareObjects compares two states of an object: as a unified diff of YAML, and field by
// field. Both are empty if nothing changes. It ignores fields that the API server sets and
// hides secret values.
func compareObjects(live, next *unstructured.Unstructured) (text string, fields []inspect.Field, err error) {
	if reflect.DeepEqual(live.Object, next.Object) {
		return "", nil, nil
	}
	a, b := normalized(live), normalized(next)
	if reflect.DeepEqual(a, b) {
		return "", nil, nil
	}
	mask.Object(b, a)
	before, err := yaml.Marshal(a)
	if err != nil {
		return "", nil, err
	}
	after, err := yaml.Marshal(b)
	if err != nil {
		return "", nil, err
	}
	lines := diff.Diff("live", before, "next", after)
	if at := bytes.Index(lines, []byte("\n@@ ")); at >= 0 {
		lines = lines[at+1:] // without file names
	}
	return string(lines), compareFields(a, b), nil
}

// serverSet are fields of metadata that the API server sets.
var serverSet = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// lastApplied is kubectl's copy of the object, including secret values.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// normalized returns a copy of the fields of an object, without its status, the metadata that the
// API server sets, and the annotation lastApplied.
func normalized(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	for _, f := range serverSet {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", lastApplied)
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object
}
