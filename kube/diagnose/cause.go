package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"lockstep/engine/event"
	"lockstep/kube/status"
)

// finding is a cause that the status of the pods does not show: it is in the object's own spec or conditions, or in a
// related object, such as a claim or a Service. The zero value means that no such cause was found.
type finding struct {
	cause    string
	tally    event.Tally // as in run.Finding
	deletion string      // why the object still exists although it is being deleted
	evidence []string
	symptom  bool                          // as in run.Finding
	fails    bool                          // as in run.Finding
	ofPods   bool                          // as in run.Finding
	lacks    int                           // as in run.Finding
	gaps     []string                      // the reads that failed
	pending  *corev1.PersistentVolumeClaim // the claim without a volume that the cause is about, nil for none
}

// findCause looks for a cause in the places that matter for the object's kind.
func (d *Diagnoser) findCause(ctx context.Context, b *reportBuilder) finding {
	if b.live.GetDeletionTimestamp() != nil {
		return d.deletionCause(ctx, b.live)
	}
	switch b.live.GroupVersionKind().GroupKind().String() {
	case "Pod", "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicationController":
		return d.podCause(ctx, b)
	case "Job.batch", "CronJob.batch":
		if suspended, _, _ := unstructured.NestedBool(b.live.Object, "spec", "suspend"); suspended {
			return finding{cause: "suspended (spec.suspend: true)"}
		}
		return d.podCause(ctx, b)
	case "PersistentVolumeClaim":
		f := d.claimCause(ctx, b.live.GetNamespace(), b.live.GetName(), nil)
		f.cause = strings.TrimPrefix(f.cause, "has ")
		return f
	case "Service":
		return d.serviceCause(ctx, b)
	case "Ingress.networking.k8s.io":
		return d.ingressCause(ctx, b)
	case "HorizontalPodAutoscaler.autoscaling":
		return d.autoscalerCause(ctx, b)
	case "PodDisruptionBudget.policy":
		return d.budgetCause(ctx, b)
	case "APIService.apiregistration.k8s.io":
		return d.apiServiceCause(ctx, b.live)
	}
	return b.conditionCause()
}

// podCause looks at the claims and the node of the worst pod. If no pod fails, it looks at why further pods cannot be created,
// which says more than that a pod is not ready yet, and at the workload itself.
func (d *Diagnoser) podCause(ctx context.Context, b *reportBuilder) finding {
	if len(b.Pods) > 0 {
		for _, check := range []func(context.Context, Pod) finding{d.podClaimsCause, d.podNodeCause} {
			if f := check(ctx, b.Pods[0]); f.cause != "" {
				f.ofPods = true
				f.cause += d.oldClaim(ctx, b.live, f.pending)
				return f
			}
		}
		if b.Pods[0].severity > unready {
			return finding{}
		}
	}
	checks := []func() finding{b.jobCause, b.replicaCause}
	if len(b.Pods) > 0 && b.Pods[0].severity == unready {
		checks = nil
	}
	for _, check := range checks {
		if f := check(); f.cause != "" {
			return f
		}
	}
	if e := newestOf(b.Events, FailedCreate); e != nil && b.uncreated > 0 {
		return d.refusedPodsCause(ctx, b, e)
	}
	podsHealthy := len(b.Pods) == 0 || b.Pods[0].severity == healthy
	if podsHealthy && (b.verdict().Status == event.Failed || b.rule.Custom()) {
		if f := b.conditionCause(); !f.symptom {
			return f
		}
	}
	return finding{}
}

// FailedCreate is the reason of the warning that a controller could not create a pod.
const FailedCreate = "FailedCreate"

// RefusedPods returns the cause in the message of such a warning, without what only requests would tell.
func RefusedPods(message string) string {
	reason := withoutName(plainError(message))
	return status.CleanText("pods cannot be created: " + cmp.Or(byPolicy(reason), quotaInFigures(reason)))
}

// refusedPodsCause explains a FailedCreate event.
func (d *Diagnoser) refusedPodsCause(ctx context.Context, b *reportBuilder, e *Event) finding {
	message := plainError(e.Message)
	f := d.admissionCause(ctx, b.live.GetNamespace(), message)
	if f.cause == "" {
		f.cause = cmp.Or(byPolicy(withoutName(message)), quotaInFigures(withoutName(message)))
	}
	which := "no pods can be created: "
	if b.uncreated < b.wanted {
		which = fmt.Sprintf("%d of %d pods cannot be created: ", b.uncreated, b.wanted)
	}
	f.cause = which + f.cause
	f.fails, f.lacks = true, b.existing+b.uncreated
	return f
}

// replicaCause explains a workload that is not ready although no pod fails: it has no replicas, no node matches, or
// minReadySeconds has not passed.
func (b *reportBuilder) replicaCause() finding {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(b.live.Object, path...)
		return n
	}
	desired, found, _ := unstructured.NestedInt64(b.live.Object, "status", "desiredNumberScheduled")
	ready := number("status", "readyReplicas") + number("status", "numberReady")
	minReady := number("spec", "minReadySeconds")
	replicas, scaled, _ := unstructured.NestedInt64(b.live.Object, "spec", "replicas")
	switch {
	case scaled && replicas == 0 && len(b.Pods) == 0:
		return finding{cause: "scaled to 0 replicas"}
	case b.verdict().Status == event.Ready:
	case found && desired == 0:
		f := finding{cause: "no node matches its pods"}
		if nodes, _, _ := unstructured.NestedStringMap(b.live.Object, "spec", "template", "spec", "nodeSelector"); len(nodes) > 0 {
			f.cause += ", nodeSelector " + labels.FormatLabels(nodes)
		}
		return f
	case minReady > 0 && ready > number("status", "availableReplicas")+number("status", "numberAvailable"):
		return finding{cause: fmt.Sprintf("%d ready %s as available only after %d s (minReadySeconds)", ready, plural(fmt.Sprint(ready), "pod counts", "pods count"), minReady)}
	}
	return finding{}
}

// jobCause returns the cause of a failed Job from its conditions.
func (b *reportBuilder) jobCause() finding {
	if b.live.GetKind() != "Job" {
		return finding{}
	}
	for _, c := range listConditions(b.live) {
		if (c.kind == "Failed" || c.kind == "FailureTarget") && c.status == "True" {
			return finding{cause: cmp.Or(joinColon(c.reason, c.message), "failed"), evidence: []string{c.String()}}
		}
	}
	return finding{}
}

// conditionCause returns the readiness verdict together with the worst condition, or else the newest warning, or else
// status.message. It prefers conditions that the object's readiness expressions use (R23).
func (b *reportBuilder) conditionCause() finding {
	v := b.verdict()
	if v.Status == event.Ready {
		return finding{}
	}
	f := finding{cause: v.Message}
	if c := worstCondition(b.live, b.rule.Text()); c != nil {
		if !strings.Contains(v.Message, cmp.Or(c.message, c.kind+" is "+c.status)) {
			f.cause += "; " + c.String()
		}
		f.evidence = []string{c.String()}
		return f
	}
	message, _, _ := unstructured.NestedString(b.live.Object, "status", "message")
	switch e := b.newestWarning(); {
	case e != nil:
		f.cause += "; " + e.Reason + ": " + e.Message
	case message != "" && !strings.Contains(v.Message, message):
		f.cause += "; " + message
	default:
		f.symptom = v.Status != event.Failed
	}
	return f
}
