package status

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// plain are the kinds that have no status, and nothing else but metadata that Compute
// looks at. Charts have most objects of them; what is in them may be large, or secret,
// and the API server need not send it.
var plain = map[schema.GroupResource]string{
	{Resource: "configmaps"}:                                              "ConfigMap",
	{Resource: "secrets"}:                                                 "Secret",
	{Resource: "serviceaccounts"}:                                         "ServiceAccount",
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               "Role",
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        "RoleBinding",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        "ClusterRole",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: "ClusterRoleBinding",
}

// reader is the part of a dynamic.ResourceInterface that a source needs.
type reader interface {
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// metadataReader reads of objects nothing but their metadata.
type metadataReader struct {
	client metadata.ResourceInterface
	gvk    schema.GroupVersionKind
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
		list.Items[i] = *r.object(&found.Items[i])
	}
	return list, nil
}

// Watch returns a watch of metadata, see whole.
func (r metadataReader) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.client.Watch(ctx, opts)
}

func (r metadataReader) Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	found, err := r.client.Get(ctx, name, opts, subresources...)
	if err != nil {
		return nil, err
	}
	return r.object(found), nil
}

func (r metadataReader) object(m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	return whole(m, r.gvk)
}

// whole is an object that a watch tells of, which may have been read as metadata of a
// kind: with what trim keeps of that.
func whole(o runtime.Object, gvk schema.GroupVersionKind) *unstructured.Unstructured {
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
		return u
	}
	return nil
}
