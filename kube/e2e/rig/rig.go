// Package rig has the helpers of kube's end-to-end tests. Main starts the cluster. New creates a Rig: the namespace of a
// test, with a client. Rig.Run runs an operation and returns an Outcome: its error, its events and its final state. Only
// tests import it.
package rig

import (
	"bufio"
	"context"
	"flag"
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

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/observer"
	"lockstep/kube/throwaway/testcluster"
)

// Sandbox is the cluster of the tests. Each test has its own namespace.
var Sandbox *testcluster.Cluster

var witness *observer.Observer

// Main starts Sandbox and runs the tests of a package. With -short it runs none.
func Main(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: these tests need a cluster")
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var err error
	if Sandbox, err = testcluster.Start(); err == nil {
		witness, err = observer.New(Sandbox.Kubeconfig)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testcluster.Main(m))
}

// Long is set by make chaos. Tests then run all cases of outages and failures, otherwise only some of each kind.
var Long = os.Getenv("CHAOS") == "long"

// ChartsDir is the path of testdata/charts from a test package.
const ChartsDir = "../../../testdata/charts"

// Rig is the namespace of a test, with clients.
type Rig struct {
	T         *testing.T
	Namespace string
	Client    *kube.Client
	// Cluster is for requests of the test itself. Its user agent is test.
	Cluster kubernetes.Interface
	// TakesOver names the objects, as RESOURCE/NAME, that the test takes over with --take-ownership, or writes for lockstep.
	TakesOver []string
	// Meddles says why the cluster may differ from the record right after a run that succeeded; "" if it may not.
	Meddles string
}

// New creates a namespace for a test. It is never deleted, because that takes the controllers many seconds.
func New(t *testing.T) *Rig {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-", ",", "", "(", "", ")", "", ":", "", " ", "-", ".", "-").Replace(t.Name()))
	name = strings.Trim(name[:min(len(name), 60)], "-")
	uses.Lock()
	defer uses.Unlock()
	if uses.of[name]++; uses.of[name] > 1 { // go test -count
		name += fmt.Sprint("-", uses.of[name])
	}
	return NewNamed(t, name)
}

var uses = struct {
	sync.Mutex
	of map[string]int // how often a name was used
}{of: map[string]int{}}

