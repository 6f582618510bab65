package cluster

import (
	"strings"
	"testing"

	helmkube "helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

func parseSet(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestClaimsOfSets: the claims that StatefulSets have made are named, and whether they stay, but not those of others (R31). They are listed once in each namespace with such a StatefulSet.
func TestClaimsOfSets(t *testing.T) {
	var list helmkube.ResourceList
	for _, text := range []string{
		"{metadata: {name: db}, spec: {volumeClaimTemplates: [{metadata: {name: data}}, {metadata: {name: log}}]}}",
		"{metadata: {name: many}, spec: {volumeClaimTemplates: [{metadata: {name: data}}]}}",
		"{metadata: {name: none}, spec: {}}",
	} {
		u := parseSet(t, text)
		list = append(list, &resource.Info{Object: u, Name: u.GetName(), Namespace: "ns", Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: setKind.Group, Version: "v1", Kind: setKind.Kind}}})
	}
	var objects []runtime.Object
	for _, name := range []string{"data-db-0", "log-db-0", "data-db-x-0", "data-db", "other", "data-many-0", "data-many-1", "data-many-2", "data-many-3", "data-many-4", "data-many-5", "data-none-0"} {
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}})
	}
	objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-db-1", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db"}}}})
	kube := fake.NewClientset(objects...)
	kept, deleted := ClaimsOfSets(t.Context(), kube, list)
	got := strings.Join(append(kept, deleted...), "\n")
	want := "kept: PersistentVolumeClaim/data-db-0, PersistentVolumeClaim/log-db-0 (made by StatefulSet/db; they may hold data)\n" +
		"kept: PersistentVolumeClaim/data-many-0, PersistentVolumeClaim/data-many-1, PersistentVolumeClaim/data-many-2, PersistentVolumeClaim/data-many-3, PersistentVolumeClaim/data-many-4, 1 more (made by StatefulSet/many; they may hold data)\n" +
		"deleted with StatefulSet/db, because of its persistentVolumeClaimRetentionPolicy: PersistentVolumeClaim/data-db-1; it may hold data"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if n := len(kube.Actions()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestClaimsOfScaledSets: the claims that Kubernetes deletes because a StatefulSet gets fewer replicas are named, but none that has no
// pod now (R30). Nothing is read of other StatefulSets.
func TestClaimsOfScaledSets(t *testing.T) {
	const spec = "volumeClaimTemplates: [{metadata: {name: data}}], ordinals: {start: 1}"
	set := func(replicas, policy string) *unstructured.Unstructured {
		return parseSet(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns}, spec: {"+replicas+", persistentVolumeClaimRetentionPolicy: {whenScaled: "+policy+"}, "+spec+"}}")
	}
	live := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns"}, Spec: asStatefulSet(set("replicas: 3", "Retain"))}
	objects := []runtime.Object{live}
	for _, name := range []string{"data-db-0", "data-db-1", "data-db-2", "data-db-3", "data-db-4", "data-other-2"} {
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}})
	}
	for _, c := range []struct {
		replicas, policy, want string
		requests               int
	}{
		{"replicas: 1", "Delete", "deleted when StatefulSet/db is scaled from 3 to 1, because of its persistentVolumeClaimRetentionPolicy: PersistentVolumeClaim/data-db-2, PersistentVolumeClaim/data-db-3; they may hold data", 2},
		{"replicas: 3", "Delete", "", 1},
		{"replicas: 1", "Retain", "", 0},
		{"minReadySeconds: 0", "Delete", "", 0},
	} {
		kube, u := fake.NewClientset(objects...), set(c.replicas, c.policy)
		i := &resource.Info{Object: u, Name: u.GetName(), Namespace: "ns", Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: setKind.Group, Version: "v1", Kind: setKind.Kind}}}
		if got := strings.Join(ClaimsOfScaledSets(t.Context(), kube, helmkube.ResourceList{i}), "\n"); got != c.want || len(kube.Actions()) != c.requests {
			t.Errorf("%s, %s: %q with %d requests", c.replicas, c.policy, got, len(kube.Actions()))
		}
	}
}

// TestReplacedSetKeepsClass: the plan says that the claims of a replaced StatefulSet keep their StorageClass (R30b).
func TestReplacedSetKeepsClass(t *testing.T) {
	set := func(class string) *unstructured.Unstructured {
		return parseSet(t, "{metadata: {name: db}, spec: {replicas: 1, selector: {matchLabels: {app: db}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {"+class+"}}]}}")
	}
	for class, want := range map[string]string{
		"storageClassName: fast": "its pods and claims stay",
		"storageClassName: slow": "its pods and claims stay; those of template data keep StorageClass fast",
		"":                       "its pods and claims stay; those of template data keep StorageClass fast",
	} {
		if _, got := Deletion(plan.Object{Group: "apps", Kind: "StatefulSet", Name: "db"}, set("storageClassName: fast"), set(class)); got != want {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
}
