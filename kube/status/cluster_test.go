package status

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/throwaway/testcluster"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Main(m)) }

// realCluster returns a client configuration for the cluster of this package, and a new namespace.
func realCluster(t *testing.T) (*rest.Config, string) {
	t.Helper()
	config := testcluster.Get(t).Config(t)
	c := connect(t, config)
	name := "status-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	c.create(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`}}`)
	return config, name
}

// watcher returns a Watcher with its own Hub.
func watcher(t *testing.T, c dynamic.Interface, o Options, notice func(plan.Warning)) *Watcher {
	t.Helper()
	h := NewHub(t.Context(), c, o)
	t.Cleanup(h.Close)
	return h.Watcher(t.Context(), notice)
}

// client creates and changes objects.
type client struct{ dynamic.Interface }

func connect(t *testing.T, config *rest.Config) client {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client{c}
}

func resourceOf(u *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := u.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind) + "s"
	return gvk.GroupVersion().WithResource(plural)
}

// create creates an object with Helm's label.
func (c client) create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, text)
	u.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
	made, err := c.Resource(resourceOf(u)).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func targetOf(u *unstructured.Unstructured, rule Rule) Target {
	return Target{Object: objectName(u), GVR: resourceOf(u), Namespaced: u.GetNamespace() != "", Rule: rule, Labelled: true}
}

// log collects observations and lets tests wait for them.
type log struct {
	mu   sync.Mutex
	last map[plan.Object]run.Observation
	news chan struct{}
	all  []run.Observation
}

func newLog() *log {
	return &log{last: map[plan.Object]run.Observation{}, news: make(chan struct{}, 1)}
}

func (l *log) report(o run.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[o.Object] = o
	l.all = append(l.all, o)
	signal(l.news)
}

// wait waits until an object has a status at a version or later, and returns
// the observation.
func (l *log) wait(t *testing.T, o plan.Object, s event.Status, version string) run.Observation {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		l.mu.Lock()
		seen := l.last[o]
		l.mu.Unlock()
		if seen.Status == s && seen.Version >= ParseVersion(version) {
			return seen
		}
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("%s is not %s: %+v", o, s, seen)
		}
	}
}
