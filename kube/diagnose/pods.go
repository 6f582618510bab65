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

	"lockstep/engine/inspect"
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
	if !inspect.HasPods(o) {
		return nil, fmt.Errorf("list pods of %s: %w", o, ErrNoPods)
	}
	_, pods, err := d.findPods(ctx, live)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", o, err)
	}
	return pods.all(), nil
}

// findPods returns the pods of an object, also of a PodDisruptionBudget, and their direct owner if that is another object:
// the newest ReplicaSet of a Deployment, the newest Job of a CronJob.
func (d *Diagnoser) findPods(ctx context.Context, u *unstructured.Unstructured) ([]ref, foundPods, error) {
	if u.GroupVersionKind().GroupKind().String() == "Deployment.apps" {
		return d.podsOfDeployment(ctx, u)
	}
	owners, pods, err := d.podsOf(ctx, u)
	return owners, foundPods{current: pods}, err
}

// podsOf is findPods for kinds other than Deployments.
func (d *Diagnoser) podsOf(ctx context.Context, u *unstructured.Unstructured) ([]ref, []Pod, error) {
	switch u.GroupVersionKind().GroupKind().String() {
	case "Pod":
		p := &corev1.Pod{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p)
		return nil, []Pod{newPod(p)}, err
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

// podsOfDeployment tells the pods of the newest ReplicaSet, for which the run waits, from those of older ones. If ReplicaSets
// cannot be listed, all pods that the Deployment selects count as current.
func (d *Diagnoser) podsOfDeployment(ctx context.Context, u *unstructured.Unstructured) (owner []ref, found foundPods, err error) {
	selector, err := podSelector(u)
	if err != nil || selector == nil {
		return nil, found, err
	}
	sets, err := d.kube.AppsV1().ReplicaSets(u.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		found.current, err = d.matchingPods(ctx, u, "")
		return nil, found, err
	}
	owned := slices.DeleteFunc(sets.Items, func(s appsv1.ReplicaSet) bool { return !isControlledBy(&s, u.GetUID()) })
	if len(owned) == 0 {
		return nil, found, nil
	}
	newest := slices.MaxFunc(owned, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(revision(&a), revision(&b)) })
	pods, err := d.listSelected(ctx, u, selector)
	if err != nil {
		return nil, found, err
	}
	current := map[types.UID]bool{newest.UID: true}
	owner = []ref{refTo("ReplicaSet", &newest)}
	if observed, known, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); known && observed < u.GetGeneration() {
		current, owner = nil, nil // the controller has not created the newest ReplicaSet yet
	}
	found.wanted = newest.Spec.Replicas
	for _, s := range owned {
		if current[s.UID] {
			found.current = podsControlledBy(pods, s.UID)
		} else {
			found.old = append(found.old, podsControlledBy(pods, s.UID)...)
		}
	}
	sortPods(found.old)
	return owner, found, nil
}

// foundPods are the pods of an object, and those of an earlier version of a Deployment, each with the worst problem first.
type foundPods struct {
	current, old []Pod
	wanted       *int32 // how many current pods a Deployment's newest ReplicaSet wants, nil if unknown
}

func (f foundPods) all() []Pod { return append(f.current, f.old...) }

// countPods counts the pods of a workload. Those that are being deleted do not count.
func (b *reportBuilder) countPods(found foundPods) {
	count := func(pods []Pod) (n int) {
		for _, p := range pods {
			if p.source.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	current := count(found.current)
	b.existing = current + count(found.old)
	replicas, _, _ := unstructured.NestedInt64(b.live.Object, "spec", "replicas")
	nodes, _, _ := unstructured.NestedInt64(b.live.Object, "status", "desiredNumberScheduled")
	b.wanted = int(max(replicas, nodes))
	if found.wanted != nil {
		b.wanted = int(*found.wanted)
	}
	if b.wanted = max(b.wanted, 1); len(found.current) == 0 || b.live.GetKind() != "Job" {
		b.uncreated = max(b.wanted-current, 0)
	}
}

// withCauses omits old pods if they say nothing about the current ones: those cannot start, or there are none yet.
func (f foundPods) withCauses() []Pod {
	if len(f.current) > 0 && f.current[0].severity < cannotStart {
		return f.all()
	}
	return f.current
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
