package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
)

// strip removes the ordering annotations whose keys the API server refuses, and
// the same ones in the spelling of a stored manifest: a rollback, which starts
// from that, then sends what the installation sent. All others stay as they are:
// those without a value, and foreign ones, about which the API server has its say.
//
// Rule R3: two slashes in a key never reach the cluster.
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
