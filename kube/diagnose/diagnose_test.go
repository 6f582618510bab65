package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"lockstep/engine/phrase"
	"lockstep/engine/plan"
)

type staticMapper struct{}

var theMapper = sync.OnceValue(func() meta.RESTMapper { return testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme) })

func (staticMapper) ToRESTMapper() (meta.RESTMapper, error) { return theMapper(), nil }
func (staticMapper) StreamConfig() (*rest.Config, error)    { return &rest.Config{}, nil }

// cluster returns a Diagnoser for a fake cluster with the given objects.
func cluster(t testing.TB, text string) (*Diagnoser, *fake.Clientset) {
	t.Helper()
	var objects []runtime.Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		objects = append(objects, o)
	}
	kube := fake.NewClientset(objects...)
	return New(kube, dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...), staticMapper{}), kube
}

func named(group, kind, name string) plan.Object {
	return plan.Object{Group: group, Kind: kind, Namespace: "ns", Name: name}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: ns, uid: d}
spec: {replicas: 1, selector: {matchLabels: {app: api}}, template: {}}
status:
  conditions: [{type: Available, status: "False", reason: MinimumReplicasUnavailable, message: too few}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: api-1, namespace: ns, uid: r1, labels: {app: api}, annotations: {deployment.kubernetes.io/revision: "9"}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: api, uid: d, controller: true}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: api-2, namespace: ns, uid: r2, labels: {app: api}, annotations: {deployment.kubernetes.io/revision: "10"}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: api, uid: d, controller: true}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: foreign, namespace: ns, uid: rx, labels: {app: api}, annotations: {deployment.kubernetes.io/revision: "11"}}
---
`

// pod is a Pod that a ReplicaSet owns.
func pod(name, owner, status string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: ns, uid: ` + name + `, labels: {app: api}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: ` + owner + `, controller: true}]}
spec: {nodeName: n1, initContainers: [{name: i, image: "init:1"}], containers: [{name: c, image: "example/app:1"}]}
status: {` + status + "}\n"
}

func incident(name, about, kind, reason, message string) string {
	return `
---
apiVersion: v1
kind: Event
metadata: {name: ` + name + `, namespace: ns}
involvedObject: {kind: ` + kind + `, name: ` + about + `, namespace: ns}
type: Warning
reason: ` + reason + `
message: '` + message + `'
lastTimestamp: "2026-01-01T12:00:00Z"
count: 2
`
}

const (
	crashed7  = `phase: Running, containerStatuses: [{name: c, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 7, reason: Error}}}]`
	readyPod  = `phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: c, ready: true, state: {running: {}}}]`
	unreadyUp = `phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, state: {running: {}}}]`
)

