package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Signs tells the first signs of trouble with objects: what their pods, and what the
// cluster warns of, show long before a status does. It has one watch of pods and one
// of warnings for each namespace; where those are not allowed there are no signs, and
// what is stuck is looked into after a while. Its zero value is ready to use.
type Signs struct {
	mu         sync.Mutex
	namespaces map[string]bool
	listeners  map[owner]func()
	pods       map[types.NamespacedName]owner // whose they are
	told       map[types.UID]string           // the trouble of each pod that was told last
}

// owner is an object by what pods and events call it.
type owner struct{ namespace, kind, name string }

// owning are the kinds of objects whose trouble shows in pods and warnings first.
var owning = map[string]bool{"Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "CronJob": true,
	"Pod": true, "PersistentVolumeClaim": true}

// noticing adds a sign to what is seen of objects whose trouble shows in their own
// status: that it says something else than before, and the object is not ready.
func noticing(report func(run.Observation)) func(run.Observation) {
	var mu sync.Mutex
	last := map[plan.Object]string{}
	return func(o run.Observation) {
		if o.Status == event.InProgress && !owning[o.Object.Kind] {
			mu.Lock()
			was, known := last[o.Object]
			last[o.Object] = o.Message
			mu.Unlock()
			o.Sign = o.Sign || known && was != o.Message
		}
		report(o)
	}
}

// listen calls sign at each sign of trouble with an object. It reports whether nobody
// watches the object's namespace yet, which the caller has to see to.
func (s *Signs) listen(o owner, sign func()) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		s.namespaces, s.listeners = map[string]bool{}, map[owner]func(){}
		s.pods, s.told = map[types.NamespacedName]owner{}, map[types.UID]string{}
	}
	s.listeners[o] = sign
	first = !s.namespaces[o.namespace]
	s.namespaces[o.namespace] = true
	return first
}

// watch follows a namespace until ctx ends.
func (s *Signs) watch(ctx context.Context, kube kubernetes.Interface, namespace string) {
	begun := time.Now().Add(-time.Second) // events have whole seconds
	var both sync.WaitGroup
	both.Go(func() {
		follow(ctx, func() (watch.Interface, error) {
			return kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
		}, func(e watch.Event) {
			if p, ok := e.Object.(*corev1.Pod); ok {
				s.pod(p, e.Type == watch.Deleted)
			}
		})
	})
	both.Go(func() {
		follow(ctx, func() (watch.Interface, error) {
			return kube.CoreV1().Events(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
		}, func(e watch.Event) {
			if w, ok := e.Object.(*corev1.Event); ok && e.Type != watch.Deleted && !w.CreationTimestamp.Time.Before(begun) {
				s.warning(w)
			}
		})
	})
	both.Wait()
}

// follow watches until ctx ends or that is not allowed.
func follow(ctx context.Context, open func() (watch.Interface, error), saw func(watch.Event)) {
	for wait := time.Second; ctx.Err() == nil; {
		w, err := open()
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsUnauthorized(err) {
			return
		}
		if err == nil {
			wait = time.Second
			for e := range w.ResultChan() {
				saw(e)
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, 30*time.Second)
		}
	}
}

func (s *Signs) pod(p *corev1.Pod, gone bool) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone {
		delete(s.told, p.UID)
		return // events about it may still come
	}
	of := owner{p.Namespace, "Pod", p.Name}
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		of.kind, of.name = c.Kind, c.Name
		if hash := p.Labels["pod-template-hash"]; c.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(c.Name, "-"+hash) {
			of.kind, of.name = "Deployment", strings.TrimSuffix(c.Name, "-"+hash)
		}
	}
	s.pods[key] = of
	if t := trouble(p); t != "" && t != s.told[p.UID] {
		s.told[p.UID] = t
		s.sign(of)
	}
}

// trouble says what is wrong with a pod, so that what is new can be told from what is
// known; "" for nothing.
func trouble(p *corev1.Pod) string {
	var out strings.Builder
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				fmt.Fprintf(&out, "%s %s ", c.Name, w.Reason)
			}
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 || c.RestartCount > 0 {
				fmt.Fprintf(&out, "%s %d ", c.Name, c.RestartCount)
			}
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		out.WriteString("failed " + p.Status.Reason)
	}
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse && (c.Type == corev1.PodScheduled || c.Reason == "ReadinessGatesNotReady") {
			out.WriteString(c.Reason)
		}
	}
	return out.String()
}

func (s *Signs) warning(e *corev1.Event) {
	of := owner{e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch of.kind {
	case "Pod":
		if whose, ok := s.pods[types.NamespacedName{Namespace: of.namespace, Name: of.name}]; ok {
			of = whose
		}
	case "ReplicaSet":
		if at := strings.LastIndex(of.name, "-"); at > 0 && s.listeners[of] == nil {
			of.kind, of.name = "Deployment", of.name[:at]
		}
	}
	s.sign(of)
}

// sign tells whoever listens. The caller holds the lock.
func (s *Signs) sign(of owner) {
	if tell := s.listeners[of]; tell != nil {
		tell()
	}
}
