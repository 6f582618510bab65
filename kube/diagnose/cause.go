package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"lockstep/engine/event"
	"lockstep/kube/status"
)

// lead is a cause beyond the pods' own status: in the object's spec or conditions, or in another object that it
// needs, such as a pod's claim or an Ingress's Service. It is empty if there is none.
type lead struct {
	cause    string
	evidence []string
	symptom  bool     // as in run.Finding
	fails    bool     // as in run.Finding
	gaps     []string // failed reads
}

// findCause looks for a lead, depending on the kind of the object.
func (d *Diagnoser) findCause(ctx context.Context, q *inquiry) lead {
	if q.live.GetDeletionTimestamp() != nil {
		return d.deletion(ctx, q.live)
	}
	switch q.live.GroupVersionKind().GroupKind().String() {
	case "Pod", "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicationController":
		return d.podCause(ctx, q)
	case "Job.batch", "CronJob.batch":
		if suspended, _, _ := unstructured.NestedBool(q.live.Object, "spec", "suspend"); suspended {
			return lead{cause: "suspended (spec.suspend: true)"}
		}
		return d.podCause(ctx, q)
	case "PersistentVolumeClaim":
		l := d.claim(ctx, q.live.GetNamespace(), q.live.GetName())
		l.cause = strings.TrimPrefix(l.cause, "has ")
		return l
	case "Service":
		return d.service(ctx, q)
	case "Ingress.networking.k8s.io":
		return d.ingress(ctx, q)
	case "HorizontalPodAutoscaler.autoscaling":
		return d.autoscaler(ctx, q)
	case "PodDisruptionBudget.policy":
		return d.budget(ctx, q)
	case "APIService.apiregistration.k8s.io":
		return d.apiService(ctx, q.live)
	}
	return q.conditionCause()
}

// podCause checks the claims and the node of the first pod or, if no pods can be created, why they are refused.
func (d *Diagnoser) podCause(ctx context.Context, q *inquiry) lead {
	if len(q.Pods) > 0 {
		for _, check := range []func(context.Context, Pod) lead{d.checkClaims, d.checkNode} {
			if l := check(ctx, q.Pods[0]); l.cause != "" {
				return l
			}
		}
		if q.Pods[0].severity > starting {
			return lead{}
		}
	}
	for _, check := range []func() lead{q.jobFailure, q.replicaCause} {
		if l := check(); l.cause != "" {
			return l
		}
	}
	e := newestOf(q.Events, "FailedCreate")
	if e != nil && q.lacksPods() {
		return d.refusedPodsCause(ctx, q.live.GetNamespace(), e)
	}
	podsHealthy := len(q.Pods) == 0 || q.Pods[0].severity == healthy
	if podsHealthy && (q.verdict().Status == event.Failed || q.rule().Custom()) {
		return q.conditionCause()
	}
	return lead{}
}

// refusedPodsCause finds out why a workload's pods are refused, from a FailedCreate event.
func (d *Diagnoser) refusedPodsCause(ctx context.Context, namespace string, e *Event) lead {
	message := plainError(e.Message)
	l := d.admission(ctx, namespace, message)
	if l.cause == "" {
		l.cause = withoutName(message)
	}
	l.cause = "no pods can be created: " + l.cause
	return l
}

// replicaCause finds out why a workload with healthy pods is not ready: it has no replicas,
// no node matches, or minReadySeconds has not passed.
func (q *inquiry) replicaCause() lead {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(q.live.Object, path...)
		return n
	}
	desired, found, _ := unstructured.NestedInt64(q.live.Object, "status", "desiredNumberScheduled")
	ready := number("status", "readyReplicas") + number("status", "numberReady")
	wait := number("spec", "minReadySeconds")
	replicas, scaled, _ := unstructured.NestedInt64(q.live.Object, "spec", "replicas")
	switch {
	case scaled && replicas == 0 && len(q.Pods) == 0:
		return lead{cause: "scaled to 0 replicas"}
	case q.verdict().Status == event.Ready:
	case found && desired == 0:
		l := lead{cause: "no node matches its pods"}
		if nodes, _, _ := unstructured.NestedStringMap(q.live.Object, "spec", "template", "spec", "nodeSelector"); len(nodes) > 0 {
			l.cause += ", nodeSelector " + labels.FormatLabels(nodes)
		}
		return l
	case wait > 0 && ready > number("status", "availableReplicas")+number("status", "numberAvailable"):
		return lead{cause: fmt.Sprintf("%d ready %s as available only after %d s (minReadySeconds)", ready, plural(fmt.Sprint(ready), "pod counts", "pods count"), wait)}
	}
	return lead{}
}

// jobFailure returns the cause of a failed Job from its conditions.
func (q *inquiry) jobFailure() lead {
	if q.live.GetKind() != "Job" {
		return lead{}
	}
	for _, c := range listConditions(q.live) {
		if (c.kind == "Failed" || c.kind == "FailureTarget") && c.status == "True" {
			return lead{cause: "failed: " + joinColon(c.reason, c.message), evidence: []string{c.String()}}
		}
	}
	return lead{}
}

// conditionCause returns the cause from the conditions of the object, first those in its readiness
// expressions (R23), or else from its newest warning or its status.message.
func (q *inquiry) conditionCause() lead {
	v, annotations := q.verdict(), q.live.GetAnnotations()
	if v.Status == event.Ready {
		return lead{}
	}
	c := worstCondition(q.live, annotations[status.SuccessAnnotation]+annotations[status.FailureAnnotation])
	l := lead{cause: v.Message}
	switch e := q.newestWarning(); {
	case c != nil && !strings.Contains(v.Message, cmp.Or(c.message, c.kind+" is "+c.status)): // not in the verdict yet
		l.cause += "; " + c.String()
	case c == nil && e != nil:
		l.cause += "; " + e.Reason + ": " + e.Message
	default:
		message, _, _ := unstructured.NestedString(q.live.Object, "status", "message")
		if c == nil && message != "" && !strings.Contains(v.Message, message) {
			l.cause += "; " + message
		} else if c == nil {
			l.symptom = v.Status != event.Failed
		}
	}
	if c != nil {
		l.evidence = []string{c.String()}
	}
	return l
}
