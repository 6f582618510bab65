package kube

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
)

// sandbox is the cluster of this package's tests; each test has a namespace of
// its own in it.
var sandbox *throwaway.Cluster

func TestMain(m *testing.M) {
	if text := os.Getenv(errandVar); text != "" {
		os.Exit(runErrand(text))
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var err error
	if sandbox, err = testcluster.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testcluster.Main(m))
}

const chartsDir = "../testdata/charts"

// rig is a namespace and a way to deploy to it.
type rig struct {
	t         *testing.T
	namespace string
	client    *Client
	// cluster is for the test's own requests, under another user agent.
	cluster kubernetes.Interface
}

// newRig makes a namespace for a test. It stays until the end of the cluster,
// since removing one takes the controllers many seconds.
func newRig(t *testing.T) *rig {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-", ",", "", "(", "", ")", "", ":", "", " ", "-", ".", "-").Replace(t.Name()))
	return newRigNamed(t, strings.Trim(name[:min(len(name), 60)], "-"))
}

func newRigNamed(t *testing.T, name string) *rig {
	t.Helper()
	r := &rig{t: t, namespace: name, client: connected(t, name), cluster: testClient(t)}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := r.cluster.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// needs skips a test of a kind that the cluster's Kubernetes does not serve yet; since is
// the first version that does.
func (r *rig) needs(groupVersion, kind, since string) {
	r.t.Helper()
	list, err := r.cluster.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(res metav1.APIResource) bool { return res.Kind == kind }) {
		r.t.Skipf("needs %s, Kubernetes %s", kind, since)
	}
}

func testClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", sandbox.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "test"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func connected(t *testing.T, namespace string) *Client {
	t.Helper()
	s := cli.New()
	s.KubeConfig = sandbox.Kubeconfig
	s.SetNamespace(namespace)
	c, err := Connect(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func loadChart(t *testing.T, name string) *charts.Chart {
	t.Helper()
	c, err := charts.LoadPath(filepath.Join(chartsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values are what every test of a chart sets: names of kinds of its own, since
// kinds are shared by the namespaces of the cluster, and short delays.
func (r *rig) values(chart string) map[string]any {
	switch chart {
	case "shop", "plain-shop":
		return map[string]any{"global": map[string]any{"speed": 10, "topicGroup": r.namespace + ".example"}}
	case "crd-late", "crd-same-group":
		return map[string]any{"apiGroup": r.namespace + ".example"}
	case "slow":
		return map[string]any{"readyDelay": "3s"}
	}
	return nil
}

// install prepares an installation as release t.
func (r *rig) install(chart string, change func(*Install)) (*Operation, error) {
	in := Install{Rendering: Rendering{Chart: loadChart(r.t, chart), Values: r.values(chart)}, Common: r.common()}
	if change != nil {
		change(&in)
	}
	return r.client.PrepareInstall(context.Background(), in)
}

// common are the options of an operation on release t. Runs of other processes on
// this machine are known by their locks.
func (r *rig) common() Common {
	return Common{Release: "t", Namespace: r.namespace, Lease: LeaseOptions{LockDir: lockDir()}}
}

func lockDir() string { return filepath.Join(filepath.Dir(sandbox.Kubeconfig), "locks") }

// outcome is what an operation left.
type outcome struct {
	err    error
	state  event.State
	events []event.Event
}

// run runs an operation to its end. on is told of every event, while it runs.
func (r *rig) run(op *Operation, on func(event.Event)) outcome {
	var out outcome
	var wg sync.WaitGroup
	wg.Go(func() {
		for reader := op.Feed().Reader(); ; {
			batch, ok := reader.Next(context.Background())
			if !ok {
				return
			}
			for _, e := range batch {
				out.state.Apply(e)
				out.events = append(out.events, e)
				if on != nil {
					on(e)
				}
			}
		}
	})
	out.err = op.Run()
	wg.Wait()
	return out
}

// deploy installs a chart, which must succeed.
func (r *rig) deploy(chart string, change func(*Install)) outcome {
	r.t.Helper()
	op, err := r.install(chart, change)
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.err != nil || out.state.Status != event.Succeeded || out.state.Exit != 0 {
		r.t.Fatalf("install %s: %v, %s, exit %d", chart, out.err, out.state.Status, out.state.Exit)
	}
	return out
}

// helm returns a configuration of Helm's own SDK, without anything of ours.
func (r *rig) helm() *action.Configuration {
	r.t.Helper()
	s := cli.New()
	s.KubeConfig = sandbox.Kubeconfig
	s.SetNamespace(r.namespace)
	cfg := action.NewConfiguration()
	if err := cfg.Init(s.RESTClientGetter(), r.namespace, "secret"); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// audit reads what was written in the test's namespace, and to objects of
// cluster scope.
func (r *rig) audit() auditlog.Log {
	r.t.Helper()
	log, err := auditlog.Read(sandbox.AuditLog)
	if err != nil {
		r.t.Fatal(err)
	}
	return log.Writes().Where(func(e auditlog.Event) bool {
		ns := e.Object.Namespace
		return ns == r.namespace || ns == r.namespace+"-extra" || ns == ""
	})
}

// oracle reads the hand-written plan of a chart: for each group its objects
// and the groups it waits for.
type oracleGroup struct {
	objects []string // "Kind/name"
	gates   []string
}

func oracle(t *testing.T, chart, namespace string) map[string]oracleGroup {
	t.Helper()
	// The oracle has release t in namespace default, with the charts' own kinds.
	names := strings.NewReplacer("default-extra", namespace+"-extra", "queue.shop.example", namespace+".example",
		"widgets.crd-late.example.com", "widgets."+namespace+".example", "widgets.crd-same-group.example.com", "widgets."+namespace+".example")
	f, err := os.Open(filepath.Join("../testdata/dags", chart+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	groups := map[string]oracleGroup{}
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Split(names.Replace(s.Text()), "\t")
		if len(fields) != 3 || fields[0] == "warning" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		g := oracleGroup{objects: strings.Split(fields[1], ",")}
		if fields[2] != "-" {
			g.gates = strings.Split(fields[2], ",")
		}
		groups[fields[0]] = g
	}
	if len(groups) == 0 {
		t.Fatalf("no groups in the oracle of %s", chart)
	}
	return groups
}

// with returns values with some changed.
func with(base map[string]any, more map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, more)
	return out
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
