package cluster

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// Signs tells one run the first signs of trouble with its objects: what their pods, and
// what the cluster warns of, show long before a status does. Where those may not be
// watched there are no signs, and what is stuck is looked into after a while.
type Signs struct {
	from *podWatches

	mu         sync.Mutex
	begun      time.Time // what was warned of before is no sign
	namespaces map[string]bool
	objects    map[owner]bool
	closed     bool
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

func newSigns(from *podWatches) *Signs {
	return &Signs{from: from, begun: time.Now().Add(-time.Second), namespaces: map[string]bool{}, objects: map[owner]bool{}} // events have whole seconds
}

// listen calls sign at each sign of trouble with an object.
func (s *Signs) listen(o owner, sign func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.objects[o] = true
	s.from.listen(o, s, sign)
	if !s.namespaces[o.namespace] {
		s.namespaces[o.namespace] = true
		s.from.need(o.namespace)
	}
}

// close ends all listening.
func (s *Signs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for o := range s.objects {
		s.from.unlisten(o, s)
	}
	for ns := range s.namespaces {
		s.from.release(ns)
	}
	clear(s.objects)
	clear(s.namespaces)
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

// ownerOf is the object that a pod's trouble is told of.
func ownerOf(p *corev1.Pod) owner {
	of := owner{p.Namespace, "Pod", p.Name}
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		of.kind, of.name = c.Kind, c.Name
		if hash := p.Labels["pod-template-hash"]; c.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(c.Name, "-"+hash) {
			of.kind, of.name = "Deployment", strings.TrimSuffix(c.Name, "-"+hash)
		}
	}
	return of
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}