func TestCauseOfDeployment(t *testing.T) {
	for _, tt := range []struct{ name, rest, want string }{
		{"crash loop", pod("p", "r2", crashed7), "container c exited with code 7 (2 restarts): fake logs"},
		{"running again after a crash", pod("p", "r2", `phase: Running, containerStatuses: [{name: c, restartCount: 1, state: {running: {}}, lastState: {terminated: {exitCode: 7}}}]`),
			"container c exited with code 7 (1 restart): fake logs"},
		{"node out of memory", pod("p", "r2", `phase: Running, containerStatuses: [{name: c, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]`),
			"container c (no memory limit) was killed because its node ran out of memory (OOMKilled, 1 restart)"},
		{"memory limit of the pod", strings.Replace(pod("p", "r2", `phase: Running, containerStatuses: [{name: c, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]`), "spec: {nodeName: n1, ", "spec: {nodeName: n1, resources: {limits: {memory: 1Gi}}, ", 1),
			"container c was killed for exceeding its memory limit of 1Gi (OOMKilled, 1 restart)"},
		{"image", pod("p", "r2", `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ErrImagePull, message: "rpc error: code = NotFound desc = docker.io/example/app:1: not found"}}}]`),
			"container c cannot start: image example/app:1 cannot be pulled: not found"},
		{"image, cause in an event", pod("p", "r2", `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "example/app:1"'}}}]`) +
			incident("e1", "p", "Pod", "Failed", "Failed to pull image: 401 Unauthorized") + incident("e2", "p", "Pod", "BackOff", "Back-off"),
			"container c cannot start: image example/app:1 cannot be pulled: 401 Unauthorized"},
		{"configuration", pod("p", "r2", `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]`),
			`container c cannot start: secret "db" not found`},
		{"init container", pod("p", "r2", `phase: Pending, initContainerStatuses: [{name: i, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1}}}], containerStatuses: [{name: c, state: {waiting: {reason: PodInitializing}}}]`),
			"init container i exited with code 1 (1 restart): fake logs"},
		{"init container runs", pod("p", "r2", `phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}}]`),
			"pod p: init container i is running"},
		{"not ready", pod("p", "r2", unreadyUp) + incident("e", "p", "Pod", "Unhealthy", "Readiness probe failed: 503"),
			"container c is running but not ready: Readiness probe failed: 503"},
		{"volume", pod("p", "r2", `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]`) + incident("e", "p", "Pod", "FailedMount", `configmap "x" not found`),
			`FailedMount: configmap "x" not found`},
		{"unschedulable", pod("p", "r2", `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/2 nodes}]`),
			"cannot be scheduled: 0/2 nodes"},
		{"evicted", pod("p", "r2", `phase: Failed, reason: Evicted, message: low on disk`),
			"the pod was evicted: low on disk"},
		{"the newest revision counts", pod("old", "r1", crashed7) + "\n---\n" + pod("new", "r2", unreadyUp),
			"container c is running but not ready"},
		{"foreign pods do not count", pod("p", "rx", crashed7), "too few"},
		{"worst first", pod("fine", "r2", readyPod) + "\n---\n" + pod("bad", "r2", crashed7) + "\n---\n" + pod("slow", "r2", unreadyUp),
			"container c exited with code 7 (2 restarts): fake logs"},
		{"quota", strings.TrimPrefix(incident("e", "api-2", "ReplicaSet", "FailedCreate", `Error creating: pods "x" is forbidden: exceeded quota`), "\n---\n"),
			`no pods can be created: exceeded quota`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := cluster(t, deployment+tt.rest)
			r := d.Object(t.Context(), named("apps", "Deployment", "api"))
			if tt.want == "too few" {
				if len(r.Pods) != 0 {
					t.Errorf("pods %v", r.Pods)
				}
				tt.want = "0 of 1 updated"
			}
			if r.Cause != tt.want {
				t.Errorf("%q\nwant %q", r.Cause, tt.want)
			}
		})
	}
}

// deleting returns an object named migrate that has been waiting since then for the objects it owns to be deleted.
func deleting(object string, since time.Time) string {
	return strings.Replace(object, "name: migrate,", fmt.Sprintf("name: migrate, deletionTimestamp: %q, finalizers: [foregroundDeletion],", since.UTC().Format(time.RFC3339)), 1)
}

// budget is a PodDisruptionBudget that a chart waits for.
func budget(spec, status string) string {
	return `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: ns, annotations: {helm.sh/readiness-success: '["{.disruptionsAllowed} > 0"]', helm.sh/readiness-failure: '["{.x} == 1"]'}}, spec: {` + spec + `}, status: {disruptionsAllowed: 0, ` + status + `}}`
}

