package status

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func expressions(t testing.TB, texts ...string) []Expression {
	t.Helper()
	var list []Expression
	for _, text := range texts {
		e, err := parseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func deployment(status string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2, resourceVersion: "42"},
		spec: {replicas: 3, progressDeadlineSeconds: 600}, status: {observedGeneration: 2, ` + status + `}}`
}

func jobWith(status string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 1}, status: {` + status + `}}`
}

func podWith(status string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: "2026-01-01T11:59:50Z"}, status: {` + status + `}}`
}

func crWith(status string) string {
	return `{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, generation: 2}` + status + `}`
}

type computeTest struct {
	name    string
	object  string
	rule    Rule
	status  event.Status
	message string
	note    string
	recheck time.Duration
}

func runCompute(t *testing.T, tests []computeTest) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := object(t, tt.object)
			before := fmt.Sprint(u.Object)
			// What a Watcher keeps of an object must give the same result.
			for _, u := range []*unstructured.Unstructured{u, trim(u)} {
				r := Compute(u, tt.rule, noon)
				if r.Status != tt.status || r.Message != tt.message || r.Note != tt.note || r.Recheck != tt.recheck {
					t.Errorf("%s %q note %q recheck %s\nwant %s %q note %q recheck %s",
						r.Status, r.Message, r.Note, r.Recheck, tt.status, tt.message, tt.note, tt.recheck)
				}
				if (r.ReadyBy == "") != (r.Status == event.Deleting) { // R22
					t.Errorf("%s is decided by rule %q", r.Status, r.ReadyBy)
				}
			}
			if fmt.Sprint(u.Object) != before {
				t.Error("Compute changed the object")
			}
		})
	}
}

func TestComputeWorkloads(t *testing.T) {
	available := `conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	runCompute(t, []computeTest{
		{name: "deployment not observed", object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 1}, spec: {replicas: 3}}`,
			status: event.InProgress, message: "0 of 3 updated"},
		{name: "deployment stale", object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2}, spec: {replicas: 1},
			status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, ` + available + `}}`,
			status: event.InProgress, message: "its controller has not observed the change yet"},
		{name: "deployment progressing", object: deployment(`replicas: 3, updatedReplicas: 3, readyReplicas: 1, availableReplicas: 1`),
			status: event.InProgress, message: "1 of 3 available"},
		{name: "deployment old pods", object: deployment(`replicas: 4, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3, ` + available),
			status: event.InProgress, message: "3 of 3 available, 1 old pod still running"},
		{name: "deployment ready", object: deployment(`replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3, ` + available),
			status: event.Ready, message: "3 of 3 available"},
		{name: "deployment deadline exceeded", object: deployment(`replicas: 3, updatedReplicas: 3,
			conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`),
			status: event.Failed, message: "0 of 3 available · progress deadline exceeded"},
		{name: "deployment quota", object: deployment(`conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: exceeded quota}]`),
			status: event.InProgress, message: "0 of 3 updated · FailedCreate: exceeded quota"},
		{name: "deployment paused", object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2}, spec: {replicas: 3, paused: true},
			status: {observedGeneration: 1}}`,
			status: event.Ready, message: "paused: changes of its pods are not rolled out", note: "paused: changes of its pods are not rolled out"},
		{name: "statefulset", object: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}, spec: {replicas: 2},
			status: {observedGeneration: 1, replicas: 2, readyReplicas: 1, currentReplicas: 2, updatedReplicas: 2}}`,
			status: event.InProgress, message: "1 of 2 ready"},
		{name: "statefulset ready", object: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}, spec: {replicas: 1},
			status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: a}}`,
			status: event.Ready, message: "1 of 1 ready"},
		{name: "statefulset rolling", object: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}, spec: {replicas: 2},
			status: {observedGeneration: 1, replicas: 2, readyReplicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b}}`,
			status: event.InProgress, message: "2 of 2 ready, 1 updated"},
		{name: "daemonset not observed", object: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, generation: 1}}`,
			status: event.InProgress, message: "not observed by its controller yet"},
		{name: "daemonset", object: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, generation: 1},
			status: {observedGeneration: 1, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberReady: 1, numberAvailable: 1}}`,
			status: event.InProgress, message: "1 of 3 ready"},
		{name: "replicaset", object: `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 2}, status: {availableReplicas: 1, fullyLabeledReplicas: 2}}`,
			status: event.InProgress, message: "1 of 2 available"},
	})
}

