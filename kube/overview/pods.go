package overview

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
)

// podCauses are the pods that are not ready, by the object that controls them, and those that could not be created. Each namespace
// has one watch of pods and one of those warnings, which start with the first object that is not ready, or whose pods decide.
type podCauses struct {
	watch, watchRefused func(namespace string)
	running             sync.WaitGroup

	mu      sync.Mutex
	watched map[string]bool                           // namespaces
	pods    map[owner]map[types.UID]diagnose.PodCause // those that are not ready
	newest  map[owner]time.Time                       // when the newest pod was created
	refused map[owner]refusal                         // the last one
}

// owner is an object that controls pods.
type owner struct{ namespace, kind, name string }

// refusal is why a pod could not be created.
type refusal struct {
	why string
	at  time.Time
}

// startPods prepares the watches of pods. They end with ctx.
func (o *Overview) startPods(ctx context.Context, c *connect.Client) {
	p := &o.pods
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched, p.pods = map[string]bool{}, map[owner]map[types.UID]diagnose.PodCause{}
	p.newest, p.refused = map[owner]time.Time{}, map[owner]refusal{}
	p.watchRefused = func(namespace string) {
		cluster.FollowWatch(ctx, func() (watch.Interface, error) {
			return c.Clientset.CoreV1().Events(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "reason=" + diagnose.FailedCreate, TimeoutSeconds: new(int64(watchSeconds))})
		}, func(e watch.Event) {
			if warning, ok := e.Object.(*corev1.Event); ok && e.Type != watch.Deleted {
				p.putRefusal(warning)
				signal(o.changed)
			}
		})
	}
	p.watch = func(namespace string) {
		cluster.FollowWatch(ctx, func() (watch.Interface, error) {
			return c.Clientset.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(watchSeconds))})
		}, func(e watch.Event) {
			if pod, ok := e.Object.(*corev1.Pod); ok && p.put(pod, e.Type == watch.Deleted) {
				signal(o.changed)
			}
		})
	}
}

// wait waits until the watches have ended.
func (p *podCauses) wait() { p.running.Wait() }

// need starts the watch of a namespace.
func (p *podCauses) need(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.watched[namespace] {
		p.watched[namespace] = true
		p.running.Go(func() { p.watch(namespace) })
		p.running.Go(func() { p.watchRefused(namespace) })
	}
}

// put takes the state of a pod. It reports whether that changes a cause.
func (p *podCauses) put(pod *corev1.Pod, deleted bool) bool {
	kind, name := cluster.PodOwner(pod)
	of := owner{pod.Namespace, kind, name}
	cause := diagnose.CauseOfPod(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod.CreationTimestamp.After(p.newest[of]) {
		p.newest[of] = pod.CreationTimestamp.Time
	}
	before, known := p.pods[of][pod.UID]
	if deleted || cause.Why == "" {
		delete(p.pods[of], pod.UID)
		return known
	}
	if p.pods[of] == nil {
		p.pods[of] = map[types.UID]diagnose.PodCause{}
	}
	p.pods[of][pod.UID] = cause
	return before != cause
}

// putRefusal takes a warning that a pod could not be created.
func (p *podCauses) putRefusal(e *corev1.Event) {
	kind, name := cluster.PodsOf(e.InvolvedObject.Kind, e.InvolvedObject.Name)
	at := e.LastTimestamp.Time
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := (owner{e.InvolvedObject.Namespace, kind, name}); !at.Before(p.refused[of].at) {
		p.refused[of] = refusal{diagnose.RefusedPods(e.Message), at}
	}
}

// cause returns why a workload is not ready by its worst pod, "" if that is unknown, and since when its first pod is not. failed
// means that waiting will not help. Of a Job, which replaces the pods that failed, only the newest pod counts.
func (p *podCauses) cause(o plan.Object) (why string, failed bool, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst diagnose.PodCause
	var at time.Time
	of := owner{o.Namespace, o.Kind, o.Name}
	for _, c := range p.pods[of] {
		if o.Kind == "Job" && c.Created.Before(p.newest[of]) {
			continue
		}
		if since.IsZero() || c.Since.Before(since) {
			since = c.Since
		}
		if c.Severity > worst.Severity || c.Severity == worst.Severity && c.Created.After(at) {
			worst, at = c, c.Created
		}
	}
	if r := p.refused[of]; !worst.Stuck && r.at.After(p.newest[of]) {
		return r.why, true, since
	}
	return worst.Why, worst.Stuck, since
}
