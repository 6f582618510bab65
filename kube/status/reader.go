package status

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// unneededFields are the fields of a spec that Compute does not need.
var unneededFields = []string{"template", "volumeClaimTemplates", "versions", "containers", "initContainers", "volumes"}

// trim returns only the parts of an object that Compute needs, to save memory: identity, spec and status, without data, and
// of the managed fields only who has written a status (ShownByWrites), or the spec of a Deployment with an exceeded progress
// deadline.
func trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	meta := map[string]any{}
	from, _ := u.Object["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "generation",
		"creationTimestamp", "deletionTimestamp", "finalizers"} {
		if v, ok := from[key]; ok {
			meta[key] = v
		}
	}
	if kept := trimAnnotations(u.GetAnnotations()); len(kept) > 0 {
		meta["annotations"] = kept
	}
	if kept := trimManagedFields(from); kept != nil && ShownByWrites(u.GroupVersionKind().Group) {
		meta["managedFields"] = kept
	}
	if _, ok := deadlineCondition(u); ok {
		meta["managedFields"] = from["managedFields"]
	}
	object := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": meta}
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		kept := maps.Clone(spec)
		for _, key := range unneededFields {
			delete(kept, key)
		}
		object["spec"] = kept
	}
	if status, ok := u.Object["status"]; ok {
		object["status"] = status
	}
	return &unstructured.Unstructured{Object: object}
}

// trim is like the function, but also keeps what the Hub needs for Target.Judge.
func (h *Hub) trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	kept := trim(u)
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	for _, key := range h.options.Marks {
		for field, all := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
			if v, ok := all[key]; ok {
				_ = unstructured.SetNestedField(kept.Object, v, "metadata", field, key) // fails only if a parent is no mapping
			}
		}
	}
	if h.options.Owners {
		kept.SetManagedFields(u.GetManagedFields())
	}
	return kept
}

// trimAnnotations returns the annotations that Compute needs.
func trimAnnotations(all map[string]string) map[string]any {
	kept := map[string]any{}
	for _, key := range slices.Concat([]string{selectedNode}, haltAnnotations()) {
		if v, ok := all[key]; ok {
			kept[key] = v
		}
	}
	return kept
}

// metadataKinds are the kinds of which Compute needs only metadata. Many objects of a chart are of these kinds, and their
// content may be large or secret.
var metadataKinds = map[schema.GroupResource]string{
	{Resource: "configmaps"}:                                              "ConfigMap",
	{Resource: "secrets"}:                                                 "Secret",
	{Resource: "serviceaccounts"}:                                         "ServiceAccount",
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               "Role",
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        "RoleBinding",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        "ClusterRole",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: "ClusterRoleBinding",
}

// reader is the part of dynamic.ResourceInterface that a source needs.
type reader interface {
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// metadataReader reads only the metadata of objects.
type metadataReader struct {
	client metadata.ResourceInterface
	gvk    schema.GroupVersionKind
	owners bool // keep the managed fields
}

func (r metadataReader) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	found, err := r.client.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(found.Items))}
	list.SetResourceVersion(found.ResourceVersion)
	list.SetContinue(found.Continue)
	for i := range found.Items {
		list.Items[i] = *toUnstructured(&found.Items[i], r.gvk, r.owners)
	}
	return list, nil
}

// Watch returns a watch whose objects are metadata; toUnstructured converts them.
func (r metadataReader) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.client.Watch(ctx, opts)
}

func (r metadataReader) Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	found, err := r.client.Get(ctx, name, opts, subresources...)
	if err != nil {
		return nil, err
	}
	return toUnstructured(found, r.gvk, r.owners), nil
}

// toUnstructured converts an object that the API server sent. If it is only metadata, gvk is its kind. It returns nil for
// other types. owners keeps its managed fields.
func toUnstructured(o runtime.Object, gvk schema.GroupVersionKind, owners bool) *unstructured.Unstructured {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		return o
	case *metav1.PartialObjectMetadata:
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(gvk)
		u.SetName(o.Name)
		u.SetNamespace(o.Namespace)
		u.SetUID(o.UID)
		u.SetResourceVersion(o.ResourceVersion)
		u.SetGeneration(o.Generation)
		u.SetCreationTimestamp(o.CreationTimestamp)
		u.SetDeletionTimestamp(o.DeletionTimestamp)
		u.SetFinalizers(o.Finalizers)
		u.SetLabels(o.Labels)
		u.SetAnnotations(o.Annotations)
		if owners {
			u.SetManagedFields(o.ManagedFields)
		}
		return u
	}
	return nil
}