func TestComputeJobs(t *testing.T) {
	complete := Rule{JobsComplete: true}
	started := `startTime: "2026-01-01T11:59:57Z"`
	runCompute(t, []computeTest{
		{name: "not started", object: jobWith(``), status: event.InProgress, message: "not started yet"},
		{name: "started is current", object: jobWith(started + `, active: 1`), status: event.Ready, message: "running · 0 of 1 complete"},
		{name: "started, must complete", object: jobWith(started), rule: complete,
			status: event.InProgress, message: "running · 0 of 1 complete", recheck: 7 * time.Second},
		{name: "hook", object: jobWith(started), rule: Rule{Hook: true},
			status: event.InProgress, message: "running · 0 of 1 complete", recheck: 7 * time.Second},
		{name: "long and with failures", object: jobWith(`startTime: "2026-01-01T11:57:48Z", failed: 2`), rule: complete,
			status: event.InProgress, message: "running 2 min 10 s · 0 of 1 complete · 2 pods failed", recheck: 8 * time.Second},
		{name: "clock behind", object: jobWith(`startTime: "2026-01-01T12:30:00Z", failed: 1`), rule: complete,
			status: event.InProgress, message: "running · 0 of 1 complete · 1 pod failed", recheck: 10 * time.Second},
		{name: "complete", object: jobWith(started + `, succeeded: 1, conditions: [{type: Complete, status: "True"}]`), rule: complete,
			status: event.Ready, message: "1 of 1 complete"},
		{name: "failed", object: jobWith(started + `, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: too many tries}]`), rule: complete,
			status: event.Failed, message: "BackoffLimitExceeded: too many tries"},
		{name: "failed, need not complete", object: jobWith(started + `, conditions: [{type: Failed, status: "True"}]`),
			status: event.Failed, message: "failed"},
		{name: "suspended", object: `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {suspend: true}}`,
			status: event.Ready, message: "suspended: it runs once it is resumed", note: "suspended: it runs once it is resumed"},
		{name: "suspended, must complete", object: `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {suspend: true}}`, rule: complete,
			status: event.InProgress, message: "suspended · 0 of 1 complete"},
	})
}

func TestComputePods(t *testing.T) {
	unscheduled := `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/1 nodes}]`
	old := `{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: "2026-01-01T11:59:45Z"}, status: {` + unscheduled + `}}`
	hook := Rule{Hook: true}
	runCompute(t, []computeTest{
		{name: "new", object: podWith(``), status: event.InProgress, message: "not picked up by a node yet"},
		{name: "unschedulable for 10 s", object: podWith(unscheduled),
			status: event.InProgress, message: "cannot be scheduled: 0/1 nodes", recheck: 5 * time.Second},
		{name: "unschedulable for 15 s", object: old, status: event.Failed, message: "cannot be scheduled: 0/1 nodes"},
		{name: "hook unschedulable", object: old, rule: hook, status: event.Failed, message: "cannot be scheduled: 0/1 nodes"},
		{name: "creating", object: podWith(`phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]`),
			status: event.InProgress, message: "pending"},
		{name: "image", object: podWith(`phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ErrImagePull, message: "not\nfound"}}}]`),
			status: event.InProgress, message: "pending: ErrImagePull: not found"},
		{name: "init container", object: podWith(`phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 3}}}],
			containerStatuses: [{name: c, state: {waiting: {reason: PodInitializing}}}]`),
			status: event.InProgress, message: "pending: i exited with code 3"},
		{name: "running", object: podWith(`phase: Running`), status: event.InProgress, message: "running but not ready"},
		{name: "ready", object: podWith(`phase: Running, conditions: [{type: Ready, status: "True"}]`), status: event.Ready, message: "ready"},
		{name: "crash loop", object: podWith(`phase: Running, containerStatuses: [{name: c, state: {waiting: {reason: CrashLoopBackOff}}}]`),
			status: event.Failed, message: "running: CrashLoopBackOff"},
		{name: "hook running and ready", object: podWith(`phase: Running, conditions: [{type: Ready, status: "True"}]`), rule: hook,
			status: event.InProgress, message: "still running: a hook's Pod must complete, but its restartPolicy is Always"},
		{name: "hook running", object: `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {restartPolicy: Never}, status: {phase: Running}}`, rule: hook,
			status: event.InProgress, message: "still running"},
		{name: "hook succeeded", object: podWith(`phase: Succeeded`), rule: hook, status: event.Ready, message: "succeeded"},
		{name: "hook failed", object: podWith(`phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 2}}}]`), rule: hook,
			status: event.Failed, message: "c exited with code 2"},
		{name: "hook evicted", object: podWith(`phase: Failed, reason: Evicted, message: low on memory`), rule: hook,
			status: event.Failed, message: "Evicted: low on memory"},
		{name: "hook in a crash loop", object: podWith(`phase: Running, containerStatuses: [{name: c, state: {waiting: {reason: CrashLoopBackOff}}}]`), rule: hook,
			status: event.Failed, message: "running: CrashLoopBackOff"},
		{name: "unknown phase", object: podWith(`phase: Unknown`), status: event.InProgress, message: "status cannot be read: unknown phase Unknown"},
	})
}

