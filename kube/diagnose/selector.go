package diagnose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// maxCompared is how many objects of a kind in a namespace are compared with a selector.
const maxCompared = 100

// labelled is a pod, or the pods that a workload makes, with the labels.
type labelled struct {
	plan.Object
	labels map[string]string
}

func (l labelled) String() string {
	if l.Kind == "Pod" {
		return "pod " + l.Name + " has"
	}
	return "the pods of " + l.Object.String() + " have"
}

// mismatch says of a selector that matches no pod why none is there: the workload
// whose pods it would match has none, or the labels of others come near.
func (d *Diagnoser) mismatch(ctx context.Context, namespace string, selector metav1.LabelSelector) lead {
	l := lead{cause: fmt.Sprintf("selector %s matches no pods", metav1.FormatLabelSelector(&selector))}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return l
	}
	all, gaps := d.labelled(ctx, namespace)
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

// labelled lists what has labels of pods in a namespace: workloads, then pods.
func (d *Diagnoser) labelled(ctx context.Context, namespace string) (all []labelled, gaps []string) {
	some := metav1.ListOptions{Limit: maxCompared}
	add := func(group, kind, name string, labels map[string]string) {
		all = append(all, labelled{plan.Object{Group: group, Kind: kind, Namespace: namespace, Name: name}, labels})
	}
	note := func(what string, err error) {
		if err != nil {
			gaps = append(gaps, unreadable(what, err))
		}
	}
	apps := d.kube.AppsV1()
	deployments, err := apps.Deployments(namespace).List(ctx, some)
	if note("Deployments", err); err == nil {
		for _, o := range deployments.Items {
			add("apps", "Deployment", o.Name, o.Spec.Template.Labels)
		}
	}
	sets, err := apps.StatefulSets(namespace).List(ctx, some)
	if note("StatefulSets", err); err == nil {
		for _, o := range sets.Items {
			add("apps", "StatefulSet", o.Name, o.Spec.Template.Labels)
		}
	}
	daemons, err := apps.DaemonSets(namespace).List(ctx, some)
	if note("DaemonSets", err); err == nil {
		for _, o := range daemons.Items {
			add("apps", "DaemonSet", o.Name, o.Spec.Template.Labels)
		}
	}
	pods, err := d.kube.CoreV1().Pods(namespace).List(ctx, some)
	if note("pods", err); err == nil {
		for _, o := range pods.Items {
			add(corev1.GroupName, "Pod", o.Name, o.Labels)
		}
	}
	return all, gaps
}

// nearestLabels compares labels with a selector that does not match them: score is 0 where
// none of them was meant, and has are those for its keys, or with its values.
func nearestLabels(selector, labels map[string]string) (has []string, score int) {
	for _, k := range slices.Sorted(maps.Keys(selector)) {
		want := selector[k]
		v, there := labels[k]
		switch {
		case there && v == want:
			score += 2
		case there && similar(v, want):
			score++
		case !there:
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

// similar reports whether one value is a part of the other, or differs from it by a
// letter or two.
func similar(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.Contains(a, b) || strings.Contains(b, a) || max(len(a), len(b)) > 3 && distance(a, b) <= 2
}

// distance returns how many letters have to be put in, left out or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0]++
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}

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
		return lead{cause: "it has no selector, so it matches no pods"}
	case len(q.failed) > 0:
		return q.custom()
	case len(q.Pods) == 0:
		return d.mismatch(ctx, b.Namespace, *b.Spec.Selector)
	case s.CurrentHealthy < s.ExpectedPods && q.Pods[0].severity > starting:
		return lead{cause: fmt.Sprintf("%d of %d pods healthy; %s", s.CurrentHealthy, s.ExpectedPods, q.pod(q.Pods[0]))}
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return lead{cause: fmt.Sprintf("it allows no disruption: it requires %d healthy pods and matches %d", s.DesiredHealthy, s.ExpectedPods)}
	}
	return q.custom()
}
