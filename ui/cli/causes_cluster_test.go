package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"lockstep/kube/throwaway/testcluster"
)

// clusterClient changes the cluster of the tests besides lockstep.
type clusterClient struct {
	t      *testing.T
	kube   *kubernetes.Clientset
	dyn    dynamic.Interface
	mapper meta.RESTMapper
}

func inCluster(t *testing.T) *clusterClient {
	t.Helper()
	config := testcluster.Get(t).Config(t)
	c := &clusterClient{t: t, kube: kubernetes.NewForConfigOrDie(config), dyn: dynamic.NewForConfigOrDie(config)}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.kube.Discovery()))
	return c
}

func (c *clusterClient) namespace(name string) {
	c.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}}}
	if _, err := c.kube.CoreV1().Namespaces().Create(c.t.Context(), ns, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// create creates objects in the namespace $NS.
func (c *clusterClient) create(ns string, docs ...string) {
	c.t.Helper()
	for _, doc := range docs {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(doc, "$NS", ns)), u); err != nil {
			c.t.Fatal(err, doc)
		}
		m, err := c.mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			c.t.Fatal(err)
		}
		client := dynamic.ResourceInterface(c.dyn.Resource(m.Resource))
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			client = c.dyn.Resource(m.Resource).Namespace(ns)
		}
		if _, err := client.Create(c.t.Context(), u, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
			c.t.Fatal(err)
		}
	}
}
