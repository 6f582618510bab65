package preflight

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/session"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CheckCRDs returns an error if an upgrade of crds/ would remove a version in which objects may be
// stored: the API server could no longer read these objects.
func CheckCRDs(s *session.Session, crds session.CRDs) error {
	if !crds.Upgrade {
		return nil
	}
	for _, d := range crds.Docs {
		if d.Object.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		live, err := s.Client.Dynamic.Resource(crdResource).Get(s.Context, d.Object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: read CustomResourceDefinition/%s: %w", d.Source, d.Object.GetName(), err)
		}
		if lost := lostVersions(live, d.Object); len(lost) > 0 {
			return fmt.Errorf("%s: CustomResourceDefinition/%s would lose version %s, "+
				"in which objects are stored (status.storedVersions): keep that version in the chart with served: false, "+
				"or first migrate the objects and remove it from status.storedVersions",
				d.Source, d.Object.GetName(), strings.Join(lost, ", "))
		}
	}
	return nil
}

var crdKind = schema.GroupKind{Group: crdResource.Group, Kind: "CustomResourceDefinition"}

// lostVersions returns the stored versions of a live CRD that the next one does not have.
func lostVersions(live, next *unstructured.Unstructured) []string {
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(next.Object, "spec", "versions")
	var kept []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			name, _ := m["name"].(string)
			kept = append(kept, name)
		}
	}
	return slices.DeleteFunc(stored, func(v string) bool { return slices.Contains(kept, v) })
}
