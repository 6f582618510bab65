package manifest

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
)

// strip removes the annotations whose keys the API server refuses, and the same
// ones in the spelling of a stored manifest: a rollback, which starts from that,
// then sends what the installation sent. The others stay as they are, those
// without a value too.
//
// Rule R3: two slashes in a key never reach the cluster.
func strip(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	n := len(annotations)
	for k := range annotations {
		if strings.Count(k, "/") > 1 {
			delete(annotations, k)
		}
	}
	for _, k := range plan.TwoSlashKeys() {
		delete(annotations, plan.StoredKey(k))
	}
	if len(annotations) == 0 && n > 0 {
		delete(metadata, "annotations")
	}
}
