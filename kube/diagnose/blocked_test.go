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
	at := func(seconds int) metav1.Time {
		return metav1.Time{Time: start.Add(time.Duration(seconds) * time.Second)}
	}
	// crashes is a container without a probe in CrashLoopBackOff, whose last run is given in seconds after the start of the pod.
	crashes := func(restarts int32, from, to int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = at(to)
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "main", RestartCount: restarts,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: at(from), FinishedAt: at(to)}}}
		}
	}
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
		{"crashes without a probe after a time that is unknown", nil, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState = crashed }, true, false},
		{"crashes without a probe after 2s", nil, crashes(0, 1, 3), true, true},
		{"crashes without a probe after 10s", nil, crashes(0, 1, 11), true, false},
		{"crashed without a probe 2s after each start", nil, crashes(2, 17, 19), true, true},
		{"an earlier run may have lasted", nil, crashes(2, 24, 26), true, false},
		{"crashed five times, with back-offs of 10s, 20s and 40s", nil, crashes(4, 79, 80), true, true},
		{"runs without a probe now", nil, func(p *corev1.Pod) {
			crashes(0, 1, 3)(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(4)}}
		}, true, false},
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
