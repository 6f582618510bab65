package testcluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// Parse returns the objects of a manifest.
func Parse(t testing.TB, manifest string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if len(u.Object) > 0 { // not just comments
			objects = append(objects, u)
		}
	}
	return objects
}

// UserAgent is that of the clients of tests, which the audit log shows.
const UserAgent = "test"

// Config returns the configuration of a client as the administrator, without a limit on its requests.
func (c *Cluster) Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent, config.QPS = UserAgent, -1
	return config
}

// Apply applies objects as the administrator. It guesses the resources of their kinds.
func (c *Cluster) Apply(t testing.TB, objects ...*unstructured.Unstructured) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(c.Config(t))
	for _, u := range objects {
		plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		if _, err := client.Resource(plural).Namespace(u.GetNamespace()).Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}
