package diagnose

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
)

// lead is what was found by going on from an object to what it needs: from a pod
// to its claim, from an Ingress to its Service. It is empty where that leads
// nowhere.
type lead struct {
	cause    string
	evidence []string
	symptom  bool     // as in run.Finding
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
			return lead{cause: "it is suspended (spec.suspend: true), so it starts nothing"}
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
	if l := q.jobFailing(); l.cause != "" {
		return l
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
	v, expressions := q.verdict(), q.live.GetAnnotations()["helm.sh/readiness-success"]+q.live.GetAnnotations()["helm.sh/readiness-failure"]
	if v.Status == event.Ready {
		return lead{}
	}
	c, l := fault(q.live, expressions), lead{cause: v.Message}
	switch e := q.last(); {
	case c != nil && !strings.Contains(v.Message, cmpText(c)):
		l.cause += "; " + c.String()
	case c == nil && e != nil:
		l.cause += "; " + e.Reason + ": " + e.Message
	case c == nil:
		l.symptom = v.Status != event.Failed
	}
	_, written, _ := unstructured.NestedMap(q.live.Object, "status")
	if g := q.live.GroupVersionKind().Group; !written && strings.Contains(g, ".") && !strings.HasSuffix(g, ".k8s.io") {
		l.cause += fmt.Sprintf(" (does the controller of %s run?)", q.live.GroupVersionKind().GroupKind())
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
