package release

import (
	"context"
	"fmt"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
)

// TestRecheck: while a run works on a revision, the records are not listed again unless they have changed (R51b).
func TestRecheck(t *testing.T) {
	record := func(revision int, status rcommon.Status, uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sh.helm.release.v1.r.v%d", revision), Namespace: "ns", UID: uid, ResourceVersion: "7",
				Labels: map[string]string{"owner": "helm", "name": "r", "version": fmt.Sprint(revision), "status": status.String()}},
		}
	}
	const pending, deployed = rcommon.StatusPendingUpgrade, rcommon.StatusDeployed
	for _, c := range []struct {
		name         string
		known, found []*metav1.PartialObjectMetadata
		lists        int
		lost         bool
	}{
		{"unchanged", []*metav1.PartialObjectMetadata{record(1, deployed, "a"), record(2, pending, "b")}, []*metav1.PartialObjectMetadata{record(1, deployed, "a"), record(2, pending, "b")}, 0, false},
		{"not in progress", []*metav1.PartialObjectMetadata{record(2, deployed, "b")}, []*metav1.PartialObjectMetadata{record(2, deployed, "b")}, 1, false},
		{"a newer revision", []*metav1.PartialObjectMetadata{record(2, pending, "b")}, []*metav1.PartialObjectMetadata{record(2, pending, "b"), record(3, pending, "c")}, 1, true},
		{"created again", []*metav1.PartialObjectMetadata{record(1, pending, "b")}, []*metav1.PartialObjectMetadata{record(1, pending, "c")}, 1, true},
		{"uninstalled", []*metav1.PartialObjectMetadata{record(2, pending, "b")}, nil, 1, true},
		{"another status", []*metav1.PartialObjectMetadata{record(2, pending, "b")}, []*metav1.PartialObjectMetadata{record(2, rcommon.StatusUninstalling, "b")}, 1, true},
	} {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		var objects []runtime.Object
		for _, o := range c.found {
			objects = append(objects, o)
		}
		client := fake.NewSimpleMetadataClient(scheme, objects...)
		l := NewLedger("ns", "r")
		for _, o := range c.known {
			if err := l.observeObject(o); err != nil {
				t.Fatal(err)
			}
		}
		l.Seal(l.last.now())
		err := l.Look(context.Background(), l.Records(nil, client, "secrets", "ns"))
		lists := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "list" {
				lists++
			}
		}
		if lists != c.lists || (err != nil) != c.lost {
			t.Errorf("%s: %d lists, %v", c.name, lists, err)
		}
	}
}
