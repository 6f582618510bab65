package status

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
)

// The tests below run against a real API server and its controllers.

func aJob(name, namespace, annotations string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `, namespace: ` + namespace + `}, spec: {backoffLimit: 1, template:
		{metadata: {annotations: {` + annotations + `}}, spec: {restartPolicy: Never, containers: [{name: c, image: "example/job:1"}]}}}}`
}

func web(name, namespace, annotations string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `, namespace: ` + namespace + `}, spec: {replicas: 2, selector: {matchLabels: {app: ` + name + `}}, template:
		{metadata: {labels: {app: ` + name + `}, annotations: {` + annotations + `}}, spec: {containers: [{name: c, image: "example/web:1"}]}}}}`
}

func TestClusterReadiness(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	w := watcher(t, c, Options{}, nil)
	defer w.Close()

	deployment, pausedOne := object(t, web("web", ns, `sandbox/ready-delay: 300ms`)), object(t, web("paused", ns, ``))
	if err := unstructured.SetNestedField(pausedOne.Object, true, "spec", "paused"); err != nil {
		t.Fatal(err)
	}
	good, bad := object(t, aJob("good", ns, `sandbox/run-duration: 300ms`)), object(t, aJob("bad", ns, `sandbox/exit-code: "2", sandbox/run-duration: 10ms`))
	cm := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: `+ns+`}}`)
	custom := object(t, aJob("custom", ns, `sandbox/run-duration: 10ms`))
	complete := Rule{JobsComplete: true}
	w.Watch(t.Context(), []Target{
		targetOf(deployment, Rule{}), targetOf(pausedOne, Rule{}), targetOf(good, complete), targetOf(bad, complete), targetOf(cm, Rule{}),
		targetOf(custom, Rule{Success: expressions(t, `{.succeeded} == 1`), Failure: expressions(t, `{.failed} > 0`)}),
	}, l.report)
	for _, u := range []*unstructured.Unstructured{deployment, pausedOne, good, bad, cm, custom} {
		l.wait(t, objectName(u), event.Gone, "")
	}
	created := map[string]string{}
	for _, u := range []*unstructured.Unstructured{deployment, pausedOne, good, bad, cm, custom} {
		data, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		created[u.GetName()] = c.create(t, string(data)).GetResourceVersion()
	}
	l.wait(t, objectName(cm), event.Ready, created["cm"])
	l.wait(t, objectName(pausedOne), event.Ready, created["paused"])
	if o := l.wait(t, objectName(deployment), event.Ready, created["web"]); o.Message != "2 of 2 available" {
		t.Errorf("deployment: %q", o.Message)
	}
	if o := l.wait(t, objectName(good), event.Ready, created["good"]); o.Message != "1 of 1 complete" {
		t.Errorf("job: %q", o.Message)
	}
	if o := l.wait(t, objectName(bad), event.Failed, created["bad"]); !strings.HasPrefix(o.Message, "BackoffLimitExceeded") {
		t.Errorf("failed job: %q", o.Message)
	}
	l.wait(t, objectName(custom), event.Ready, created["custom"])

	// Another group of the same kinds needs no further requests.
	second := newLog()
	w.Watch(t.Context(), []Target{targetOf(deployment, Rule{}), targetOf(good, complete)}, second.report)
	second.wait(t, objectName(deployment), event.Ready, "")
	second.wait(t, objectName(good), event.Ready, "")

	for _, resource := range []string{"deployments", "jobs", "configmaps"} {
		if got, want := requests(t, c, ns, resource), "list 1 watch 1 get 0"; got != want {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
}

// requests counts, in the cluster's audit log, the requests of this test for a resource
// in a namespace. Of watches it counts those open at the same time, because a watch that
// ends is followed by the next.
func requests(t *testing.T, c client, ns, resource string) string {
	t.Helper()
	marker := "marker-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, _ = c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(ns).Get(t.Context(), marker, metav1.GetOptions{})
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		n, open, marked := map[string]int{}, 0, false
		log, err := testcluster.Get(t).Log()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range log.Namespace(ns) {
			if e.UserAgent != testcluster.UserAgent {
				continue
			}
			marked = marked || e.Object.Name == marker
			switch {
			case e.Object.Resource != resource:
			case e.Verb == "watch" && e.Stage == auditlog.ResponseStarted:
				open++
				n[e.Verb] = max(n[e.Verb], open)
			case e.Verb == "watch":
				open--
			case e.Stage == auditlog.ResponseComplete:
				n[e.Verb]++
			}
		}
		if marked {
			return fmt.Sprintf("list %d watch %d get %d", n["list"], n["watch"], n["get"])
		}
		time.Sleep(50 * time.Millisecond) // there is no signal that the log has grown
	}
	t.Fatal("the audit log does not show the last request")
	return ""
}

func TestClusterRemoval(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	w := watcher(t, c, Options{}, nil)
	defer w.Close()
	cm := c.create(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: `+ns+`, finalizers: [example.org/hold]}}`)
	w.Watch(t.Context(), []Target{targetOf(cm, Rule{})}, l.report)
	l.wait(t, objectName(cm), event.Ready, "")
	maps := c.Resource(resourceOf(cm)).Namespace(ns)
	if err := maps.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := l.wait(t, objectName(cm), event.Deleting, ""); o.Message != "waiting for finalizer example.org/hold" {
		t.Errorf("deleting: %q", o.Message)
	}
	if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := l.wait(t, objectName(cm), event.Gone, ""); o.Version <= ParseVersion(cm.GetResourceVersion()) {
		t.Errorf("gone at version %d, created at %s", o.Version, cm.GetResourceVersion())
	}
}

