package diagnose

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube/throwaway/testcluster"
)

// The tests below run against a real API server, its controllers and simulated
// nodes.

func TestMain(m *testing.M) { os.Exit(testcluster.Main(m)) }

// place is a namespace of a real cluster.
type place struct {
	*Diagnoser
	t      *testing.T
	config *rest.Config
	ns     string
	dyn    dynamic.Interface
	mapper meta.RESTMapper
}

func (p *place) ToRESTMapper() (meta.RESTMapper, error) { return p.mapper, nil }
func (p *place) StreamConfig() (*rest.Config, error)    { return p.config, nil }

func realCluster(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, config: testcluster.Get(t).Config(t), ns: "diagnose-" + strings.ToLower(t.Name())}
	p.connect()
	p.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + p.ns + `}}`)
	return p
}

func (p *place) connect() {
	kube, err := kubernetes.NewForConfig(p.config)
	p.check(err)
	p.dyn, err = dynamic.NewForConfig(p.config)
	p.check(err)
	d, err := discovery.NewDiscoveryClientForConfig(p.config)
	p.check(err)
	p.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	p.Diagnoser = New(kube, p.dyn, p)
}

func (p *place) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// create creates an object in the place's namespace.
func (p *place) create(text string) plan.Object {
	p.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	p.check(err)
	u := &unstructured.Unstructured{}
	p.check(u.UnmarshalJSON(data))
	mapping, err := p.mapper.RESTMapping(u.GroupVersionKind().GroupKind())
	p.check(err)
	o := plan.Object{Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Name: u.GetName()}
	client := dynamic.ResourceInterface(p.dyn.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		o.Namespace = p.ns
		client = p.dyn.Resource(mapping.Resource).Namespace(p.ns)
	}
	_, err = client.Create(p.t.Context(), u, metav1.CreateOptions{})
	p.check(err)
	return o
}

// until repeats the diagnosis until the cause has all of the words.
func (p *place) until(o plan.Object, words ...string) Report {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond) // events are not watched
	defer tick.Stop()
	var r Report
	for time.Now().Before(deadline) {
		r = p.Object(p.t.Context(), o)
		missing := ""
		for _, w := range words {
			if !strings.Contains(r.Cause, w) {
				missing = w
			}
		}
		if missing == "" {
			return r
		}
		<-tick.C
	}
	p.t.Fatalf("cause %q lacks one of %q\n%s", r.Cause, words, strings.Join(phrase.Details(r.Details), "\n"))
	return r
}

func workload(name, image, annotations string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `}, spec: {replicas: 1, selector: {matchLabels: {app: ` + name + `}}, template:
		{metadata: {labels: {app: ` + name + `}, annotations: {` + annotations + `}}, spec: {containers: [{name: c, image: "` + image + `"}]}}}}`
}

func TestClusterImageCannotBePulled(t *testing.T) {
	p := realCluster(t)
	o := p.create(workload("web", "example/no-such-image:1", ""))
	r := p.until(o, "container c cannot start: image example/no-such-image:1 cannot be pulled: not found")
	t.Log(r.Cause)
	if len(r.Pods) != 1 || len(r.Logs) != 0 {
		t.Errorf("pods %v logs %q", r.Pods, r.Logs)
	}
	for _, l := range phrase.Details(r.Details) {
		if strings.Contains(l, "logs of pod") {
			t.Error(l)
		}
	}
}

