package status

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// builtInRule describes lockstep's own rule for a built-in kind where it differs from kstatus, or adds a note.
type builtInRule struct {
	kind string // as groupKind returns it
	// text says when the kind is ready, for "lockstep help readiness".
	text   string
	decide func(u *unstructured.Unstructured, rule Rule, now time.Time) Result
}

// builtInRules are the rules for built-in kinds; kstatus decides about the others.
//
// Rule R22: ready means Current for kstatus, except for these kinds.
var builtInRules = []builtInRule{
	{"apps/DaemonSet", "a pod is ready on every node that fits. With `OnDelete`, pods of an old version count; the note says how many. " +
		"If no node fits, a note says so", func(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
		r := daemonSetStatus(u)
		r.Spare = kstatus.GetIntField(u.Object, ".status.numberMisscheduled", 0)
		return r
	}},
	{"apps/Deployment", "kstatus decides. A paused one counts as it is, and 0 replicas count as ready, both with a note", deploymentStatus},
	{"apps/ReplicaSet", "kstatus decides. Pods of an old version count, because Kubernetes does not replace them; the note says how many. " +
		"0 replicas count as ready, with a note", replicaSetStatus},
	{"apps/StatefulSet", "all pods are ready. With `OnDelete` or a `partition`, pods of an old version count; the note says how many. " +
		"0 replicas count as ready, with a note", statefulSetStatus},
	{"apiregistration.k8s.io/APIService", "its condition `Available` is true", apiServiceStatus},
	{"batch/CronJob", "it exists; `suspend` is noted", cronJobStatus},
	{"batch/Job", "it has started or, if it must complete, it is complete. `suspend` and `parallelism: 0` are noted; a Job that must " +
		"complete never gets ready with them", func(u *unstructured.Unstructured, rule Rule, now time.Time) Result {
		return jobStatus(u, rule.JobsComplete, now)
	}},
	{"networking.k8s.io/Ingress", "it exists; a missing address is noted", ingressStatus},
	{"PersistentVolumeClaim", "it is bound. While a class with `WaitForFirstConsumer` waits for the first pod, that is noted", claimStatus},
	{"Pod", "it is running and ready, or has succeeded. It fails if it has failed, is in a crash loop, or has had no node for 15 seconds", podStatus},
	{"ReplicationController", "all pods are ready. Pods of an old version count, as for a ReplicaSet. 0 replicas count as ready, with a note", replicationControllerStatus},
	{"Service", "it has a cluster IP; a missing address of a `LoadBalancer` is noted", serviceStatus},
}

// wantedPods returns how many pods a workload has when it is ready, 0 for other kinds.
func wantedPods(u *unstructured.Unstructured) int {
	switch groupKind(u) {
	case "apps/DaemonSet":
		return kstatus.GetIntField(u.Object, ".status.desiredNumberScheduled", 0)
	case "apps/Deployment", "apps/ReplicaSet", "apps/StatefulSet", "ReplicationController":
		return kstatus.GetIntField(u.Object, ".spec.replicas", 1)
	}
	return 0
}

// The notes of objects whose spec keeps them back.
const (
	notePaused      = "paused: changes of its pods are not rolled out"
	noteNoReplicas  = "0 replicas: no pod runs"
	noteSuspended   = "suspended: it runs once it is resumed"
	noteParallelism = "parallelism 0: no pod runs"
	noteNoSchedule  = "suspended: no Job is scheduled"
)

// HeldBack returns the note of a rendered object whose spec keeps it from getting further, "" for others.
func HeldBack(u *unstructured.Unstructured) string {
	paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	none := kstatus.GetIntField(u.Object, ".spec.replicas", 1) == 0
	switch kind := groupKind(u); {
	case kind == "apps/Deployment" && paused:
		return notePaused
	case none && (kind == "apps/Deployment" || kind == "apps/ReplicaSet" || kind == "apps/StatefulSet" || kind == "ReplicationController"):
		return noteNoReplicas
	case kind == "batch/Job" && suspended(u):
		return noteSuspended
	case kind == "batch/Job" && kstatus.GetIntField(u.Object, ".spec.parallelism", 1) == 0:
		return noteParallelism
	case kind == "batch/CronJob" && suspended(u):
		return noteNoSchedule
	}
	if k := compiledKinds()[groupKind(u)]; k != nil {
		for _, h := range k.halts {
			if !h.inStatus() && h.holds(u) {
				return h.Note
			}
		}
	}
	return ""
}

// builtIn returns the rule for a built-in kind, nil if kstatus decides.
func builtIn(u *unstructured.Unstructured) func(*unstructured.Unstructured, Rule, time.Time) Result {
	kind := groupKind(u)
	for _, r := range builtInRules {
		if r.kind == kind {
			return r.decide
		}
	}
	return nil
}

// noted returns the result with a note, see event.Event.Note. The rule of the note decided.
func (r Result) noted(note string) Result {
	r.Note = note
	r.Message = text.Join(" · ", r.Message, note)
	return r.by(event.ByBuiltIn)
}

// observed reports whether the controller of a kind that always sets observedGeneration has seen the object.
func observed(u *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	_, old := stale(u)
	return found && !old
}

const notObserved = "not observed by its controller yet"

// noReplicas notes that a ready workload runs no pods because its spec asks for none.
func noReplicas(u *unstructured.Unstructured, r Result) Result {
	switch {
	case r.Status != event.Ready || kstatus.GetIntField(u.Object, ".spec.replicas", 1) != 0:
		return r
	case !observed(u):
		return result(event.InProgress, notObserved).by(event.ByBuiltIn)
	}
	r.Message, r.Progress = "", event.Progress{}
	return r.noted(noteNoReplicas)
}

func deploymentStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
		r := result(event.Ready, "").noted(notePaused)
		r.Spare = math.MaxInt
		return r
	}
	return noReplicas(u, byKstatus(u).by(event.ByKstatus))
}

func replicaSetStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	return noReplicas(u, byKstatus(u).by(event.ByKstatus))
}

// replicationControllerStatus handles ReplicationControllers, because kstatus does not know them.
func replicationControllerStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	p := podCounts(u)
	message := p.String() + creationFailure(u)
	want := kstatus.GetIntField(u.Object, ".spec.replicas", 1)
	switch {
	case !observed(u):
		return result(event.InProgress, notObserved).by(event.ByBuiltIn)
	case kstatus.GetIntField(u.Object, ".status.readyReplicas", 0) < want || kstatus.GetIntField(u.Object, ".status.replicas", 0) > want:
		return result(event.InProgress, message).counting(p).by(event.ByBuiltIn)
	}
	return noReplicas(u, result(event.Ready, message).counting(p).by(event.ByBuiltIn))
}

// statefulSetStatus waits for the pods of a StatefulSet with the update strategy OnDelete, which kstatus does not, and
// notes the pods that an update leaves at the old version.
func statefulSetStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	want := kstatus.GetIntField(u.Object, ".spec.replicas", 1)
	r, why := byKstatus(u).by(event.ByKstatus), ""
	if kstatus.GetStringField(u.Object, ".spec.updateStrategy.type", "") == "OnDelete" {
		why = "OnDelete"
		r = withCurrentPods(event.Ready, podCounts(u))
		count := func(field string) int { return kstatus.GetIntField(u.Object, ".status."+field, 0) }
		switch {
		case !observed(u):
			return result(event.InProgress, notObserved).by(event.ByBuiltIn)
		case count("replicas") != want || count("readyReplicas") < want:
			r.Status = event.InProgress
			return r
		}
	} else if partition := kstatus.GetIntField(u.Object, ".spec.updateStrategy.rollingUpdate.partition", 0); partition > 0 {
		why = fmt.Sprintf("partition %d", partition)
	}
	if r.Status == event.Ready && why != "" && observed(u) {
		if old := want - kstatus.GetIntField(u.Object, ".status.updatedReplicas", 0); old > 0 {
			return r.noted(OldPods(old, why))
		}
	}
	return noReplicas(u, r)
}

// withCurrentPods returns the result for a workload with the update strategy OnDelete: people decide when pods are updated.
func withCurrentPods(s event.Status, p event.Progress) Result {
	p.Outdated = 0
	return result(s, p.String()).counting(p).by(event.ByBuiltIn)
}

// OldPods is the note of a workload some of whose pods are of an older template.
func OldPods(n int, why string) string {
	verb := "run"
	if n == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s still %s the old version: %s", text.Count(n, "pod"), verb, why)
}

// daemonSetStatus does not wait for an update that the strategy OnDelete leaves to people, and notes it.
func daemonSetStatus(u *unstructured.Unstructured) Result {
	if !observed(u) {
		return byKstatus(u).by(event.ByKstatus)
	}
	count := func(field string) int { return kstatus.GetIntField(u.Object, ".status."+field, 0) }
	want := count("desiredNumberScheduled")
	if kstatus.GetStringField(u.Object, ".spec.updateStrategy.type", "") != "OnDelete" {
		r := byKstatus(u).by(event.ByKstatus)
		if r.Status == event.Ready && want == 0 {
			r.Message = ""
			return r.noted("no node fits it: no pod runs")
		}
		return r
	}
	old := want - count("updatedNumberScheduled")
	switch {
	case count("currentNumberScheduled") < want || count("numberReady") < want || count("numberAvailable") < want:
		return withCurrentPods(event.InProgress, podCounts(u))
	case want == 0:
		return result(event.Ready, "").noted("no node fits it: no pod runs")
	case old > 0:
		return withCurrentPods(event.Ready, podCounts(u)).noted(OldPods(old, "OnDelete"))
	}
	return withCurrentPods(event.Ready, podCounts(u))
}

func cronJobStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	r := byKstatus(u).by(event.ByKstatus)
	if r.Status == event.Ready && suspended(u) {
		return r.noted(noteNoSchedule)
	}
	return r
}

// podStatus fails a Pod that has failed, which kstatus reports as Current, and one for which there is no node.
func podStatus(u *unstructured.Unstructured, _ Rule, now time.Time) Result {
	if kstatus.GetStringField(u.Object, ".status.phase", "") == "Failed" {
		return result(event.Failed, describePod(u)).by(event.ByBuiltIn)
	}
	if r, ok := unschedulable(u, now); ok {
		return r.by(event.ByKstatus)
	}
	return byKstatus(u).by(event.ByKstatus)
}

// serviceStatus notes that a Service of type LoadBalancer has no address. The address comes from outside the cluster,
// perhaps never, so it is not waited for.
func serviceStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	r := byKstatus(u).by(event.ByKstatus)
	if r.Status == event.Ready && kstatus.GetStringField(u.Object, ".spec.type", "") == "LoadBalancer" && len(addresses(u)) == 0 {
		r.Message = ""
		return r.noted("no address yet: no load balancer has been assigned to it")
	}
	return r
}

func ingressStatus(u *unstructured.Unstructured, _ Rule, _ time.Time) Result {
	r := byKstatus(u)
	if r.Status != event.Ready {
		return r.by(event.ByKstatus)
	}
	if list := addresses(u); len(list) == 0 {
		return r.noted("no address yet: no ingress controller has assigned one")
	}
	return r.by(event.ByKstatus)
}
