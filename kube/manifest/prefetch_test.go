package manifest

import (
	"testing"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// infoOf returns the Info of an object in the API group x.io.
func infoOf(kind, version, name string) *resource.Info {
	gvk := schema.GroupVersionKind{Group: "x.io", Version: version, Kind: kind}
	return &resource.Info{Namespace: "n", Name: name, Mapping: &meta.RESTMapping{
		Resource: gvk.GroupVersion().WithResource("gauges"), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace,
	}}
}

// TestPrefetchedAnswers: a GET is answered from prefetched metadata, without a request.
func TestPrefetchedAnswers(t *testing.T) {
	found := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "n", ResourceVersion: "7", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Operation: metav1.ManagedFieldsOperationApply}},
	}}
	i, f := infoOf("Gauge", "v1", "a"), &Fact{}
	answer(i, found, f)
	for range 2 {
		object, err := resource.NewHelper(i.Client, i.Mapping).Get("n", "a")
		if err != nil {
			t.Fatal(err)
		}
		m, err := meta.Accessor(object)
		if err != nil || m.GetName() != "a" || m.GetResourceVersion() != "7" || m.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" || len(m.GetManagedFields()) != 1 {
			t.Errorf("%+v, %v", object, err)
		}
		if gvk := object.GetObjectKind().GroupVersionKind(); gvk != i.Mapping.GroupVersionKind {
			t.Errorf("kind %s", gvk)
		}
		m.SetLabels(nil) // must not change the metadata
	}
	if b := f.Before(); !b.Known || b.Version != "7" || f.prefetched == nil {
		t.Errorf("%+v", f)
	}
	DropPrefetched(helmkube.ResourceList{i})
	if i.Client != nil {
		t.Errorf("its client is still %T", i.Client)
	}

	i, f = infoOf("Gauge", "v1", "b"), &Fact{}
	answer(i, nil, f)
	_, err := resource.NewHelper(i.Client, i.Mapping).Get("n", "b")
	if !apierrors.IsNotFound(err) || err.Error() != `gauges.x.io "b" not found` || !f.Before().Absent() || f.prefetched == nil {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestIndexMatchesHelm compares an index with Helm's methods of lists.
func TestIndexMatchesHelm(t *testing.T) {
	list := helmkube.ResourceList{infoOf("A", "v1", "a"), infoOf("A", "v2", "b"), infoOf("B", "v1", "a"), infoOf("A", "v2", "a"), infoOf("A", "v1", "")}
	others := helmkube.ResourceList{infoOf("A", "v3", "a"), infoOf("C", "v1", "a"), infoOf("A", "v1", "")}
	x := NewIndex(list)
	for _, i := range append(others, list...) {
		if got, want := x.Get(i), list.Get(i); got != want {
			t.Errorf("%s: %p, want %p", i.ObjectName(), got, want)
		}
	}
	got, want := Without(list, others), list.Difference(others)
	if len(got) != 2 || len(want) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%v, want %v", got, want)
	}
}