// TestClusterNewKind watches an object whose kind is created later (R17, R29) and deleted again.
func TestClusterNewKind(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	w := watcher(t, c, Options{}, nil)
	defer w.Close()
	widget := `{apiVersion: test.example/v1, kind: Widget, metadata: {name: w, namespace: ` + ns + `, annotations: {sandbox/ready-after: 200ms}}, spec: {}}`
	crd := object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.test.example}, spec: {group: test.example, scope: Namespaced,
		names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}},
		schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`)
	u := object(t, widget)
	w.Watch(t.Context(), []Target{targetOf(u, Rule{}), targetOf(crd, Rule{})}, l.report)
	l.wait(t, objectName(u), event.Gone, "")

	data, err := crd.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, string(data))
	l.wait(t, objectName(crd), event.Ready, "1")
	made := c.create(t, widget)
	l.wait(t, objectName(u), event.Ready, made.GetResourceVersion())

	if err := c.Resource(resourceOf(crd)).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.wait(t, objectName(crd), event.Gone, "1")
	l.wait(t, objectName(u), event.Gone, "")
}

// TestClusterWithoutPermissions watches with permission only to get Deployments.
func TestClusterWithoutPermissions(t *testing.T) {
	config, ns := realCluster(t)
	admin := connect(t, config)
	admin.create(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: `+ns+`}, rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]}`)
	admin.create(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r, namespace: `+ns+`},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: poor, namespace: `+ns+`}]}`)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":poor"}
	poor, l := connect(t, config), newLog()
	d := object(t, web("web", ns, ``))
	waitAllowed(t, poor, d)

	var notices recorder
	w := watcher(t, poor, Options{Poll: 100 * time.Millisecond}, notices.notice)
	defer w.Close()
	cm := targetOf(object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: `+ns+`}}`), Rule{})
	w.Watch(t.Context(), []Target{targetOf(d, Rule{}), cm}, l.report)
	l.wait(t, objectName(d), event.Gone, "")
	if o := l.wait(t, cm.Object, event.InProgress, ""); !strings.HasPrefix(o.Message, "cannot be read: ") {
		t.Errorf("without any permission: %q", o.Message)
	}
	made := admin.create(t, web("web", ns, ``))
	l.wait(t, objectName(d), event.Ready, made.GetResourceVersion())
	want(t, "notices", notices.take(),
		"R22: no permission to list configmaps in namespace "+ns+"; reading each object every 100ms instead",
		"R22: no permission to list deployments.apps in namespace "+ns+"; reading each object every 100ms instead")
}

// waitAllowed waits until the user may get an object.
func waitAllowed(t *testing.T, c client, u *unstructured.Unstructured) {
	t.Helper()
	for range 200 {
		_, err := c.Resource(resourceOf(u)).Namespace(u.GetNamespace()).Get(t.Context(), u.GetName(), metav1.GetOptions{})
		if err != nil && !denied(err) {
			return
		}
		time.Sleep(50 * time.Millisecond) // there is no signal when RBAC takes effect
	}
	t.Fatal("the API server does not grant the permission to get")
}

// cutter is a dialer whose connections can be cut.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			_ = conn.Close()
		}
	}
	c.conns = nil
}

func TestClusterConnectionsAreCut(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	var cutter cutter
	config.Dial = cutter.dial
	w := watcher(t, connect(t, config), Options{}, nil)
	defer w.Close()
	var targets []Target
	text := func(i int) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm-` + strconv.Itoa(i) + `, namespace: ` + ns + `}}`
	}
	for i := range 5 {
		targets = append(targets, targetOf(object(t, text(i)), Rule{}))
	}
	w.Watch(t.Context(), targets, l.report)
	for i := range 5 {
		l.wait(t, targets[i].Object, event.Gone, "")
	}
	for i := range 5 {
		cutter.cut()
		made := c.create(t, text(i))
		l.wait(t, targets[i].Object, event.Ready, made.GetResourceVersion())
	}
}

// TestClusterManyObjects watches more objects than fit on a page of a list.
func TestClusterManyObjects(t *testing.T) {
	config, ns := realCluster(t)
	c, l := connect(t, config), newLog()
	const n = pageSize + 50
	var targets []Target
	for i := range n {
		u := c.create(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm-`+strconv.Itoa(i)+`, namespace: `+ns+`}}`)
		targets = append(targets, targetOf(u, Rule{}))
	}
	w := watcher(t, c, Options{}, nil)
	defer w.Close()
	w.Watch(t.Context(), targets, l.report)
	for _, target := range targets {
		l.wait(t, target.Object, event.Ready, "1")
	}
	if got, want := requests(t, c, ns, "configmaps"), "list 2 watch 1 get 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) != n {
		t.Errorf("%d reports for %d objects", len(l.all), n)
	}
}
