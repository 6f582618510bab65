package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// BlockedSet is a StatefulSet with pods of an older template that are not ready. With OrderedReady, Kubernetes waits until such
// a pod is ready before it updates any, so a pod that can never be ready blocks the rollout, and also the way back
// (kubernetes/kubernetes#67250).
type BlockedSet struct {
	// Observed means that its controller has observed the current spec, so that the pods really have an older template.
	Observed bool
	Pods     []BlockingPod
}

// BlockingPod is a pod of an older template that is not ready.
type BlockingPod struct {
	plan.Object
	UID      types.UID
	Version  string // its resourceVersion
	Revision string // of its template
	// Broken means that it was never ready since its creation, see neverReady.
	Broken bool
}

// Advice is the command that makes Kubernetes replace the pod.
func (p BlockingPod) Advice() string {
	return fmt.Sprintf("kubectl delete pod %s -n %s", p.Name, p.Namespace)
}

// BlockedSet reads a StatefulSet and, unless all its pods are ready, the pods that block it.
func (d *Diagnoser) BlockedSet(ctx context.Context, o plan.Object) (*BlockedSet, error) {
	set, pods, err := d.readSet(ctx, o)
	if err != nil {
		return nil, err
	}
	return &BlockedSet{Observed: observed(set), Pods: blockingPods(set, pods)}, nil
}

// BrokenPods returns the pods of a StatefulSet that were never ready and, once they have an older template, block it.
func (d *Diagnoser) BrokenPods(ctx context.Context, o plan.Object) (broken []BlockingPod, err error) {
	set, pods, err := d.readSet(ctx, o)
	if err != nil {
		return nil, err
	}
	set.Status.UpdateRevision = "" // the operation may apply another template
	return slices.DeleteFunc(blockingPods(set, pods), func(p BlockingPod) bool { return !p.Broken }), nil
}

// readSet reads a StatefulSet and, if it may be blocked, its pods.
func (d *Diagnoser) readSet(ctx context.Context, o plan.Object) (set *appsv1.StatefulSet, pods []corev1.Pod, err error) {
	if set, err = d.kube.AppsV1().StatefulSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", o, err)
	}
	if !mayBlock(set) {
		return set, nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, nil, fmt.Errorf("read the selector of %s: %w", o, err)
	}
	list, err := d.kube.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, nil, fmt.Errorf("list pods of %s: %w", o, err)
	}
	return set, list.Items, nil
}

// observed reports whether the controller of a StatefulSet has observed its current spec.
func observed(set *appsv1.StatefulSet) bool { return set.Status.ObservedGeneration >= set.Generation }

// MayBlock reports whether pods of an older template may block a StatefulSet, according to its own fields.
func MayBlock(u *unstructured.Unstructured) bool {
	var set appsv1.StatefulSet
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set) == nil && mayBlock(&set)
}

// mayBlock is MayBlock. Other ways of updating pods do not wait for those that are not ready, or leave it to the user to
// delete pods.
func mayBlock(set *appsv1.StatefulSet) bool {
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	ordered := set.Spec.PodManagementPolicy == "" || set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement
	rolling := set.Spec.UpdateStrategy.Type == "" || set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType
	return ordered && rolling && set.Status.ReadyReplicas < replicas && set.Spec.Selector != nil && set.DeletionTimestamp == nil
}

// blockingPods returns the pods whose template is not the update revision although the StatefulSet updates pods of their
// number, and that are not ready.
func blockingPods(set *appsv1.StatefulSet, pods []corev1.Pod) (blocking []BlockingPod) {
	for i := range pods {
		p := &pods[i]
		revision, n := p.Labels[appsv1.ControllerRevisionHashLabelKey], ordinal(set, p)
		switch {
		case !isControlledBy(p, set.UID), p.DeletionTimestamp != nil, p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		case n < partition(set), revision == "", revision == set.Status.UpdateRevision, podutils.IsPodReady(p):
		default:
			blocking = append(blocking, BlockingPod{
				plan.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}, p.UID, p.ResourceVersion, revision, neverReady(p),
			})
		}
	}
	slices.SortFunc(blocking, func(a, b BlockingPod) int { return a.Compare(b.Object) })
	return blocking
}

