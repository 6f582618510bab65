package preflight

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
)

// checkOwners refuses objects whose ownerReferences name only objects that do not exist: the cluster would delete them at once. Such
// references come from copied objects, or from a lookup of an earlier object.
func (v *clusterView) checkOwners(planned *plannedObjects) (conflicts []plan.Warning) {
	return checkAll(planned.objects, func(o *incomingObject) []plan.Warning {
		owners := (&unstructured.Unstructured{Object: o.fields}).GetOwnerReferences()
		if len(owners) == 0 || slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return v.mayExist(r, o.Object.Namespace) }) {
			return nil
		}
		first := owners[0]
		return []plan.Warning{o.warning("%s: its owner, %s/%s with the uid %s, does not exist, so the cluster would delete it at once: remove metadata.ownerReferences, or correct the uid",
			o, first.Kind, first.Name, first.UID)}
	})
}

// mayExist reports whether the owner of an object in a namespace exists, or cannot be read.
func (v *clusterView) mayExist(r metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return true
	}
	mapping, err := v.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: r.Kind}, gv.Version)
	if err != nil {
		return true
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	owner, err := v.Client.Metadata.Resource(mapping.Resource).Namespace(namespace).Get(v.Context, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	return v.recordFailure(err, mapping.Resource.GroupResource().String(), namespace) || owner.UID == r.UID
}
