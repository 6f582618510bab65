package diagnose

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/event"
)

// budget says why a PodDisruptionBudget allows no disruption: it is for no pods, its
// pods are in trouble, or it asks for all of them.
func (d *Diagnoser) budget(ctx context.Context, q *inquiry) lead {
	b := &policyv1.PodDisruptionBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(q.live.Object, b); err != nil || q.verdict().Status == event.Ready {
		return lead{}
	}
	s := b.Status
	switch {
	case b.Spec.Selector == nil:
		return lead{cause: "it has no selector, so it is for no pods"}
	case len(q.failed) > 0:
		return q.custom()
	case len(q.Pods) == 0:
		return d.mismatch(ctx, b.Namespace, *b.Spec.Selector)
	case s.CurrentHealthy < s.ExpectedPods && q.Pods[0].trouble > young:
		return lead{cause: fmt.Sprintf("%d of its %d pods are healthy; %s", s.CurrentHealthy, s.ExpectedPods, q.pod(q.Pods[0]))}
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return lead{cause: fmt.Sprintf("it allows no disruption: it wants %d healthy pods and is for %d", s.DesiredHealthy, s.ExpectedPods)}
	}
	return q.custom()
}