// NewNamed is like New, but the caller names the namespace.
func NewNamed(t *testing.T, name string) *Rig {
	t.Helper()
	testcluster.Get(t)
	r := &Rig{T: t, Namespace: name, Client: Connect(t, name), Cluster: testClient(t)}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := r.Cluster.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("pods can be created", func() bool {
		_, err := r.Cluster.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	t.Cleanup(r.assertNothingForeignWritten)
	return r
}

// SkipUnlessServed skips the test if the cluster does not serve a kind. since is the first Kubernetes version that does.
func (r *Rig) SkipUnlessServed(groupVersion, kind, since string) {
	r.T.Helper()
	list, err := r.Cluster.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		r.T.Fatal(err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(res metav1.APIResource) bool { return res.Kind == kind }) {
		r.T.Skipf("needs %s, Kubernetes %s", kind, since)
	}
}

func testClient(t *testing.T) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(Sandbox.Config(t))
}

// Connect returns a connection as the cluster's administrator, unless change changes the settings.
func Connect(t *testing.T, namespace string, change ...func(*cli.EnvSettings)) *kube.Client {
	t.Helper()
	c, err := kube.Connect(settings(namespace, change...), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func settings(namespace string, change ...func(*cli.EnvSettings)) *cli.EnvSettings {
	s := cli.New()
	s.KubeConfig = Sandbox.Kubeconfig
	s.SetNamespace(namespace)
	for _, f := range change {
		f(s)
	}
	return s
}

func LoadChart(t *testing.T, name string) *charts.Chart {
	t.Helper()
	c, err := charts.LoadPath(filepath.Join(ChartsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Values returns the values of a chart for tests: short delays, and API groups unique to the test, because all tests
// share the cluster's kinds.
func (r *Rig) Values(chart string) map[string]any {
	switch chart {
	case "shop", "plain-shop":
		return map[string]any{"global": map[string]any{"speed": 10, "topicGroup": r.Namespace + ".example"}}
	case "crd-late", "crd-same-group":
		return map[string]any{"apiGroup": r.Namespace + ".example"}
	case "slow":
		return map[string]any{"readyDelay": "3s"}
	}
	return nil
}

// Install prepares an install of release t.
func (r *Rig) Install(chart string, change func(*kube.Deploy)) (*kube.Operation, error) {
	in := kube.Deploy{ChartOptions: kube.ChartOptions{Chart: LoadChart(r.T, chart), Values: r.Values(chart)}, Common: r.Common()}
	if change != nil {
		change(&in)
	}
	return r.Client.PrepareInstall(context.Background(), in)
}

// Common returns the options of an operation on release t.
func (r *Rig) Common() kube.Common {
	return kube.Common{Release: "t", Namespace: r.Namespace, Lease: kube.LeaseOptions{LockDir: LockDir()}}
}

// LockDir is the folder of the lock files of runs on this machine.
func LockDir() string { return filepath.Join(filepath.Dir(Sandbox.Kubeconfig), "locks") }

// Outcome is the result of an operation.
type Outcome struct {
	Err    error
	State  event.State
	Events []event.Event
}

// Run runs an operation. It calls on, which may be nil, for every event.
func (r *Rig) Run(op *kube.Operation, on func(event.Event)) Outcome {
	var out Outcome
	var wg sync.WaitGroup
	wg.Go(func() {
		follow(op.Feed(), func(e event.Event) {
			out.State.Apply(e)
			out.Events = append(out.Events, e)
			if on != nil {
				on(e)
			}
		})
	})
	out.Err = op.Run()
	wg.Wait()
	r.observe(op, &out)
	return out
}

// RunHeld runs an operation that a failure holds. At the first hold it calls fix, which may be nil, and retries; at the next one it
// sends end. held counts the holds.
func (r *Rig) RunHeld(op *kube.Operation, end event.CommandName, fix func()) (out Outcome, held int) {
	out = r.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		if held++; held > 1 {
			op.Command(event.Command{Name: end})
			return
		}
		if fix != nil {
			fix()
		}
		op.Command(event.Command{Name: event.Retry})
	})
	return out, held
}

// follow calls do with each event of a feed.
func follow(feed *event.Feed, do func(event.Event)) {
	for e := range feed.Reader().All(context.Background()) {
		do(e)
	}
}

// Deploy installs a chart, which must succeed.
func (r *Rig) Deploy(chart string, change func(*kube.Deploy)) Outcome {
	r.T.Helper()
	return r.MustRun(r.Install(chart, change))
}

// Helm returns a plain configuration of Helm's SDK.
func (r *Rig) Helm() *action.Configuration {
	r.T.Helper()
	cfg := action.NewConfiguration()
	if err := cfg.Init(settings(r.Namespace).RESTClientGetter(), r.Namespace, "secret"); err != nil {
		r.T.Fatal(err)
	}
	return cfg
}

// Log returns the audit log since the tests of the package began.
func (r *Rig) Log() auditlog.Log {
	r.T.Helper()
	log, err := Sandbox.Log()
	if err != nil {
		r.T.Fatal(err)
	}
	return log
}

// Audit returns the writes to the test's namespaces and to cluster-scoped objects, by anyone, from the audit log.
func (r *Rig) Audit() auditlog.Log {
	r.T.Helper()
	return r.Log().Where(func(e auditlog.Event) bool {
		ns := e.Object.Namespace
		return ns == r.Namespace || ns == r.Namespace+"-extra" || ns == ""
	}).Writes()
}

// expectedGroup is a group of the hand-written plan of a chart.
type expectedGroup struct {
	Objects      []string // "Kind/name"
	Dependencies []string
}

// ExpectedPlan returns the hand-written plan of a chart (testdata/dags) by group id.
func ExpectedPlan(t *testing.T, chart, namespace string) map[string]expectedGroup {
	t.Helper()
	// The files are for release t in namespace default, with the charts' default API groups.
	names := strings.NewReplacer("default-extra", namespace+"-extra", "queue.shop.example", namespace+".example",
		"widgets.crd-late.example.com", "widgets."+namespace+".example", "widgets.crd-same-group.example.com", "widgets."+namespace+".example")
	f, err := os.Open(filepath.Join("../../../testdata/dags", chart+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	groups := map[string]expectedGroup{}
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Split(names.Replace(s.Text()), "\t")
		if len(fields) != 3 || fields[0] == "warning" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		g := expectedGroup{Objects: strings.Split(fields[1], ",")}
		if fields[2] != "-" {
			g.Dependencies = strings.Split(fields[2], ",")
		}
		groups[fields[0]] = g
	}
	if len(groups) == 0 {
		t.Fatalf("testdata/dags/%s.txt has no groups", chart)
	}
	return groups
}

// MergeValues returns a copy of base with the values of more.
func MergeValues(base map[string]any, more map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, base)
	maps.Copy(out, more)
	return out
}

// CRDResource is the resource of CustomResourceDefinitions.
var CRDResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
