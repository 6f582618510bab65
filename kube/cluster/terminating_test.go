package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/metadata/fake"

	"lockstep/kube/connect"
)

// TestWaitGone: the wait for the end of an object ends with the object, however long that takes, and not before.
func TestWaitGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resourceOf := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		old := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "1"}}
		client := fake.NewSimpleMetadataClient(scheme, old)
		target := &Target{session: Session{Client: &connect.Client{Metadata: client}}}
		i := &resource.Info{Name: "a", Namespace: "n", Mapping: &meta.RESTMapping{Resource: resourceOf}}
		start := time.Now()
		const held = time.Hour
		time.AfterFunc(held, func() {
			if err := client.Resource(resourceOf).Namespace("n").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		target.blockedBy(i, old).WaitGone(t.Context())
		if waited := time.Since(start); waited < held || waited > held+time.Second {
			t.Errorf("waited for %s", waited)
		}
	})
}
