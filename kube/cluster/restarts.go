package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"

	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// podsUntil is how long after a watch was opened again pods that it has not reported still count: they may be gone.
const podsUntil = 2 * time.Second

// runningKinds are the workloads whose containers must keep running (R22c).
var runningKinds = map[string]bool{"Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true, "Pod": true,
	"ReplicationController": true}

// KeepsRunning reports whether an object is a workload whose containers must keep running.
func KeepsRunning(o plan.Object) bool { return runningKinds[o.Kind] && o.Namespace != "" }

// podRuns has the pods of workloads that are not being deleted and have not ended, by their owner and UID.
type podRuns map[owner]map[types.UID]podRun

// podRun is what is known of the containers of a pod.
type podRun struct {
	run.Pods
	unprobed bool      // it has a container without a readiness or startup probe
	restarts int32     // of all its containers
	started  time.Time // when the last one started, as its status says
	opened   int       // how often the watch had been opened when the pod was last reported
	version  uint64
}

// of returns what is known of the pods of a workload together.
func (r podRuns) of(o owner) (all run.Pods) {
	for _, p := range r[o] {
		all.Unready, all.Ready = all.Unready+p.Unready, all.Ready+p.Ready
		if p.Restart != "" && (all.Restart == "" || p.Restarted.After(all.Restarted)) {
			all.Restarted, all.Down, all.Restart = p.Restarted, p.Down, p.Restart
		}
		if p.unprobed && p.Started.After(all.Started) {
			all.Started = p.Started
		}
	}
	return all
}

// put records the state of a pod, and reports whether it says anything new about its owner.
func (r podRuns) put(o owner, p *corev1.Pod, opened int, now time.Time) (changed bool) {
	if !runningKinds[o.kind] {
		return false
	}
	before := r.of(o)
	version := status.ParseVersion(p.ResourceVersion)
	if version < r[o][p.UID].version { // a look has read a newer one
		return false
	}
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		r.remove(o, p.UID)
		return before != r.of(o)
	}
	if r[o] == nil {
		r[o] = map[types.UID]podRun{}
	}
	was, known := r[o][p.UID]
	next := podRunOf(p, now)
	next.opened, next.version = max(was.opened, opened), version
	if known { // the clock of a node may differ from this one
		next.Started, next.Restarted = was.Started, was.Restarted
		if !next.started.Equal(was.started) || next.restarts != was.restarts {
			next.Started = now
		}
		if next.Restart != "" && (was.Restart == "" || next.Down != was.Down || next.restarts != was.restarts) {
			next.Restarted = now
		}
	}
	r[o][p.UID] = next
	return before != r.of(o)
}

// remove forgets a pod.
func (r podRuns) remove(o owner, uid types.UID) {
	if delete(r[o], uid); len(r[o]) == 0 {
		delete(r, o)
	}
}

// podRunOf returns what the status of a pod says. Times in the future are now.
func podRunOf(p *corev1.Pod, now time.Time) (out podRun) {
	lasting := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // a sidecar
			lasting = append(lasting, c)
		}
	}
	statuses := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	for _, c := range lasting {
		out.unprobed = out.unprobed || c.ReadinessProbe == nil && c.StartupProbe == nil
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 {
			continue
		}
		s := statuses[at]
		out.restarts += s.RestartCount
		running, ended := s.State.Running, cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		if running != nil {
			out.started = latest(out.started, running.StartedAt.Time)
		}
		if ended == nil || running == nil && s.State.Terminated != nil && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			continue
		}
		restarted := ended.FinishedAt.Time
		if running != nil {
			restarted = running.StartedAt.Time
		}
		if out.Restart == "" || running == nil || !out.Down && restarted.After(out.Restarted) {
			out.Restart, out.Down, out.Restarted = endText(c.Name, ended), running == nil, earliest(restarted, now)
		}
	}
	out.Started = earliest(out.started, now)
	if podutils.IsPodReady(p) {
		out.Ready = 1
	} else {
		out.Unready = 1
	}
	return out
}

// endText says how a container ended.
func endText(container string, t *corev1.ContainerStateTerminated) string {
	if t.Reason == "OOMKilled" {
		return fmt.Sprintf("container %s was killed, because it used too much memory", container)
	}
	return fmt.Sprintf("container %s exited with code %d", container, t.ExitCode)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// reportPods reports what is known of the pods of a workload to its listeners. The caller holds the lock.
func (w *podWatches) reportPods(o owner) {
	pods := w.runs.of(o)
	pods.Listed = w.listed[o.namespace]
	for _, l := range w.listeners[o] {
		l.onPods(pods)
	}
}

// dropUnseen forgets, a while after a watch was opened again, the pods that it has not reported since.
func (w *podWatches) dropUnseen(watch podWatch, opened int) {
	select {
	case <-w.ctx.Done():
		return
	case <-time.After(podsUntil):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepPods(watch.namespace, func(_ types.UID, p podRun) bool { return p.opened >= opened })
}

// keepPods forgets the pods of a namespace, of all for "", that are not to be kept. The caller holds the lock.
func (w *podWatches) keepPods(namespace string, keep func(types.UID, podRun) bool) {
	for o, pods := range w.runs {
		if namespace != "" && namespace != o.namespace {
			continue
		}
		before := w.runs.of(o)
		for uid, p := range pods {
			if !keep(uid, p) {
				w.runs.remove(o, uid)
			}
		}
		if before != w.runs.of(o) {
			w.reportPods(o)
		}
	}
}

// forbidden records that the pods of a namespace may not be watched, and tells its listeners.
func (w *podWatches) forbidden(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied[namespace] = true
	for o, all := range w.listeners {
		for s := range all {
			if o.namespace == namespace {
				s.notifyDenied(o)
			}
		}
	}
}

// notifyDenied gives notice, once for each namespace, that the pods of a workload may not be watched. The caller holds the
// lock of the watches.
func (s *Signs) notifyDenied(o owner) {
	if !runningKinds[o.kind] || s.denied[o.namespace] {
		return
	}
	s.denied[o.namespace] = true
	s.notice(plan.Warning{Rule: "R22c", Message: fmt.Sprintf("no permission to watch pods in namespace %s: "+
		"lockstep does not see whether containers restart after their workload was ready", o.namespace)})
}
