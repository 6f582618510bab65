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

// podCauses are the pods that are not ready, by the object that controls them. Each namespace has one watch of pods, which starts
// with the first object that is not ready.
type podCauses struct {
	watch   func(namespace string)
	running sync.WaitGroup

	mu      sync.Mutex
	watched map[string]bool                           // namespaces
	pods    map[owner]map[types.UID]diagnose.PodCause // those that are not ready
}

// owner is an object that controls pods.
type owner struct{ namespace, kind, name string }

// startPods prepares the watches of pods. They end with ctx.
func (o *Overview) startPods(ctx context.Context, c *connect.Client) {
	p := &o.pods
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched, p.pods = map[string]bool{}, map[owner]map[types.UID]diagnose.PodCause{}
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
	}
}

// put takes the state of a pod. It reports whether that changes a cause.
func (p *podCauses) put(pod *corev1.Pod, deleted bool) bool {
	kind, name := cluster.PodOwner(pod)
	of := owner{pod.Namespace, kind, name}
	cause := diagnose.CauseOfPod(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
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

// cause returns why a workload is not ready by its worst pod, "" if that is unknown, and since when its first pod is not. failed
// means that waiting will not help.
func (p *podCauses) cause(o plan.Object) (why string, failed bool, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst diagnose.PodCause
	var at time.Time
	for _, c := range p.pods[owner{o.Namespace, o.Kind, o.Name}] {
		if since.IsZero() || c.Since.Before(since) {
			since = c.Since
		}
		if c.Severity > worst.Severity || c.Severity == worst.Severity && c.Created.After(at) {
			worst, at = c, c.Created
		}
	}
	return worst.Why, worst.Stuck, since
}