func TestCauseOfOtherKinds(t *testing.T) {
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ns}\nspec: {selector: {app: api}}"
	job := `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: ns, uid: j}
spec: {selector: {matchLabels: {app: api}}, template: {}}
status: {failed: 3, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: too many}]}`
	failed := `phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 2, reason: Error}}}]`
	for _, tt := range []struct {
		name   string
		object plan.Object
		text   string
		want   string
	}{
		{"missing", named("", "ConfigMap", "none"), service, "not in the cluster, and namespace ns does not exist"},
		{"unknown kind", named("example.org", "Widget", "w"), service, `the cluster has no kind Widget in API group example.org`},
		{"job", named("batch", "Job", "migrate"), job + "\n---\n" + pod("migrate-1", "j", failed) + "\n---\n" + pod("migrate-2", "j", failed),
			"container c exited with code 2 (3 pods failed): fake logs"},
		{"failed Job just deleted", named("batch", "Job", "migrate"), deleting(job, time.Now()), "BackoffLimitExceeded: too many"},
		{"failed Job deleted long ago", named("batch", "Job", "migrate"), deleting(job, time.Now().Add(-time.Minute)), "being deleted: waiting for finalizer foregroundDeletion: the objects it owns are deleted first"},
		{"job without pods", named("batch", "Job", "migrate"), job, "BackoffLimitExceeded: too many"},
		{"pod", named("", "Pod", "p"), pod("p", "x", crashed7), "container c exited with code 7 (2 restarts): fake logs"},
		{"service without pods", named("", "Service", "s"), service, "selector app=api matches no pods"},
		{"service without ready pods", named("", "Service", "s"), service + "\n---\n" + pod("p", "x", crashed7),
			"0 of 1 pods are ready; container c exited with code 7 (2 restarts): fake logs"},
		{"service", named("", "Service", "s"), service + "\n---\n" + pod("p", "x", readyPod), "1 of 1 pods are ready"},
		{"claim", named("", "PersistentVolumeClaim", "c"), "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: ns}\nstatus: {phase: Pending}" +
			incident("e", "c", "PersistentVolumeClaim", "ProvisioningFailed", `storageclass "fast" not found`), "no volume: it names no StorageClass, and there is no default"},
		{"deleting", named("", "ConfigMap", "c"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [x/y]}}`,
			"being deleted: waiting for finalizer x/y: its controller has not removed it"},
		{"custom readiness", named("", "ConfigMap", "c"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, annotations: {helm.sh/readiness-success: '["{.phase} == Done"]', helm.sh/readiness-failure: '["{.failed} > 0"]'}}}` +
			incident("e", "c", "ConfigMap", "Old", "story"), "not ready: readiness-success {.phase} == Done is not met: expressions apply to .status, and the object has none yet; Old: story"},
		{"readiness-failure is true", named("", "PersistentVolumeClaim", "c"), `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: ns, annotations: {helm.sh/readiness-success: '["{.phase} == Bound"]', helm.sh/readiness-failure: '["{.phase} == Pending"]'}}, status: {phase: Pending}}`,
			"no volume: it names no StorageClass, and there is no default"},
		{"readiness-failure is true while pods start", named("apps", "StatefulSet", "db"), `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, uid: d, annotations: {helm.sh/readiness-success: '["{.readyReplicas} == 1"]', helm.sh/readiness-failure: '["{.replicas} == 1"]'}}, spec: {selector: {matchLabels: {app: api}}}, status: {replicas: 1}}` +
			"\n---\n" + pod("db-0", "d", `phase: Pending`), "matches readiness-failure {.replicas} == 1; pod db-0: being created"},
		{"hooks ignore expressions", named("batch", "Job", "migrate"), `{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: ns, uid: j, annotations: {helm.sh/hook: pre-install, helm.sh/readiness-success: '["{.x} == 1"]', helm.sh/readiness-failure: '["{.y} == 1"]'}}, spec: {template: {}}}`, "not started yet"},
		{"DaemonSet without matching nodes", named("apps", "DaemonSet", "ds"), `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: ds, namespace: ns, uid: d, annotations: {helm.sh/readiness-success: '["{.numberReady} > 0"]', helm.sh/readiness-failure: '["{.x} == 1"]'}}, spec: {selector: {matchLabels: {app: api}}, template: {spec: {nodeSelector: {disk: fast}}}}, status: {desiredNumberScheduled: 0, numberReady: 0}}`,
			"no node matches its pods, nodeSelector disk=fast"},
		{"minReadySeconds", named("apps", "StatefulSet", "db"), `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, uid: d}, spec: {replicas: 1, minReadySeconds: 300, selector: {matchLabels: {app: api}}}, status: {replicas: 1, readyReplicas: 1, availableReplicas: 0, updatedReplicas: 1}}` +
			"\n---\n" + pod("db-0", "d", readyPod), "1 ready pod counts as available only after 300 s (minReadySeconds)"},
		{"unknown scheduler", named("", "Pod", "p"), strings.Replace(pod("p", "x", "phase: Pending"), "spec: {nodeName: n1, ", "spec: {schedulerName: special, ", 1), "has no node: scheduler special has not assigned one"},
		{"scheduling gate", named("", "Pod", "p"), strings.Replace(pod("p", "x", `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated, message: "Scheduling is blocked due to non-empty scheduling gates"}]`), "spec: {nodeName: n1, ", "spec: {schedulingGates: [{name: example.com/wait}], ", 1),
			"cannot be scheduled: scheduling gate not removed: example.com/wait"},
		{"a budget for no pods", named("policy", "PodDisruptionBudget", "b"), budget("minAvailable: 1, selector: {matchLabels: {app: apis}}", "expectedPods: 0") + "\n---\n" + pod("p", "x", readyPod), "selector app=apis matches no pods; pod p has app=api"},
		{"a budget without a selector", named("policy", "PodDisruptionBudget", "b"), budget("minAvailable: 1", "expectedPods: 0"), "it has no selector, so it matches no pods"},
		{"a budget for all pods", named("policy", "PodDisruptionBudget", "b"), budget("minAvailable: 3, selector: {}", "expectedPods: 1, currentHealthy: 1, desiredHealthy: 3") + "\n---\n" + pod("p", "x", readyPod), "it allows no disruption: it requires 3 healthy pods and matches 1"},
		{"a budget for pods that crash", named("policy", "PodDisruptionBudget", "b"), budget("minAvailable: 1, selector: {matchLabels: {app: api}}", "expectedPods: 1, currentHealthy: 0, desiredHealthy: 1") + "\n---\n" + pod("p", "x", crashed7),
			"0 of 1 pods healthy; container c exited with code 7 (2 restarts): fake logs"},
		{"nothing", named("", "ConfigMap", "c"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}`, "no known problem"},
		{"cron job", named("batch", "CronJob", "nightly"), `{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly, namespace: ns, uid: cj}, spec: {jobTemplate: {}}}` +
			"\n---\n" + `{apiVersion: batch/v1, kind: Job, metadata: {name: n1, namespace: ns, uid: j1, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: cj, controller: true}]}}` +
			"\n---\n" + strings.Replace(pod("p", "j1", failed), "app: api", "batch.kubernetes.io/job-name: n1", 1),
			"container c exited with code 2: fake logs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := cluster(t, tt.text)
			if r := d.Object(t.Context(), tt.object); r.Cause != tt.want {
				t.Errorf("%q\nwant %q\n%+v", r.Cause, tt.want, r.Details)
			}
		})
	}
}

func TestReportWithoutPermissions(t *testing.T) {
	d, kube := cluster(t, deployment+pod("p", "r2", crashed7))
	for _, resource := range []string{"events", "replicasets"} {
		kube.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New(resource + " forbidden")
		})
	}
	r := d.Object(t.Context(), named("apps", "Deployment", "api"))
	if want := "container c exited with code 7 (2 restarts): fake logs"; r.Cause != want {
		t.Errorf("%q\nwant %q", r.Cause, want)
	}
	want := []string{
		"condition Available is False: MinimumReplicasUnavailable: too few",
		"pod p: container c exited with code 7",
		"last lines of pod p, container c:",
		"  fake logs",
		"events cannot be read: events forbidden",
	}
	if got := phrase.Details(r.Details); !slices.Equal(got, want) || *r.Details.ExitCode != 7 {
		t.Errorf("%q, exit code %d\nwant %q", got, *r.Details.ExitCode, want)
	}
}

// TestExpressionIsEvidence: an expression that is not true yet is evidence for the state of the Job, which is the cause.
func TestExpressionIsEvidence(t *testing.T) {
	d, _ := cluster(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: ns, uid: j, annotations: {helm.sh/readiness-success: '["{.succeeded} == 1"]', helm.sh/readiness-failure: '["{.failed} == 1"]'}}, spec: {template: {}}, status: {active: 1}}`)
	r := d.Object(t.Context(), named("batch", "Job", "migrate"))
	if want := "not ready: readiness-success {.succeeded} == 1 is not met (.status.succeeded is not set)"; r.Cause != "not started yet" || !r.OnlyState || !slices.Contains(r.Evidence, want) {
		t.Errorf("cause %q, only the state: %v, evidence %q", r.Cause, r.OnlyState, r.Evidence)
	}
}