func TestClusterCrashLoop(t *testing.T) {
	p := realCluster(t)
	o := p.create(workload("web", "example/web:1", `sandbox/exit-code: "3", sandbox/run-duration: 10ms, sandbox/log: "starting\nFATAL: cannot bind\nbye"`))
	r := p.until(o, "container c exited with code 3 (", " restarts): FATAL: cannot bind")
	t.Log(r.Cause, r.Details)
	if n := len(r.Logs); n < 3 || r.Logs[n-1] != "bye" {
		t.Errorf("logs %q", r.Logs)
	}
	// The log continues with the container's next instances.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	tries := map[int]bool{}
	err := p.FollowLogs(ctx, o, func(l inspect.LogLine) {
		if l.Text == "FATAL: cannot bind" && !l.Time.IsZero() {
			mu.Lock()
			defer mu.Unlock()
			if tries[l.Instance] = true; len(tries) == 3 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestClusterFailedJob(t *testing.T) {
	p := realCluster(t)
	o := p.create(`{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, spec: {backoffLimit: 0, template:
		{metadata: {annotations: {sandbox/exit-code: "2", sandbox/run-duration: 10ms, sandbox/log: 'FATAL: relation "orders" does not exist'}},
		spec: {restartPolicy: Never, containers: [{name: c, image: "example/migrate:1"}]}}}}`)
	r := p.until(o, `container c exited with code 2: FATAL: relation "orders" does not exist`)
	t.Log(r.Cause)
}

func TestClusterQuotaExceeded(t *testing.T) {
	p := realCluster(t)
	p.create(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "0"}}}`)
	o := p.create(workload("web", "example/web:1", ""))
	t.Log(p.until(o, "no pods can be created: ", "exceeded quota none").Cause)
}

func TestClusterNotReady(t *testing.T) {
	p := realCluster(t)
	o := p.create(workload("web", "example/web:1", `sandbox/fail: never-ready`))
	t.Log(p.until(o, "container c is running but not ready: Readiness probe failed").Cause)
	s := p.create(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}`)
	t.Log(p.until(s, "0 of 1 pods are ready").Cause)
}

func TestClusterUnschedulablePod(t *testing.T) {
	p := realCluster(t)
	o := p.create(`{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, image: "x:1", resources: {requests: {cpu: "100000"}}}]}}`)
	t.Log(p.until(o, "cannot be scheduled: ", "lack CPU").Cause)
	events, err := p.Events(t.Context(), o)
	p.check(err)
	if len(events) != 1 || !events[0].Warning || events[0].Reason != "FailedScheduling" || events[0].Time.IsZero() {
		t.Errorf("events %v", events)
	}
}

func TestClusterClaimWithoutVolume(t *testing.T) {
	p := realCluster(t)
	o := p.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: no-such-class, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	t.Log(p.until(o, "no-such-class").Cause)
}

// TestClusterWithoutPermissions diagnoses without permission to read logs and events.
func TestClusterWithoutPermissions(t *testing.T) {
	p := realCluster(t)
	o := p.create(workload("web", "example/web:1", `sandbox/exit-code: "3", sandbox/run-duration: 10ms`))
	p.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rules: [{apiGroups: ["", apps], resources: [deployments, replicasets, pods], verbs: [get, list]}]}`)
	p.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r},
		subjects: [{kind: ServiceAccount, name: poor, namespace: ` + p.ns + `}]}`)
	p.config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + p.ns + ":poor"}
	p.connect()
	r := p.until(o, "exited with code 3")
	text := strings.Join(phrase.Details(r.Details), "\n")
	for _, want := range []string{"events cannot be read: ", "logs of pod " + r.Pods[0].Name + " cannot be read: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no line contains %q:\n%s", want, text)
		}
	}
}

func TestClusterManifest(t *testing.T) {
	p := realCluster(t)
	o := p.create(`{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2}}`)
	text, err := p.Manifest(t.Context(), o)
	p.check(err)
	if strings.Contains(text, "aHVudGVyMg") || strings.Contains(text, "managedFields") || !strings.Contains(text, "password: (hidden)") {
		t.Error(text)
	}
}

