package connect

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

// EachObject calls visit with the metadata of all objects of a resource that have the labels. It reads them in pages, and in a
// single list if these have expired meanwhile.
func EachObject(ctx context.Context, resource metadata.ResourceInterface, labels string, visit func(*metav1.PartialObjectMetadata)) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) })
	pages.PageSize = 1000
	all, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(o runtime.Object) error {
		visit(o.(*metav1.PartialObjectMetadata))
		return nil
	})
}
