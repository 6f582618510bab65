package status

import (
	"math"
	"testing"
	"time"

	"lockstep/engine/event"
)

func workload(kind, spec, status string) string {
	return `{apiVersion: apps/v1, kind: ` + kind + `, metadata: {name: w, generation: 3}, spec: {` + spec + `}, status: {` + status + `}}`
}

// TestSpecKeepsItBack has every field of a built-in kind that keeps its controller from going on (R22): the state
// counts once it is as far as it can get, with a note.
func TestSpecKeepsItBack(t *testing.T) {
	const onDelete = `updateStrategy: {type: OnDelete}`
	available := `conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	complete, late := Rule{JobsComplete: true}, Rule{LateBinding: true}
	claim := func(annotations, status string) string {
		return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {` + annotations + `}}, spec: {storageClassName: zonal}, status: {` + status + `}}`
	}
	ready := func(message, note string) computeTest {
		if message != "" && note != "" {
			message += " · "
		}
		return computeTest{status: event.Ready, message: message + note, note: note}
	}
	waits := func(message string) computeTest { return computeTest{status: event.InProgress, message: message} }
	fails := func(message string) computeTest { return computeTest{status: event.Failed, message: message} }
	var tests []computeTest
	add := func(name, object string, rule Rule, want computeTest) {
		want.name, want.object, want.rule = name, object, rule
		tests = append(tests, want)
	}

	const paused = "paused: changes of its pods are not rolled out"
	add("deployment paused before its first rollout", workload("Deployment", `paused: true, replicas: 2`, ``), Rule{}, ready("", paused))
	add("deployment paused in a rollout", workload("Deployment", `paused: true, replicas: 2`, `observedGeneration: 3, replicas: 3, updatedReplicas: 1`), Rule{}, ready("", paused))
	add("deployment with 0 replicas", workload("Deployment", `replicas: 0`, `observedGeneration: 3, `+available), Rule{}, ready("", "0 replicas: no pod runs"))
	add("deployment with 0 replicas, not observed", workload("Deployment", `replicas: 0`, ``), Rule{}, waits("0 of 0 available"))
	add("deployment scaled to 0, old pods", workload("Deployment", `replicas: 0`, `observedGeneration: 3, replicas: 2, `+available), Rule{}, waits("0 of 0 available, 2 old pods still running"))
	add("deployment after its progress deadline", workload("Deployment", `replicas: 1, progressDeadlineSeconds: 5`, `observedGeneration: 3, replicas: 1, updatedReplicas: 1,
		conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`), Rule{}, fails("0 of 1 available · progress deadline exceeded"))

	for written, want := range map[string]computeTest{"2026-01-01T10:00:00Z": fails("0 of 1 available · progress deadline exceeded"), "2026-01-01T11:00:00Z": waits("0 of 1 available")} {
		add("deployment after a progress deadline, spec written "+written, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: w, generation: 3,
			managedFields: [{manager: helm, operation: Apply, apiVersion: apps/v1, time: "`+written+`", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:template": {}}}}]},
			spec: {replicas: 1}, status: {observedGeneration: 3, replicas: 1, updatedReplicas: 1,
			conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, lastUpdateTime: "2026-01-01T11:00:00Z"}]}}`, Rule{}, want)
	}

	add("statefulset OnDelete, new", workload("StatefulSet", onDelete+`, replicas: 2`, ``), Rule{}, waits("not observed by its controller yet"))
	add("statefulset OnDelete, pods starting", workload("StatefulSet", onDelete+`, replicas: 2`, `observedGeneration: 3, replicas: 2, readyReplicas: 1, updatedReplicas: 2`), Rule{}, waits("1 of 2 ready"))
	add("statefulset OnDelete, not observed since the upgrade", workload("StatefulSet", onDelete+`, replicas: 2`, `observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 2`), Rule{}, waits("not observed by its controller yet"))
	add("statefulset OnDelete, installed", workload("StatefulSet", onDelete+`, replicas: 2`, `observedGeneration: 3, replicas: 2, readyReplicas: 2, updatedReplicas: 2`), Rule{}, ready("2 of 2 ready", ""))
	add("statefulset OnDelete, upgraded", workload("StatefulSet", onDelete+`, replicas: 2`, `observedGeneration: 3, replicas: 2, readyReplicas: 2, currentReplicas: 2`), Rule{},
		ready("2 of 2 ready", "2 pods still run the old version: OnDelete"))
	add("statefulset OnDelete, one pod deleted", workload("StatefulSet", onDelete+`, replicas: 2`, `observedGeneration: 3, replicas: 2, readyReplicas: 2, updatedReplicas: 1`), Rule{},
		ready("2 of 2 ready", "1 pod still runs the old version: OnDelete"))
	add("statefulset partition", workload("StatefulSet", `replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}`,
		`observedGeneration: 3, replicas: 3, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b`), Rule{}, ready("3 of 3 ready, 1 updated", "2 pods still run the old version: partition 2"))
	add("statefulset partition, new", workload("StatefulSet", `replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}`,
		`observedGeneration: 3, replicas: 3, readyReplicas: 3, updatedReplicas: 3, currentRevision: a, updateRevision: a`), Rule{}, ready("3 of 3 ready", ""))
	add("statefulset partition above replicas", workload("StatefulSet", `replicas: 2, updateStrategy: {rollingUpdate: {partition: 5}}`,
		`observedGeneration: 3, replicas: 2, readyReplicas: 2, currentRevision: a, updateRevision: b`), Rule{}, ready("2 of 2 ready", "2 pods still run the old version: partition 5"))
	add("statefulset partition, in progress", workload("StatefulSet", `replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}`,
		`observedGeneration: 3, replicas: 3, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b`), Rule{}, waits("3 of 3 ready, 1 updated"))
	add("statefulset with 0 replicas", workload("StatefulSet", `replicas: 0`, `observedGeneration: 3`), Rule{}, ready("", "0 replicas: no pod runs"))
	add("statefulset with 0 replicas, new", workload("StatefulSet", `replicas: 0`, `replicas: 0`), Rule{}, waits("not observed by its controller yet"))

	daemon := func(updated, ready string) string {
		return `observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: ` + updated + `, numberReady: ` + ready + `, numberAvailable: ` + ready
	}
	add("daemonset OnDelete, upgraded", workload("DaemonSet", onDelete, daemon("0", "2")), Rule{}, ready("2 of 2 ready", "2 pods still run the old version: OnDelete"))
	add("daemonset OnDelete, installed", workload("DaemonSet", onDelete, daemon("2", "2")), Rule{}, ready("2 of 2 ready", ""))
	add("daemonset OnDelete, pods starting", workload("DaemonSet", onDelete, daemon("2", "1")), Rule{}, waits("1 of 2 ready"))
	add("daemonset OnDelete, new", workload("DaemonSet", onDelete, ``), Rule{}, waits("not observed by its controller yet"))
	add("daemonset rolling", workload("DaemonSet", ``, daemon("1", "2")), Rule{}, waits("2 of 2 ready, 1 updated"))
	add("daemonset without nodes", workload("DaemonSet", ``, `observedGeneration: 3, desiredNumberScheduled: 0`), Rule{}, ready("", "no node fits it: no pod runs"))
	add("daemonset OnDelete without nodes", workload("DaemonSet", onDelete, `observedGeneration: 3, desiredNumberScheduled: 0`), Rule{}, ready("", "no node fits it: no pod runs"))
	add("daemonset without nodes, not observed", workload("DaemonSet", ``, ``), Rule{}, waits("not observed by its controller yet"))

	add("replicaset with 0 replicas", workload("ReplicaSet", `replicas: 0`, `observedGeneration: 3`), Rule{}, ready("", "0 replicas: no pod runs"))
	rc := func(replicas, status string) string {
		return `{apiVersion: v1, kind: ReplicationController, metadata: {name: r, generation: 3}, spec: {replicas: ` + replicas + `}, status: {` + status + `}}`
	}
	add("replicationcontroller, new", rc("2", ``), Rule{}, waits("not observed by its controller yet"))
	add("replicationcontroller, starting", rc("2", `observedGeneration: 3, replicas: 2, readyReplicas: 1`), Rule{}, waits("1 of 2 ready"))
	add("replicationcontroller", rc("2", `observedGeneration: 3, replicas: 2, readyReplicas: 2`), Rule{}, ready("2 of 2 ready", ""))
	add("replicationcontroller with 0 replicas", rc("0", `observedGeneration: 3, replicas: 0`), Rule{}, ready("", "0 replicas: no pod runs"))

	job := func(spec, status string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {` + spec + `}, status: {` + status + `}}`
	}
	add("job with parallelism 0", job(`parallelism: 0`, `startTime: "2026-01-01T11:59:57Z"`), Rule{}, ready("", "parallelism 0: no pod runs"))
	add("job with completions 0", job(`completions: 0`, `conditions: [{type: Complete, status: "True"}]`), complete, ready("0 of 0 complete", ""))
	add("job suspended after a failure", job(`suspend: true, backoffLimit: 0`, `conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]`), Rule{}, fails("BackoffLimitExceeded"))
	add("cronjob", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: j}, spec: {schedule: "0 3 * * *"}}`, Rule{}, ready("", ""))
	add("cronjob suspended", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: j}, spec: {suspend: true}}`, Rule{}, ready("", "suspended: no Job is scheduled"))

	const unused = "no volume until a pod uses it: StorageClass zonal has WaitForFirstConsumer"
	add("claim without a consumer", claim(``, `phase: Pending`), late, ready("", unused))
	add("claim without a status yet", claim(``, ``), late, ready("", unused))
	add("claim of a class that binds at once", claim(``, `phase: Pending`), Rule{}, waits("pending: no volume of class zonal yet"))
	add("claim with a consumer", claim(`volume.kubernetes.io/selected-node: n1`, `phase: Pending`), late, waits("pending: no volume of class zonal yet"))
	add("claim bound", claim(`volume.kubernetes.io/selected-node: n1`, `phase: Bound`), late, ready("bound", ""))
	add("claim lost", claim(``, `phase: Lost`), late, waits("lost"))

	add("service", `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}`, Rule{}, ready("1.2.3.4", ""))
	ingress := `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, status: {loadBalancer: {ingress: [`
	add("ingress without a controller", ingress+`]}}}`, Rule{}, ready("", "no address yet: no ingress controller has assigned one"))
	add("ingress", ingress+`{ip: 1.2.3.4}]}}}`, Rule{}, ready("", ""))

	pod := func(status string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {` + status + `}}`
	}
	add("pod failed", pod(`phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 2}}}]`), Rule{}, fails("c exited with code 2"))
	add("pod succeeded", pod(`phase: Succeeded`), Rule{}, ready("succeeded", ""))

	for _, kind := range []string{
		"autoscaling/v2, kind: HorizontalPodAutoscaler", "policy/v1, kind: PodDisruptionBudget", "v1, kind: Namespace", "v1, kind: ResourceQuota",
		"v1, kind: LimitRange", "v1, kind: PersistentVolume", "v1, kind: Endpoints", "discovery.k8s.io/v1, kind: EndpointSlice",
		"networking.k8s.io/v1, kind: IngressClass", "networking.k8s.io/v1, kind: NetworkPolicy", "storage.k8s.io/v1, kind: StorageClass",
		"storage.k8s.io/v1, kind: CSIDriver", "scheduling.k8s.io/v1, kind: PriorityClass", "node.k8s.io/v1, kind: RuntimeClass",
		"admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration",
		"admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy", "flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema",
		"flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration", "coordination.k8s.io/v1, kind: Lease",
	} {
		add(kind, `{apiVersion: `+kind+`, metadata: {name: x}}`, Rule{}, ready("", ""))
	}
	runCompute(t, tests)
}

// TestSparePods: the status of a workload that is ready says which of its pods need not be (R22c).
func TestSparePods(t *testing.T) {
	const onDelete = `updateStrategy: {type: OnDelete}`
	const deployed = `observedGeneration: 3, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]`
	for text, want := range map[string]int{
		workload("Deployment", `paused: true`, ``): math.MaxInt,
		workload("Deployment", ``, deployed):       0,
		workload("DaemonSet", ``, `observedGeneration: 3, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberReady: 1, numberAvailable: 1, numberMisscheduled: 2`): 2,
		workload("DaemonSet", onDelete, `observedGeneration: 3, desiredNumberScheduled: 1, currentNumberScheduled: 1, numberReady: 1, numberAvailable: 1`):                                             0,
	} {
		if r := Compute(object(t, text), Rule{}, time.Time{}); r.Status != event.Ready || r.Spare != want {
			t.Errorf("%s: %s, %d pods need not be ready, want %d", text, r.Status, r.Spare, want)
		} else if r.Wanted != 1 {
			t.Errorf("%s wants %d pods", text, r.Wanted)
		}
	}
}

// TestHeldBack expects that the spec alone tells what the plan warns about (R22).
func TestHeldBack(t *testing.T) {
	for text, want := range map[string]string{
		workload("Deployment", `paused: true, replicas: 0`, ``):                                                                       notePaused,
		workload("Deployment", `paused: false`, ``):                                                                                   "",
		workload("Deployment", `replicas: 0`, ``):                                                                                     noteNoReplicas,
		workload("StatefulSet", `replicas: 0`, ``):                                                                                    noteNoReplicas,
		workload("StatefulSet", `replicas: 1`, ``):                                                                                    "",
		workload("DaemonSet", `replicas: 0`, ``):                                                                                      "",
		`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {suspend: true}}`:                                               noteSuspended,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 0}}`:                                              noteParallelism,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {}}`:                                                            "",
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: j}, spec: {suspend: true}}`:                                           noteNoSchedule,
		`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: v}, spec: {runStrategy: Halted}}`:                        "stopped: it does not run",
		`{apiVersion: kafka.strimzi.io/v1, kind: Kafka, metadata: {name: k, annotations: {strimzi.io/pause-reconciliation: "true"}}}`: "paused: its controller leaves it as it is",
		`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {}}`:                                            "",
		`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: a}, spec: {}}`:                                        "no automated sync: somebody has to sync it",
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`:                                                                      "",
	} {
		if got := HeldBack(object(t, text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