func TestEventsAreAggregated(t *testing.T) {
	d, _ := cluster(t, pod("p", "r2", crashed7)+of("p", incident("e1", "p", "Pod", "BackOff", "again")+incident("e2", "p", "Pod", "BackOff", "again")+
		strings.Replace(incident("e3", "p", "Pod", "Last", "text"), "12:00:00Z", "12:00:01Z", 1)+
		incident("e4", "other", "Pod", "BackOff", "again")))
	events, err := d.Events(t.Context(), named("", "Pod", "p"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0].Count != 4 || events[1].Reason != "Last" {
		t.Fatalf("%v", events)
	}
	if s := phrase.ClusterEvent(events[0]); !strings.HasSuffix(s, " Pod/p BackOff: again (×4)") {
		t.Error(s)
	}
}

// TestEventsOfSeveralPods: the count of an event says in how many pods it happened.
func TestEventsOfSeveralPods(t *testing.T) {
	event := func(pod string, count int) Event {
		return Event{Object: "Pod/" + pod, Reason: "Failed", Message: "Error: ErrImagePull", Count: count}
	}
	merged := aggregate([]Event{event("api-1", 2), event("api-2", 1), event("api-1", 1), event("api-3", 2)})
	if len(merged) != 1 || !strings.HasSuffix(phrase.ClusterEvent(merged[0]), " Pod/api-1 Failed: Error: ErrImagePull (×6 in 3 pods)") {
		t.Errorf("%v", merged)
	}
}

// TestPodsOfAnEarlierVersion: a Deployment does not fail because of the pods of its earlier version.
func TestPodsOfAnEarlierVersion(t *testing.T) {
	unobserved := strings.Replace(strings.Replace(deployment, "uid: d}", "uid: d, generation: 2}", 1), "status:\n", "status:\n  observedGeneration: 1\n", 1)
	for name, c := range map[string]struct{ objects, not string }{
		"before the controller has observed the change": {unobserved + pod("p", "r2", crashed7), "exited with code 7"},
		"while its own pods cannot start": {deployment + pod("old", "r1", crashed7) + "\n---\n" +
			pod("p", "r2", strings.ReplaceAll(crashed7, "CrashLoopBackOff", "ImagePullBackOff")), "pod old"},
	} {
		d, _ := cluster(t, c.objects)
		r := d.Object(t.Context(), named("apps", "Deployment", "api"))
		if text := r.Cause + "\n" + strings.Join(append(phrase.Details(r.Details), r.Evidence...), "\n"); strings.Contains(text, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, text)
		}
	}
}