func TestComputeOthers(t *testing.T) {
	runCompute(t, []computeTest{
		{name: "configmap", object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`, status: event.Ready},
		{name: "role", object: `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}`, status: event.Ready},
		{name: "pvc", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, status: {phase: Pending}}`, status: event.InProgress, message: "pending"},
		{name: "pvc of a class", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {storageClassName: fast}}`,
			status: event.InProgress, message: "pending: no volume of class fast yet"},
		{name: "pvc bound", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, status: {phase: Bound}}`, status: event.Ready, message: "bound"},
		{name: "service", object: `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.0.0.1}}`, status: event.Ready},
		{name: "load balancer", object: `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer}}`, status: event.InProgress, message: "no address yet"},
		{name: "load balancer without an address", object: `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}}`,
			status: event.Ready, message: "no address yet: no load balancer has been assigned to it", note: "no address yet: no load balancer has been assigned to it"}, // R22
		{name: "API not checked", object: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}}`, status: event.InProgress, message: "availability not known yet"},
		{name: "API that is down", object: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, status: {conditions: [
			{type: Available, status: "False", reason: MissingEndpoints, message: no addresses}]}}`, status: event.InProgress, message: "not available: MissingEndpoints: no addresses"}, // R22
		{name: "API", object: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, status: {conditions: [{type: Available, status: "True"}]}}`,
			status: event.Ready, message: "available"},
		{name: "namespace terminating", object: `{apiVersion: v1, kind: Namespace, metadata: {name: n, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {conditions: [
			{type: NamespaceDeletionContentFailure, status: "False", message: fine},
			{type: NamespaceContentRemaining, status: "True", message: configmaps. has 1 resource instances},
			{type: NamespaceFinalizersRemaining, status: "True", message: example.com/x in 1 resource instances}]}}`,
			status: event.Deleting, message: "terminating: configmaps. has 1 resource instances; example.com/x in 1 resource instances"},
		{name: "load balancer ready", object: `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1},
			status: {loadBalancer: {ingress: [{ip: 1.2.3.4}, {hostname: lb.example}]}}}`, status: event.Ready, message: "1.2.3.4, lb.example"},
		{name: "crd new", object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: c}}`, status: event.InProgress, message: "not established yet"},
		{name: "crd", object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: c},
			status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}}`, status: event.Ready, message: "established"},
		{name: "crd refused", object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: c},
			status: {conditions: [{type: NamesAccepted, status: "False", message: name taken}]}}`, status: event.Failed, message: "name taken"},
		{name: "custom resource without status", object: crWith(``), status: event.Ready},
		{name: "custom resource not ready", object: crWith(`, status: {conditions: [{type: Ready, status: "False", reason: Wait, message: "for\x1b[31m it"}]}`),
			status: event.InProgress, message: "Wait: for it"},
		{name: "custom resource not ready, no reason", object: crWith(`, status: {conditions: [{type: Ready, status: "Unknown"}]}`),
			status: event.InProgress, message: "not ready: Ready is Unknown"},
		{name: "custom resource ready", object: crWith(`, status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`), status: event.Ready},
		{name: "custom resource stale", object: crWith(`, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`),
			status: event.InProgress, message: "its controller has not observed the change yet"},
		{name: "custom resource stalled", object: crWith(`, status: {conditions: [{type: Stalled, status: "True", reason: Broken}]}`), status: event.Failed, message: "Broken"},
		{name: "malformed conditions", object: crWith(`, status: {conditions: {Ready: true}}`), status: event.Ready}, // R22a
		{name: "hook of another kind", object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}}`, rule: Rule{Hook: true}, status: event.Ready},
		{name: "deleting", object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, deletionTimestamp: "2026-01-01T00:00:00Z"}}`, status: event.Deleting, message: "terminating"},
		{name: "deleting with finalizers", object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [a/b, c/d]}}`,
			rule: Rule{Hook: true}, status: event.Deleting, message: "waiting for finalizers a/b, c/d"},
	})
}

func TestComputeCustom(t *testing.T) {
	rule := Rule{
		Success: expressions(t, `{.succeeded} == 1`, `{.phase} == Done`),
		Failure: expressions(t, `{.failed} >= 1`),
	}
	runCompute(t, []computeTest{
		{name: "nothing yet", object: crWith(``), rule: rule, status: event.InProgress, message: "not ready: no readiness-success expression is met: expressions apply to .status, and the object has none yet"},
		{name: "not yet", object: crWith(`, status: {succeeded: 0}`), rule: rule, status: event.InProgress, message: "not ready: no readiness-success expression is met: {.succeeded} == 1 (.succeeded is 0), {.phase} == Done (.status.phase is not set)"},
		{name: "first", object: crWith(`, status: {succeeded: 1}`), rule: rule, status: event.Ready, message: "{.succeeded} == 1"},
		{name: "second", object: crWith(`, status: {phase: Done}`), rule: rule, status: event.Ready, message: "{.phase} == Done"},
		{name: "failure comes first", object: crWith(`, status: {phase: Done, failed: 2}`), rule: rule, status: event.Failed, message: "matches readiness-failure {.failed} >= 1 (.failed is 2)"},
		{name: "stale", object: crWith(`, status: {observedGeneration: 1, phase: Done, failed: 2}`), rule: rule,
			status: event.InProgress, message: "its controller has not observed the change yet"},
		{name: "replaces kstatus", object: crWith(`, status: {conditions: [{type: Ready, status: "True"}]}`), rule: rule,
			status: event.InProgress, message: "not ready: no readiness-success expression is met: {.succeeded} == 1 (.status.succeeded is not set), {.phase} == Done (.status.phase is not set)"},
		{name: "deleting", object: `{apiVersion: v1, kind: X, metadata: {name: x, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {phase: Done}}`, rule: rule,
			status: event.Deleting, message: "terminating"},
		{name: "not for hooks (R5)", object: crWith(``), rule: Rule{Success: rule.Success, Failure: rule.Failure, Hook: true}, status: event.Ready},
		{name: "a single annotation is no rule", object: crWith(``), rule: Rule{Failure: rule.Failure}, status: event.Ready},
	})
	one := Rule{Success: rule.Success[:1], Failure: rule.Failure}
	runCompute(t, []computeTest{ // the message of a built-in kind is the usual one
		{name: "a Job that runs", object: jobWith(`startTime: "2026-01-01T11:59:37Z", active: 1`), rule: one,
			status: event.InProgress, message: "running 20 s · 0 of 1 complete", recheck: 7 * time.Second},
		{name: "a Job that is complete otherwise", object: jobWith(`succeeded: 2, conditions: [{type: Complete, status: "True"}]`), rule: one,
			status: event.InProgress, message: "not ready: readiness-success {.succeeded} == 1 is not met (.succeeded is 2)"},
		{name: "a Deployment", object: deployment(`replicas: 3, updatedReplicas: 3`), rule: one, status: event.InProgress, message: "0 of 3 available"},
	})
	r := Compute(object(t, jobWith(`startTime: "2026-01-01T11:59:37Z", succeeded: 0`)), one, noon)
	if want := "not ready: readiness-success {.succeeded} == 1 is not met (.succeeded is 0)"; r.Expression != want {
		t.Errorf("expression %q, want %q", r.Expression, want)
	}
	r = Compute(object(t, crWith(`, status: {failed: "many"}`)), rule, noon)
	if want := `{.failed} >= 1 compares numbers, but found "many"`; len(r.Doubts) != 1 || r.Doubts[0] != want {
		t.Errorf("doubts %q, want %q", r.Doubts, want)
	}
}

func TestComputeIdentity(t *testing.T) {
	r := Compute(object(t, deployment(`replicas: 3`)), Rule{}, noon)
	if want := (plan.Object{Group: "apps", Kind: "Deployment", Name: "d"}); r.Object != want || r.Version != 42 {
		t.Errorf("%v version %d, want %v version 42", r.Object, r.Version, want)
	}
}

// TestReadyBy expects that the result names the rule that decided it (R22).
func TestReadyBy(t *testing.T) {
	custom := Rule{Success: expressions(t, `{.phase} == Done`), Failure: expressions(t, `{.phase} == Broken`)}
	for _, c := range []struct {
		object string
		rule   Rule
		want   event.Judge
	}{
		{deployment(`replicas: 3`), Rule{}, event.ByKstatus},
		{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {paused: true}}`, Rule{}, event.ByBuiltIn},
		{jobWith(`startTime: "2026-01-01T11:59:57Z"`), Rule{}, event.ByStart},
		{jobWith(`conditions: [{type: Complete, status: "True"}]`), Rule{}, event.ByBuiltIn},
		{jobWith(`startTime: "2026-01-01T11:59:57Z"`), Rule{JobsComplete: true}, event.ByBuiltIn},
		{jobWith(``), Rule{Hook: true}, event.ByBuiltIn},
		{podWith(`phase: Running`), Rule{}, event.ByKstatus},
		{podWith(`phase: Running`), Rule{Hook: true}, event.ByBuiltIn},
		{`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`, Rule{}, event.ByExistence},
		{`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`, Rule{Hook: true}, event.ByExistence},
		{crWith(`, status: {phase: Done}`), custom, event.ByChart},
		{crWith(``), custom, event.ByChart},
	} {
		if got := Compute(object(t, c.object), c.rule, noon).ReadyBy; got != c.want {
			t.Errorf("%s: %q, want %q", c.object, got, c.want)
		}
	}
}
