package observer

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// notReady returns why an object of a built-in kind is not ready, "" if it is. Objects of other kinds, and those whose
// chart says itself when they are ready, count as ready.
func notReady(u *unstructured.Unstructured) string {
	a := u.GetAnnotations()
	if a["helm.sh/readiness-success"] != "" && a["helm.sh/readiness-failure"] != "" {
		return ""
	}
	switch gvk := u.GroupVersionKind(); gvk.GroupKind().String() {
	case "Deployment.apps":
		return check(u, deployment)
	case "StatefulSet.apps":
		return check(u, statefulSet)
	case "DaemonSet.apps":
		return check(u, daemonSet)
	case "Job.batch":
		return check(u, job)
	case "Pod":
		return check(u, pod)
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return condition(u, "Established")
	}
	return ""
}

func check[T any](u *unstructured.Unstructured, why func(*T) string) string {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed); err != nil {
		return err.Error()
	}
	return why(&typed)
}

func deployment(d *appsv1.Deployment) string {
	want := ptr.Deref(d.Spec.Replicas, 1)
	s := d.Status
	if !d.Spec.Paused && (s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.AvailableReplicas < want) {
		return fmt.Sprintf("%d of %d replicas updated, %d available, generation %d of %d", s.UpdatedReplicas, want, s.AvailableReplicas, s.ObservedGeneration, d.Generation)
	}
	return ""
}

func statefulSet(d *appsv1.StatefulSet) string {
	want := ptr.Deref(d.Spec.Replicas, 1)
	s := d.Status
	switch rolling := d.Spec.UpdateStrategy.RollingUpdate; {
	case d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return ""
	case s.ObservedGeneration < d.Generation || s.ReadyReplicas < want:
		return fmt.Sprintf("%d of %d replicas ready, generation %d of %d", s.ReadyReplicas, want, s.ObservedGeneration, d.Generation)
	case (rolling == nil || rolling.Partition == nil || *rolling.Partition == 0) && want > 0 && s.UpdatedReplicas < want:
		return fmt.Sprintf("%d of %d replicas updated", s.UpdatedReplicas, want)
	}
	return ""
}

func daemonSet(d *appsv1.DaemonSet) string {
	s := d.Status
	if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType &&
		(s.ObservedGeneration < d.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberAvailable < s.DesiredNumberScheduled) {
		return fmt.Sprintf("%d of %d pods available", s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return ""
}

// job accepts a Job that runs: whether it must be complete is a matter of options.
func job(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func pod(p *corev1.Pod) string {
	if p.Status.Phase == corev1.PodSucceeded || slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return ""
	}
	return string(p.Status.Phase)
}

func condition(u *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, x := range list {
		if c, ok := x.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			return ""
		}
	}
	return "not " + kind
}