func TestPodsAndLogs(t *testing.T) {
	d, _ := cluster(t, deployment+pod("p", "r2", crashed7)+"\n---\n"+pod("q", "r1", readyPod))
	pods, err := d.Pods(t.Context(), named("apps", "Deployment", "api"))
	if err != nil || len(pods) != 2 || pods[0].Name != "p" {
		t.Fatalf("%v %v", pods, err)
	}
	if c := pods[0].Containers[0]; c.State != "waiting" || !c.Ended || c.Exit != 7 || c.Restarts != 2 || c.Image != "example/app:1" {
		t.Errorf("%+v", c)
	}
	if s := pods[1].String(); s != "pod q: ready" {
		t.Error(s)
	}
	lines := strings.Join(phrase.Details(d.Object(t.Context(), named("apps", "Deployment", "api")).Details), "\n")
	if !strings.Contains(lines, "pod p: ") || strings.Contains(lines, "pod q") {
		t.Errorf("a ready pod explains no failure:\n%s", lines)
	}
	if _, err := d.Pods(context.Background(), named("", "ConfigMap", "none")); err == nil {
		t.Error("no error")
	}
}

func TestManifestHidesSecrets(t *testing.T) {
	d, _ := cluster(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns, managedFields: [{manager: x}],
		annotations: {kubectl.kubernetes.io/last-applied-configuration: aHVudGVyMg==, a: b}}, data: {password: aHVudGVyMg==}}`)
	text, err := d.Manifest(t.Context(), named("", "Secret", "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"hunter2", "aHVudGVyMg", "managedFields"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s is shown:\n%s", bad, text)
		}
	}
	for _, good := range []string{"password: (hidden)", "a: b"} {
		if !strings.Contains(text, good) {
			t.Errorf("%s is missing:\n%s", good, text)
		}
	}
}

func TestDecisiveLine(t *testing.T) {
	for want, lines := range map[string][]string{
		"":                   nil,
		"last":               {"first", "last"},
		"FATAL: no relation": {"start", "FATAL: no relation", "bye"},
	} {
		if got := decisiveLine(lines); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSchedulingCause expects the scheduler's reason in short form, without its text about preemption.
func TestSchedulingCause(t *testing.T) {
	for in, want := range map[string]string{
		"0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found.":                                           "2 of 2 nodes lack CPU",
		"0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.": "2 of 2 nodes lack CPU",
		"0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient memory.":                                                                    "1 of 3 nodes had untolerated taint {a: b}, 2 lack memory",
		"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found":                                                                       "pod has unbound immediate PersistentVolumeClaims (2 nodes)",
		"0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.":                                                                                        "2 of 2 nodes lack CPU and memory",
		"0/1 nodes are available: 1 Too many pods.":                                                                                                                  "1 of 1 node: Too many pods",
		"something else": "something else",
	} {
		if got := schedulingCause(in); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

// TestReportEvents expects no events of an earlier object with the same name, and a single event if those of several
// pods are equal.
func TestReportEvents(t *testing.T) {
	mine := strings.ReplaceAll(incident("e1", "p", "Pod", "BackOff", "again p"), "name: p, namespace: ns}", "name: p, namespace: ns, uid: p}")
	old := strings.ReplaceAll(incident("e2", "p", "Pod", "Unhealthy", "of yesterday"), "name: p, namespace: ns}", "name: p, namespace: ns, uid: old}")
	other := strings.ReplaceAll(incident("e3", "q", "Pod", "BackOff", "again q"), "name: q, namespace: ns}", "name: q, namespace: ns, uid: q}")
	d, _ := cluster(t, deployment+pod("p", "r2", unreadyUp)+"\n---\n"+pod("q", "r2", unreadyUp)+mine+old+other)
	r := d.Object(t.Context(), named("apps", "Deployment", "api"))
	if len(r.Events) != 1 || r.Events[0].Count != 4 || r.Events[0].Reason != "BackOff" {
		t.Errorf("%v", r.Events)
	}
}

// TestCrashIsRemembered expects the cause of a crash even after the Job's pods are deleted.
func TestCrashIsRemembered(t *testing.T) {
	job := `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: ns, uid: j}
spec: {selector: {matchLabels: {app: api}}, template: {}}
---
`
	d, kube := cluster(t, job+pod("migrate-1", "j", `phase: Running, containerStatuses: [{name: c, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2, reason: Error}}}]`))
	const want = "container c exited with code 2 (1 restart): fake logs"
	for _, when := range []string{"while it crashes", "when its pods are gone"} {
		if r := d.Object(t.Context(), named("batch", "Job", "migrate")); r.Cause != want {
			t.Errorf("%s: %q, want %q", when, r.Cause, want)
		}
		_ = kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "migrate-1")
	}
}
