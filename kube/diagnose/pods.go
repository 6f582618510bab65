package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
)

// Pods lists the pods of a workload or behind a Service, or a Pod itself, the one with the worst problem first. For a
// Deployment, those of the newest ReplicaSet come first. For other kinds it returns ErrNoPods.
func (d *Diagnoser) Pods(ctx context.Context, o plan.Object) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := d.get(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	if !podKinds[live.GroupVersionKind().GroupKind().String()] {
		return nil, fmt.Errorf("list pods of %s: %w", o, ErrNoPods)
	}
	_, pods, err := d.findPods(ctx, live)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", o, err)
	}
	return pods, nil
}

// podKinds are the kinds whose pods the inspector lists. findPods also finds those of a PodDisruptionBudget.
var podKinds = map[string]bool{
	"Pod": true, "Deployment.apps": true, "ReplicaSet.apps": true, "StatefulSet.apps": true, "DaemonSet.apps": true, "Job.batch": true,
	"ReplicationController": true, "CronJob.batch": true, "Service": true,
}

// findPods returns the pods of an object, and their direct owner if that is another object:
// the newest ReplicaSet of a Deployment, the newest Job of a CronJob.
func (d *Diagnoser) findPods(ctx context.Context, u *unstructured.Unstructured) ([]ref, []Pod, error) {
	switch u.GroupVersionKind().GroupKind().String() {
	case "Pod":
		p := &corev1.Pod{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p)
		return nil, []Pod{newPod(p)}, err
	case "Deployment.apps":
		return d.podsOfDeployment(ctx, u)
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		pods, err := d.matchingPods(ctx, u, u.GetUID())
		return nil, pods, err
	case "CronJob.batch":
		return d.podsOfCronJob(ctx, u)
	case "Service", "PodDisruptionBudget.policy":
		pods, err := d.matchingPods(ctx, u, "")
		return nil, pods, err
	}
	return nil, nil, nil
}

// podsOfDeployment puts the pods of the newest ReplicaSet first, because the run waits for those. If ReplicaSets cannot
// be listed, it returns all pods that the Deployment selects.
func (d *Diagnoser) podsOfDeployment(ctx context.Context, u *unstructured.Unstructured) ([]ref, []Pod, error) {
	selector, err := podSelector(u)
	if err != nil || selector == nil {
		return nil, nil, err
	}
	sets, err := d.kube.AppsV1().ReplicaSets(u.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		pods, err := d.matchingPods(ctx, u, "")
		return nil, pods, err
	}
	owned := slices.DeleteFunc(sets.Items, func(s appsv1.ReplicaSet) bool { return !isControlledBy(&s, u.GetUID()) })
	if len(owned) == 0 {
		return nil, nil, nil
	}
	newest := slices.MaxFunc(owned, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(revision(&a), revision(&b)) })
	pods, err := d.listSelected(ctx, u, selector)
	if err != nil {
		return nil, nil, err
	}
	current := podsControlledBy(pods, newest.UID)
	if observed, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); found && observed < u.GetGeneration() {
		setOutdated(current) // the controller has not created the newest ReplicaSet yet
	}
	var old []Pod
	for _, s := range owned {
		if s.UID != newest.UID {
			old = append(old, podsControlledBy(pods, s.UID)...)
		}
	}
	sortPods(old)
	setOutdated(old)
	return []ref{refTo("ReplicaSet", &newest)}, append(current, old...), nil
}

func setOutdated(pods []Pod) {
	for i := range pods {
		pods[i].outdated = true
	}
}

// withCauses omits pods of an earlier version of a Deployment that say nothing about the current one: its own pods cannot
// start, or it has none yet because its controller has not observed the change.
func withCauses(pods []Pod) []Pod {
	isOutdated := func(p Pod) bool { return p.outdated }
	if len(pods) > 0 && (pods[0].outdated || pods[0].severity >= cannotStart) {
		return slices.DeleteFunc(slices.Clone(pods), isOutdated)
	}
	return pods
}

func revision(s *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(s.Annotations["deployment.kubernetes.io/revision"])
	return n
}

func (d *Diagnoser) podsOfCronJob(ctx context.Context, u *unstructured.Unstructured) ([]ref, []Pod, error) {
	list, err := d.kube.BatchV1().Jobs(u.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	var newest *metav1.ObjectMeta
	for i := range list.Items {
		m := &list.Items[i].ObjectMeta
		if isControlledBy(m, u.GetUID()) && (newest == nil || newest.CreationTimestamp.Before(&m.CreationTimestamp)) {
			newest = m
		}
	}
	if newest == nil {
		return nil, nil, nil
	}
	pods, err := d.listSelected(ctx, u, labels.SelectorFromSet(labels.Set{"batch.kubernetes.io/job-name": newest.Name}))
	return []ref{refTo("Job", newest)}, podsControlledBy(pods, newest.UID), err
}

// matchingPods lists the pods that an object selects. If uid is not "", it lists only those that the object with this
// UID controls.
func (d *Diagnoser) matchingPods(ctx context.Context, u *unstructured.Unstructured, uid types.UID) ([]Pod, error) {
	selector, err := podSelector(u)
	if err != nil || selector == nil {
		return nil, err
	}
	pods, err := d.listSelected(ctx, u, selector)
	return podsControlledBy(pods, uid), err
}

func (d *Diagnoser) listSelected(ctx context.Context, u *unstructured.Unstructured, selector labels.Selector) ([]corev1.Pod, error) {
	list, err := d.kube.CoreV1().Pods(u.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// podSelector returns the selector of a workload, Service or PodDisruptionBudget, or nil.
func podSelector(u *unstructured.Unstructured) (labels.Selector, error) {
	m, found, err := unstructured.NestedMap(u.Object, "spec", "selector")
	selectsAll := u.GetKind() == "PodDisruptionBudget" && len(m) == 0 // in other kinds an empty selector selects nothing
	if err != nil || !found || len(m) == 0 && !selectsAll {
		return nil, err
	}
	if k := u.GetKind(); k == "Service" || k == "ReplicationController" {
		set, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector")
		return labels.SelectorFromSet(set), err
	}
	s := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(s)
}

// podsControlledBy returns the pods that the object with this UID controls, or all if uid is "".
func podsControlledBy(list []corev1.Pod, uid types.UID) []Pod {
	var pods []Pod
	for i := range list {
		if uid == "" || isControlledBy(&list[i], uid) {
			pods = append(pods, newPod(&list[i]))
		}
	}
	sortPods(pods)
	return pods
}

func isControlledBy(o metav1.Object, uid types.UID) bool {
	c := metav1.GetControllerOfNoCopy(o)
	return c != nil && c.UID == uid
}

// sortPods puts the worst problem first, then the newest pod.
func sortPods(pods []Pod) {
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
}
