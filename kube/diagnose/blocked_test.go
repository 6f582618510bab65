package diagnose

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestBlockingPods: which pods of a StatefulSet block its rollout, and which of them were never ready (R32).
func TestBlockingPods(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	number := func(n int32) *int32 { return &n }
	set := func(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "n", UID: "s"}}
		s.Spec.Replicas, s.Spec.Selector, s.Status.UpdateRevision, s.Status.ReadyReplicas = number(2), &metav1.LabelSelector{}, "db-new", 1
		if change != nil {
			change(s)
		}
		return s
	}
	controller := true
	pod := func(change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-1", Namespace: "n", UID: "p", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "db-old"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: types.UID("s"), Controller: &controller}}}}
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{Time: start},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: start}}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}}
		if change != nil {
			change(&p)
		}
		return p
	}
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	for _, c := range []struct {
		name             string
		set              func(*appsv1.StatefulSet)
		pod              func(*corev1.Pod)
		blocks, isBroken bool
	}{
		{"an image that cannot be pulled", nil, nil, true, true},
		{"unscheduled", nil, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }, true, true},
		{"ready before", nil, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime.Time = start.Add(5 * time.Second) }, true, false},
		{"crashes with a probe", nil, func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe, p.Status.ContainerStatuses[0].LastTerminationState = &corev1.Probe{}, crashed
		}, true, true},
		{"crashes without a probe, so it was ready for a moment", nil, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState = crashed }, true, false},
		{"one of two containers never ran", nil, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other"})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "other", State: crashed})
		}, true, true},
		{"ready", nil, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }, false, false},
		{"the current template", nil, func(p *corev1.Pod) { p.Labels[appsv1.ControllerRevisionHashLabelKey] = "db-new" }, false, false},
		{"no revision", nil, func(p *corev1.Pod) { p.Labels = nil }, false, false},
		{"terminating", nil, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }, false, false},
		{"failed, so Kubernetes replaces it", nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false, false},
		{"of another object", nil, func(p *corev1.Pod) { p.OwnerReferences = nil }, false, false},
		{"below the partition", func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: number(2)}
		}, nil, false, false},
		{"at the partition", func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: number(1)}
		}, nil, true, true},
		{"below the partition with a first ordinal", func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: number(1)}
		}, nil, false, false},
		{"Parallel", func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, nil, false, false},
		{"OnDelete", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }, nil, false, false},
		{"all ready", func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 2 }, nil, false, false},
	} {
		s := set(c.set)
		var found []BlockingPod
		if mayBlock(s) {
			found = blockingPods(s, []corev1.Pod{pod(c.pod)})
		}
		broken := slices.ContainsFunc(found, func(p BlockingPod) bool { return p.Broken })
		if len(found) == 1 != c.blocks || broken != c.isBroken {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}
