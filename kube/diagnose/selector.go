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

// maxCompared limits how many objects of each kind are compared with a selector.
const maxCompared = 100

// podLabels is a pod, or the pod template of a workload, with its labels.
type podLabels struct {
	plan.Object
	labels map[string]string
}

// String is the start of a sentence: "pod p has", "the pods of Deployment/api have".
func (l podLabels) String() string {
	if l.Kind == "Pod" {
		return "pod " + l.Name + " has"
	}
	return "the pods of " + l.Object.String() + " have"
}

// mismatchCause finds out why a selector matches no pods: a workload that it matches has none, or pods have similar
// labels.
func (d *Diagnoser) mismatchCause(ctx context.Context, namespace string, selector metav1.LabelSelector) finding {
	f := finding{cause: fmt.Sprintf("selector %s matches no pods", metav1.FormatLabelSelector(&selector))}
	matcher, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return f
	}
	all, gaps := d.listPodLabels(ctx, namespace)
	f.gaps = gaps
	best, nearest := 0, ""
	for _, o := range all {
		if o.Kind != "Pod" && matcher.Matches(labels.Set(o.labels)) {
			r := d.Object(ctx, o.Object)
			return finding{cause: fmt.Sprintf("%s: %s has none: %s", f.cause, o.Object, r.Cause), tally: r.Tally, evidence: r.Evidence}
		}
		if near, score := similarLabels(selector.MatchLabels, o.labels); score > best {
			best, nearest = score, fmt.Sprintf("; %s %s", o, strings.Join(near, ","))
		}
	}
	f.cause += nearest
	return f
}

var templateLabels = []string{"spec", "template", "metadata", "labels"}

// labelSources are the kinds whose pod labels are compared with a selector, and the paths of these labels.
var labelSources = []struct {
	gvr         schema.GroupVersionResource
	kind, title string
	path        []string
}{
	{appsv1.SchemeGroupVersion.WithResource("deployments"), "Deployment", "Deployments", templateLabels},
	{appsv1.SchemeGroupVersion.WithResource("statefulsets"), "StatefulSet", "StatefulSets", templateLabels},
	{appsv1.SchemeGroupVersion.WithResource("daemonsets"), "DaemonSet", "DaemonSets", templateLabels},
	{corev1.SchemeGroupVersion.WithResource("pods"), "Pod", "pods", []string{"metadata", "labels"}},
}

// listPodLabels lists the labels of pods in a namespace, first those in the pod templates of workloads.
func (d *Diagnoser) listPodLabels(ctx context.Context, namespace string) (all []podLabels, gaps []string) {
	for _, l := range labelSources {
		list, err := d.dyn.Resource(l.gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: maxCompared})
		if err != nil {
			gaps = append(gaps, Unreadable(l.title, err))
			continue
		}
		for _, u := range list.Items {
			labels, _, _ := unstructured.NestedStringMap(u.Object, l.path...)
			all = append(all, podLabels{plan.Object{Group: l.gvr.Group, Kind: l.kind, Namespace: namespace, Name: u.GetName()}, labels})
		}
	}
	return all, gaps
}

// similarLabels compares a selector with labels that it does not match. near are the labels that have a key or a value of
// the selector; the more similar they are, the higher the score.
func similarLabels(selector, labels map[string]string) (near []string, score int) {
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
		near = append(near, k+"="+v)
	}
	return near, score
}

// similar reports whether one value is part of the other, or they differ in at most two letters.
func similar(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.Contains(a, b) || strings.Contains(b, a) || max(len(a), len(b)) > 3 && plan.EditDistance(a, b) <= 2
}

// budgetCause finds out why a PodDisruptionBudget allows no disruption: it matches no pods, its pods are not healthy, or
// it requires all of them.
func (d *Diagnoser) budgetCause(ctx context.Context, b *reportBuilder) finding {
	pdb := &policyv1.PodDisruptionBudget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(b.live.Object, pdb); err != nil || b.verdict().Status == event.Ready {
		return finding{}
	}
	s := pdb.Status
	switch {
	case pdb.Spec.Selector == nil:
		return finding{cause: "it has no selector, so it matches no pods"}
	case len(b.gaps) > 0:
		return b.conditionCause()
	case len(b.Pods) == 0:
		return d.mismatchCause(ctx, pdb.Namespace, *pdb.Spec.Selector)
	case s.CurrentHealthy < s.ExpectedPods && b.Pods[0].severity > starting:
		return finding{cause: fmt.Sprintf("%d of %d pods healthy; %s", s.CurrentHealthy, s.ExpectedPods, b.podProblem(b.Pods[0]))}
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return finding{cause: fmt.Sprintf("it allows no disruption: it requires %d healthy pods and matches %d", s.DesiredHealthy, s.ExpectedPods)}
	}
	return b.conditionCause()
}
