package diagnose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
	"lockstep/kube/status"
)

// lead is what was found by going on from an object to what it needs: from a pod
// to its claim, from an Ingress to its Service. It is empty where that leads
// nowhere.
type lead struct {
	cause    string
	evidence []string
	symptom  bool     // as in run.Finding
	fails    bool     // as in run.Finding
	gaps     []string // what could not be read
}

// follow looks at what an object needs beside its own pods.
func (d *Diagnoser) follow(ctx context.Context, q *inquiry) lead {
	if q.live.GetDeletionTimestamp() != nil {
		return d.gone(ctx, q.live)
	}
	switch q.live.GroupVersionKind().GroupKind().String() {
	case "Pod", "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicationController":
		return d.followPods(ctx, q)
	case "Job.batch", "CronJob.batch":
		if suspended, _, _ := unstructured.NestedBool(q.live.Object, "spec", "suspend"); suspended {
			return lead{cause: "suspended (spec.suspend: true)"}
		}
		return d.followPods(ctx, q)
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
	return q.custom()
}

// followPods goes on from the first pod to its claims, and from pods that cannot be
// created to what refuses them.
func (d *Diagnoser) followPods(ctx context.Context, q *inquiry) lead {
	if len(q.Pods) > 0 {
		for _, look := range []func(context.Context, Pod) lead{d.claimsOfPod, d.nodeOfPod} {
			if l := look(ctx, q.Pods[0]); l.cause != "" {
				return l
			}
		}
		if q.Pods[0].trouble > young {
			return lead{}
		}
	}
	for _, look := range []func() lead{q.jobFailing, q.counting} {
		if l := look(); l.cause != "" {
			return l
		}
	}
	e := q.last("FailedCreate")
	switch failed := q.verdict().Status == event.Failed; {
	case e != nil && q.missesPods():
	case (failed || q.rule().Custom()) && (len(q.Pods) == 0 || q.Pods[0].trouble == fine):
		return q.custom()
	default:
		return lead{}
	}
	words := plainError(e.Message)
	l := d.admission(ctx, q.live.GetNamespace(), words)
	if l.cause == "" {
		l.cause = withoutName(words)
	}
	l.cause = "no pods can be created: " + l.cause
	return l
}

// counting says why a workload's pods do not count that have nothing wrong with them:
// no node is meant for them, or they are to be ready for some time first.
func (q *inquiry) counting() lead {
	number := func(path ...string) int64 { n, _, _ := unstructured.NestedInt64(q.live.Object, path...); return n }
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
			var all []string
			for _, k := range slices.Sorted(maps.Keys(nodes)) {
				all = append(all, k+"="+nodes[k])
			}
			l.cause += ", nodeSelector " + strings.Join(all, ",")
		}
		return l
	case wait > 0 && ready > number("status", "availableReplicas")+number("status", "numberAvailable"):
		return lead{cause: fmt.Sprintf("%d ready %s as available only after %d s (minReadySeconds)", ready, plural(fmt.Sprint(ready), "pod counts", "pods count"), wait)}
	}
	return lead{}
}

// jobFailing is what a Job fails of that has none of its pods to blame.
func (q *inquiry) jobFailing() lead {
	if q.live.GetKind() != "Job" {
		return lead{}
	}
	for _, c := range conditionsOf(q.live) {
		if (c.kind == "Failed" || c.kind == "FailureTarget") && c.status == "True" {
			return lead{cause: "failed: " + colon(c.reason, c.message), evidence: []string{c.String()}}
		}
	}
	return lead{}
}

// custom is what a resource's conditions say that its status is judged by, its
// controller's or the expressions of R23.
func (q *inquiry) custom() lead {
	v, expressions := q.verdict(), q.live.GetAnnotations()[status.SuccessAnnotation]+q.live.GetAnnotations()[status.FailureAnnotation]
	if v.Status == event.Ready {
		return lead{}
	}
	c, l := fault(q.live, expressions), lead{cause: v.Message}
	switch e := q.last(); {
	case c != nil && !strings.Contains(v.Message, cmpText(c)):
		l.cause += "; " + c.String()
	case c == nil && e != nil:
		l.cause += "; " + e.Reason + ": " + e.Message
	default:
		said, _, _ := unstructured.NestedString(q.live.Object, "status", "message")
		if c == nil && said != "" && !strings.Contains(v.Message, said) {
			l.cause += "; " + said
		} else if c == nil {
			l.symptom = v.Status != event.Failed
		}
	}
	if c != nil {
		l.evidence = []string{c.String()}
	}
	return l
}

// cmpText is the part of a condition that a message about it has.
func cmpText(c *condition) string {
	if c.message != "" {
		return c.message
	}
	return c.kind + " is " + c.status
}
