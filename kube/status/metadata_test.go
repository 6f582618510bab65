package status

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"

	"lockstep/engine/event"
)

// TestMetadataKinds expects that only the metadata of kinds without a status is listed, watched and read, and that the
// status is the same.
func TestMetadataKinds(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	m, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := watcher(t, c, Options{Metadata: m}, nil)
	defer w.Close()
	there := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: there, namespace: `+ns+`, finalizers: [x.io/stay]}, data: {a: b}}`)
	later := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: later, namespace: `+ns+`}, stringData: {a: b}}`)
	create := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		data, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return c.create(t, string(data))
	}
	seen := create(there)
	w.Watch(t.Context(), []Target{targetOf(there, Rule{}), targetOf(later, Rule{})}, l.report)
	l.wait(t, objectName(there), event.Ready, seen.GetResourceVersion())
	l.wait(t, objectName(later), event.Gone, "")
	l.wait(t, objectName(later), event.Ready, create(later).GetResourceVersion())

	gvr := resourceOf(there)
	r := metadataReader{m.Resource(gvr).Namespace(ns), there.GroupVersionKind(), false}
	got, err := r.Get(t.Context(), "there", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, want := trim(got), trim(seen)
	unstructured.RemoveNestedField(got.Object, "metadata", "generation") // 0 and none are the same
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := c.Resource(gvr).Namespace(ns).Delete(t.Context(), "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.wait(t, objectName(there), event.Deleting, "")
	if _, err := c.Resource(gvr).Namespace(ns).Patch(t.Context(), "there", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.wait(t, objectName(there), event.Gone, "")
}
