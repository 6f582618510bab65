package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
)

// strip removes the ordering annotations with two slashes in their keys, and the same ones in
// the stored spelling: a rollback, which uses the stored manifest, then sends the same object
// as the install. It does not change other annotations.
//
// Rule R3: keys with two slashes are never sent to the cluster.
func strip(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	n := len(annotations)
	for _, k := range plan.TwoSlashKeys() {
		delete(annotations, k)
		delete(annotations, plan.StoredKey(k))
	}
	if len(annotations) == 0 && n > 0 {
		delete(metadata, "annotations")
	}
}
