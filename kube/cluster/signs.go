package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Signs reports the first signs of trouble with the objects of one run: pods and warnings show trouble long before the status
// of a workload does. If the user may not watch them, there are no signs; the engine then diagnoses objects that are stuck.
type Signs struct {
	watches *podWatches
	notice  func(plan.Warning)
	denied  map[string]bool // namespaces about which notice was given, guarded by the lock of watches

	mu         sync.Mutex
	started    time.Time // earlier warnings do not count
	namespaces map[string]bool
	objects    map[owner]bool
	closed     bool
}

// owner identifies an object as pods and events refer to it.
type owner struct{ namespace, kind, name string }

// troubleKinds are the kinds whose trouble first shows in pods and warnings.
var troubleKinds = map[string]bool{"Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "CronJob": true,
	"ReplicationController": true, "Pod": true, "PersistentVolumeClaim": true}

// withStatusSigns adds signs to the observations of kinds that are not in troubleKinds: a sign is a changed message of an object
// that is not ready.
func withStatusSigns(report func(run.Observation)) func(run.Observation) {
	var mu sync.Mutex
	last := map[plan.Object]string{}
	return func(o run.Observation) {
		if o.Status == event.InProgress && !troubleKinds[o.Object.Kind] {
			mu.Lock()
			was, known := last[o.Object]
			last[o.Object] = o.Message
			mu.Unlock()
			o.Trouble = o.Trouble || known && was != o.Message
		}
		report(o)
	}
}

func newSigns(watches *podWatches, notice func(plan.Warning)) *Signs {
	if notice == nil {
		notice = func(plan.Warning) {}
	}
	started := time.Now().Add(-time.Second) // because the times of events are in whole seconds
	return &Signs{watches: watches, notice: notice, denied: map[string]bool{}, started: started, namespaces: map[string]bool{}, objects: map[owner]bool{}}
}

// listen calls l at each sign of trouble with an object and each change of its pods.
func (s *Signs) listen(o owner, l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.objects[o] = true
	s.watches.listen(o, s, l)
	if !s.namespaces[o.namespace] {
		s.namespaces[o.namespace] = true
		s.watches.acquire(o.namespace)
	}
}

// close removes all listeners.
func (s *Signs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for o := range s.objects {
		s.watches.unlisten(o, s)
	}
	for ns := range s.namespaces {
		s.watches.release(ns)
	}
	clear(s.objects)
	clear(s.namespaces)
}

// troubleOf summarises the problems of a pod, so that changes can be detected; "" if there are none.
func troubleOf(p *corev1.Pod) string {
	var out strings.Builder
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			fmt.Fprintf(&out, "%s %s ", c.Name, w.Reason)
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 || c.RestartCount > 0 {
			fmt.Fprintf(&out, "%s %d ", c.Name, c.RestartCount)
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

// ownerOf returns the object that the trouble of a pod is about: the Deployment, another controller, or the pod itself.
func ownerOf(p *corev1.Pod) owner {
	owner := owner{p.Namespace, "Pod", p.Name}
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		owner.kind, owner.name = c.Kind, c.Name
		hash := p.Labels["pod-template-hash"]
		if name, ok := strings.CutSuffix(c.Name, "-"+hash); ok && hash != "" && c.Kind == "ReplicaSet" {
			owner.kind, owner.name = "Deployment", name
		}
	}
	return owner
}

// PodOwner returns the kind and the name of the object that the trouble of a pod is about.
func PodOwner(p *corev1.Pod) (kind, name string) {
	o := ownerOf(p)
	return o.kind, o.name
}

// PodsOf returns the object whose pods a controller creates: the Deployment of a ReplicaSet, which is named NAME-HASH, else itself.
func PodsOf(kind, name string) (ofKind, ofName string) {
	if at := strings.LastIndex(name, "-"); kind == "ReplicaSet" && at > 0 {
		return "Deployment", name[:at]
	}
	return kind, name
}