// TestClusterContainers creates a workload for each way in which a container can fail, and expects the container, its
// role in the pod, and the cause.
func TestClusterContainers(t *testing.T) {
	t.Parallel()
	p := realCluster(t)
	p.create(`{apiVersion: v1, kind: Secret, metadata: {name: existing}, stringData: {a: b}}`)
	const rest = `containers: [{name: api, image: "x:1", resources: {limits: {memory: 64Mi}}}, {name: proxy, image: "x:1"}]`
	crash := func(container string) string {
		return `sandbox/exit-code: "3", sandbox/run-duration: 10ms, sandbox/log: "hello\nFATAL: no relation", sandbox/container: ` + container
	}
	for name, tt := range map[string]struct {
		annotations, spec string
		words             []string
		evidence          string // part of the evidence or of the cause
	}{
		"two":      {crash("api"), rest, []string{"container api exited with code 3", ": FATAL: no relation"}, "FATAL: no relation"},
		"init":     {crash("migrate"), `initContainers: [{name: migrate, image: "x:1"}], ` + rest, []string{"init container migrate exited with code 3", ": FATAL: no relation"}, "FATAL: no relation"},
		"side":     {crash("mesh"), `initContainers: [{name: mesh, image: "x:1", restartPolicy: Always}], ` + rest, []string{"sidecar mesh exited with code 3", ": FATAL: no relation"}, "FATAL: no relation"},
		"memory":   {`sandbox/fail: oom, sandbox/container: api`, rest, []string{"container api was killed for exceeding its memory limit of 64Mi (OOMKilled"}, ""},
		"liveness": {`sandbox/fail: liveness, sandbox/container: proxy, sandbox/run-duration: 10ms`, rest, []string{"container proxy was killed because its liveness probe failed", ": HTTP probe failed with statuscode: 500"}, "liveness probe failed"},
		"startup":  {`sandbox/fail: startup, sandbox/container: proxy, sandbox/run-duration: 10ms`, rest, []string{"container proxy was killed because its startup probe failed", "connection refused"}, "startup probe failed"},
		"run":      {`sandbox/fail: run, sandbox/container: api`, rest, []string{`container api cannot start: exec: "/bin/no-such-program": stat /bin/no-such-program: no such file or directory`}, ""},
		"evicted":  {`sandbox/fail: evicted`, rest, []string{"the pod was evicted: The node was low on resource: ephemeral-storage."}, ""},
		"ready":    {`sandbox/fail: never-ready, sandbox/container: proxy`, rest, []string{"container proxy is running but not ready: Readiness probe failed: HTTP probe failed with statuscode: 503"}, "Readiness probe failed"},
		"secret":   {"", `containers: [{name: api, image: "x:1", envFrom: [{secretRef: {name: absent}}]}]`, []string{`container api cannot start: secret "absent" not found`}, ""},
		"key":      {"", `containers: [{name: api, image: "x:1", env: [{name: A, valueFrom: {secretKeyRef: {name: existing, key: password}}}]}]`, []string{"container api cannot start: couldn't find key password in Secret " + p.ns + "/existing"}, ""},
		"volume":   {"", `volumes: [{name: config, configMap: {name: absent}}], containers: [{name: api, image: "x:1", volumeMounts: [{name: config, mountPath: /c}]}]`, []string{`volume config cannot be mounted: configmap "absent" not found`}, "FailedMount"},
		"node":     {"", `nodeSelector: {disk: fast}, containers: [{name: api, image: "x:1"}]`, []string{"cannot be scheduled: 2 of 2 nodes didn't match Pod's node affinity/selector"}, "FailedScheduling"},
	} {
		o := p.create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `}, spec: {replicas: 1, selector: {matchLabels: {app: ` + name + `}}, template:
			{metadata: {labels: {app: ` + name + `}, annotations: {` + tt.annotations + `}}, spec: {` + tt.spec + `}}}}`)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := *p
			q.t = t
			r := q.until(o, tt.words...)
			t.Log(r.Cause)
			if r.Symptom || !strings.Contains(strings.Join(append(r.Evidence, r.Cause), "\n"), tt.evidence) || len(r.Evidence) > event.MaxEvidence {
				t.Errorf("%t %q", r.Symptom, r.Evidence)
			}
		})
	}
}