// ordinal returns the number of a StatefulSet's pod, counted from 0, or -1.
func ordinal(set *appsv1.StatefulSet, p *corev1.Pod) int {
	n, err := strconv.Atoi(strings.TrimPrefix(p.Name, set.Name+"-"))
	if err != nil {
		return -1
	}
	if set.Spec.Ordinals != nil {
		n -= int(set.Spec.Ordinals.Start)
	}
	return n
}

// partition returns the number of the first pod that a StatefulSet updates.
func partition(set *appsv1.StatefulSet) int {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
		return int(*rolling.Partition)
	}
	return 0
}

// neverReady reports whether a pod was certainly not ready since its creation. A container without a probe that never ran
// for run.StableAfter has only started (R22c). Else, the kubelet sets the first conditions and the start time at once, so a later
// transition means that the pod has been ready. Times have whole seconds; a container that has run without a probe may have
// been ready for less than that.
func neverReady(p *corev1.Pod) bool {
	if podutils.IsPodReady(p) {
		return false
	}
	if slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		i := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		return i >= 0 && c.ReadinessProbe == nil && c.StartupProbe == nil && neverLasted(p, p.Status.ContainerStatuses[i])
	}) {
		return true
	}
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady &&
			(c.Status == corev1.ConditionTrue || p.Status.StartTime == nil || c.LastTransitionTime.Sub(p.Status.StartTime.Time) > time.Second)
	}) {
		return false
	}
	probed := map[string]bool{}
	for _, spec := range p.Spec.Containers {
		probed[spec.Name] = spec.ReadinessProbe != nil
	}
	return len(p.Status.ContainerStatuses) == 0 || slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		ran := s.Ready || s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
		return !ran || probed[s.Name] && !s.Ready
	})
}

// neverLasted reports whether each run of a container was certainly shorter than run.StableAfter. The status has only the last
// two runs; earlier ones had at most the time since the start of the pod without the back-offs between them.
func neverLasted(p *corev1.Pod, s corev1.ContainerStatus) bool {
	var oldest time.Time
	seen := 0
	for _, ran := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if ran == nil {
			continue
		}
		if ran.StartedAt.IsZero() || ran.FinishedAt.Sub(ran.StartedAt.Time) >= run.StableAfter {
			return false
		}
		seen, oldest = seen+1, ran.StartedAt.Time
	}
	unseen := int(s.RestartCount) + 1 - seen
	switch {
	case seen == 0, s.State.Running != nil: // it may still run
		return false
	case unseen <= 0:
		return true
	case p.Status.StartTime == nil:
		return false
	}
	left, backOff := oldest.Sub(p.Status.StartTime.Time), firstBackOff
	for range unseen - 1 { // the kubelet restarts a container at once after its first crash
		left, backOff = left-backOff, min(2*backOff, maxBackOff)
	}
	return left < run.StableAfter
}

// The kubelet's back-off between two restarts of a container doubles, from the second restart on.
const (
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
)

// blockedCause explains a StatefulSet that a pod of an older template blocks, because the problem of that pod is not one of
// the current template.
func (b *reportBuilder) blockedCause(cause string) string {
	for _, p := range b.blocking {
		if len(b.Pods) > 0 && b.Pods[0].Name == p.Name {
			set := b.live.GetName()
			return fmt.Sprintf("pod %s still has the old template (revision %s), and Kubernetes does not replace it while it is not ready: %s; "+
				"delete it so that %s can continue: %s", p.Name, strings.TrimPrefix(p.Revision, set+"-"), cause, set, p.Advice())
		}
	}
	return cause
}

// readBlocking finds the pods of an older template that block a StatefulSet.
func (b *reportBuilder) readBlocking() {
	var set appsv1.StatefulSet
	if b.live.GroupVersionKind().GroupKind().String() != "StatefulSet.apps" {
		return
	}
	var pods []corev1.Pod
	for _, p := range b.Pods {
		pods = append(pods, *p.source)
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(b.live.Object, &set) == nil && mayBlock(&set) && observed(&set) {
		b.blocking = blockingPods(&set, pods)
	}
}
