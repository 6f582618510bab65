package diagnose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// maxCompared limits the objects of a kind that are compared with a selector.
const maxCompared = 100

// podLabels is a pod, or the pod template of a workload, with its labels.
type podLabels struct {
	plan.Object
	labels map[string]string
}

func (l podLabels) String() string {
	if l.Kind == "Pod" {
		return "pod " + l.Name + " has"
	}
	return "the pods of " + l.Object.String() + " have"
}

// mismatch finds out why a selector matches no pods: the matching workload has none, or
// other pods have similar labels.
func (d *Diagnoser) mismatch(ctx context.Context, namespace string, selector metav1.LabelSelector) lead {
	l := lead{cause: fmt.Sprintf("selector %s matches no pods", metav1.FormatLabelSelector(&selector))}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return l
	}
	all, gaps := d.listPodLabels(ctx, namespace)
	l.gaps = gaps
	best, nearest := 0, ""
	for _, o := range all {
		if o.Kind != "Pod" && matches.Matches(labels.Set(o.labels)) {
			r := d.Object(ctx, o.Object)
			return lead{cause: fmt.Sprintf("%s: %s has none: %s", l.cause, o.Object, r.Cause), evidence: r.Evidence}
		}
		if has, score := nearestLabels(selector.MatchLabels, o.labels); score > best {
			best, nearest = score, fmt.Sprintf("; %s %s", o, strings.Join(has, ","))
		}
	}
	l.cause += nearest
	return l
}

var templateLabels = []string{"spec", "template", "metadata", "labels"}

// labelled are the kinds whose pod labels are compared with a selector, and where they have them.
var labelled = []struct {
	gvr         schema.GroupVersionResource
	kind, title string
	path        []string
}{
	{appsv1.SchemeGroupVersion.WithResource("deployments"), "Deployment", "Deployments", templateLabels},
	{appsv1.SchemeGroupVersion.WithResource("statefulsets"), "StatefulSet", "StatefulSets", templateLabels},
	{appsv1.SchemeGroupVersion.WithResource("daemonsets"), "DaemonSet", "DaemonSets", templateLabels},
	{corev1.SchemeGroupVersion.WithResource("pods"), "Pod", "pods", []string{"metadata", "labels"}},
}

// listPodLabels lists the pod labels in a namespace: of workloads, then of pods.
func (d *Diagnoser) listPodLabels(ctx context.Context, namespace string) (all []podLabels, gaps []string) {
	for _, l := range labelled {
		list, err := d.dyn.Resource(l.gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: maxCompared})
		if err != nil {
			gaps = append(gaps, unreadable(l.title, err))
			continue
		}
		for _, u := range list.Items {
			labels, _, _ := unstructured.NestedStringMap(u.Object, l.path...)
			all = append(all, podLabels{plan.Object{Group: l.gvr.Group, Kind: l.kind, Namespace: namespace, Name: u.GetName()}, labels})
		}
	}
	return all, gaps
}

// nearestLabels compares labels with a selector that does not match them. has are the labels
// with a key or value of the selector, score is higher the more similar they are.
func nearestLabels(selector, labels map[string]string) (has []string, score int) {
	for _, k := range slices.Sorted(maps.Keys(selector)) {
		want := selector[k]
		v, ok := labels[k]
		switch {
		case ok && v == want:
			score += 2
		case ok && similar(v, want):
			score++
		case !ok:
			i := slices.IndexFunc(slices.Sorted(maps.Keys(labels)), func(other string) bool { return labels[other] == want })
			if i < 0 {
				continue
			}
			k, v = slices.Sorted(maps.Keys(labels))[i], want
			score++
		}
		has = append(has, k+"="+v)
	}
	return has, score
}

// similar reports whether one value is part of the other, or they differ by one or two letters.
func similar(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.Contains(a, b) || strings.Contains(b, a) || max(len(a), len(b)) > 3 && plan.EditDistance(a, b) <= 2
}

// budget finds out why a PodDisruptionBudget allows no disruption: it matches no pods, its
// pods are not healthy, or it requires all of them.
func (d *Diagnoser) budget(ctx context.Context, q *inquiry) lead {
	b := &policyv1.PodDisruptionBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(q.live.Object, b); err != nil || q.verdict().Status == event.Ready {
		return lead{}
	}
	s := b.Status
	switch {
	case b.Spec.Selector == nil:
		return lead{cause: "it has no selector, so it matches no pods"}
	case len(q.failed) > 0:
		return q.conditionCause()
	case len(q.Pods) == 0:
		return d.mismatch(ctx, b.Namespace, *b.Spec.Selector)
	case s.CurrentHealthy < s.ExpectedPods && q.Pods[0].severity > starting:
		return lead{cause: fmt.Sprintf("%d of %d pods healthy; %s", s.CurrentHealthy, s.ExpectedPods, q.podProblem(q.Pods[0]))}
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return lead{cause: fmt.Sprintf("it allows no disruption: it requires %d healthy pods and matches %d", s.DesiredHealthy, s.ExpectedPods)}
	}
	return q.conditionCause()
}
